"""Looks a journal through for alerts, from where it was left, and keeps them for the hooks."""

from __future__ import annotations

import json

from slacktide.app.alerts.alert import Alert
from slacktide.app.alerts.sending.outbox import Outbox
from slacktide.app.alerts.watch import Watch
from slacktide.journal.codec.json_scalars import Misfit
from slacktide.journal.codec.json_types import form
from slacktide.journal.store.base import Store

EVERY_EVENTS = 500
"""After so many events what is known is kept, also where there is nothing to tell."""


class Teller:
    """Folds a journal on, and keeps what is to be told before anything later is looked at."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        """Begin where the outbox was left; where it never was, at the present end of the journal."""
        self._store, self._outbox = store, outbox
        present, kept = store.last_seq(), outbox.watched()
        if kept is not None and kept.seq > present:  # the journal was replaced by an older copy
            kept = None
        found = None if kept is None else _read(kept.body)
        self._silent_seq = present if kept is None else kept.seq
        """Up to here nothing is told: it was told already, or nobody wanted to know."""
        self._watch = found or Watch()
        self._kept_seq = self._watch.seq

    def catch_up(self) -> int:
        """Look through all that is new; return how many alerts there were."""
        found, told = list[Alert](), 0
        for record in self._store.read(after=self._watch.seq):
            alerts = self._watch.hear(record)
            found += alerts if record.seq > self._silent_seq else ()
            if found or self._watch.seq - self._kept_seq >= EVERY_EVENTS:
                self._keep(found)
                told, found = told + len(found), []
        return told

    def keep(self) -> None:
        """Keep how far the journal was looked through."""
        if self._kept_seq != self._watch.seq:
            self._keep([])

    def _keep(self, alerts: list[Alert]) -> None:
        kind = form(Watch)
        self._outbox.keep(self._watch.seq, kind.text(kind.plain(self._watch)), alerts)
        self._kept_seq = self._watch.seq


def _read(body: str) -> Watch | None:
    """Return what was kept; None where another version did: then the journal is looked through again."""
    try:
        found: Watch = form(Watch).read(json.loads(body))
    except (ValueError, TypeError, Misfit):
        return None
    return found
