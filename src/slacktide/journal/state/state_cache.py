"""The state of a journal for repeated reads: from a snapshot first, then only from new events."""

from __future__ import annotations

import threading
from collections.abc import Callable

from slacktide.journal.events import Record
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import known
from slacktide.journal.store.base import Store


class StateCache:
    """Folds a journal on from where it was last read.

    The state that it returns is changed by the next call: threads that share it must hold its `lock`.
    """

    def __init__(self, store: Store, notify: Callable[[Record], None] = lambda record: None) -> None:
        """Name the journal, and what is called with every event that is read, once and in order."""
        self._store, self._notify = store, notify
        self._state: JournalState | None = None
        self.lock = threading.RLock()

    def __call__(self) -> JournalState:
        """Return the present state."""
        with self.lock:
            if self._state is None:
                self._state = known(self._store)
            for record in self._store.read(after=self._state.seq):
                self._state.apply(record)
                self._notify(record)
            return self._state
