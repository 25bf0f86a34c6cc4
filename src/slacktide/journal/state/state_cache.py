"""All that a journal tells, for whoever asks again and again: read from a snapshot, then only what is new."""

from __future__ import annotations

import threading
from collections.abc import Callable

from slacktide.journal.events import Record
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import known
from slacktide.journal.store.base import Store


class StateCache:
    """Folds a journal on from where it was last read.

    What it returns changes when it is called again: who shares it with other threads holds its `lock` while
    reading.
    """

    def __init__(self, store: Store, hear: Callable[[Record], None] = lambda record: None) -> None:
        """Name the journal, and who is to hear of every event that is read, once and in order."""
        self._store, self._hear = store, hear
        self._state: JournalState | None = None
        self.lock = threading.RLock()

    def __call__(self) -> JournalState:
        """Return all that the journal tells by now."""
        with self.lock:
            if self._state is None:
                self._state = known(self._store)
            for record in self._store.read(after=self._state.seq):
                self._state.apply(record)
                self._hear(record)
            return self._state
