"""Snapshots: the state of a journal, kept in it, so that the next reader folds only what came later.

A snapshot is a cache. It is written as the types of the state declare it, so a new field needs nothing here.
Its form is a digest of the code that folds: a snapshot that other code made is never converted, but ignored,
and so is one that cannot be read.
"""

from __future__ import annotations

import hashlib
import json
import threading
import zlib
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, get_args, get_type_hints

from slacktide.journal.codec import codec, json_forms, old_journals
from slacktide.journal.codec.json_forms import FormMismatch, form
from slacktide.journal.events import Record
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import Snapshot, Store

EVERY_EVENTS = 500  # that many events are folded in some 15 ms
EVENTS_PER_JOB = 2
"""A job in a snapshot takes about as long to write as this many events to fold. As the interval grows with
the jobs, snapshots cost an event the same however many jobs there ever were."""
PACKED_PER_EVENT = 10  # this many jobs that are packed already take as long to write as one event to fold
READERS = (codec.__name__, json_forms.__name__, old_journals.__name__, __name__)
"""What events and snapshots are read with, next to the modules in which the state's types are declared."""


def read_state(store: Store) -> JournalState:
    """Return the state of a journal: its latest snapshot, and what came after it."""
    state = known(store)
    for record in store.read(after=state.seq):
        state.apply(record)
    return state


def known(store: Store) -> JournalState:
    """Return the state in the latest snapshot; an empty one where no snapshot can be used."""
    found = store.latest(present_form())
    if found is None or found.seq > store.last_seq():
        return JournalState()
    try:
        state: JournalState = form(JournalState).read(json.loads(zlib.decompress(found.body)))
    except (zlib.error, ValueError, TypeError, RecursionError, FormMismatch):
        return JournalState()
    return state if state.seq == found.seq else JournalState()


def keep(store: Store, state: JournalState) -> None:
    """Leave a snapshot of the state in its journal."""
    try:
        text = form(JournalState).text(form(JournalState).plain(state))
    except FormMismatch:
        return  # a state that could not be read back is not kept
    # Compressed it is a tenth, and carries a checksum.
    store.snapshot(Snapshot(state.seq, present_form(), zlib.compress(text.encode("ascii"), 1)))


def is_due(state: JournalState, kept_seq: int) -> bool:
    """Whether enough has happened since the last snapshot that another one pays."""
    packed = len(state.jobs) - len(state.jobs.at_hand)
    weight = EVENTS_PER_JOB * len(state.jobs.at_hand) + packed // PACKED_PER_EVENT
    return state.seq - kept_seq >= max(EVERY_EVENTS, weight)


@cache
def present_form() -> str:
    """Return the digest of all code that determines what a snapshot holds and how it is written."""
    digest = hashlib.sha256()
    for name in sorted({*_modules(JournalState), *READERS}):
        digest.update(_source(name).encode("utf-8"))
    return digest.hexdigest()


def _modules(hint: Any) -> set[str]:
    """Return our modules that declare a type and the types of everything in it."""
    found = {name for inner in get_args(hint) for name in _modules(inner)}
    if getattr(hint, "__module__", "").startswith("slacktide."):
        found.add(hint.__module__)
        found |= {name for inner in get_type_hints(hint).values() for name in _modules(inner)}
    return found


def _source(module: str) -> str:
    spec = find_spec(module)  # also of a module that is not imported yet
    assert spec is not None
    loader: Any = spec.loader
    return loader.get_source(module) or version("slacktide")  # installed without sources


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
