"""The events that explain why a job holds what it holds; each time only new events are read."""

from __future__ import annotations

from collections import OrderedDict

from slacktide.journal.events import Decided, Ended, Event, Preempted, Record, Resumed, Stalled, WorkerFailed
from slacktide.journal.store.base import Store
from slacktide.report.text.sentences.why import NO_NEW_DECISION

MOST_JOBS = 256  # histories in memory; the one that was not requested for the longest time is dropped
ALWAYS_KEPT = (Preempted, Resumed, WorkerFailed, Stalled, Ended)


class DecisionHistory:
    """Those of a job's events that its explanation needs: as good as all of them, however many there are.

    Of decisions it keeps those to move, and of the rest the newest row of equal ones, by its ends, with the
    one before it.
    """

    def __init__(self) -> None:
        self.seq = 0
        """The last event that was read."""
        self._kept: dict[int, Event] = {}
        self._row: list[int] = []
        """The one before the newest row of equal decisions, if any, and the ends of that row."""
        self._left: int | None = None
        """The last decision that no policy made, where it came after all others."""

    def apply(self, record: Record) -> None:
        """Take one more event of the job into account."""
        event = record.event
        if not self.seq or isinstance(event, ALWAYS_KEPT):
            self._kept[record.seq] = event
        self.seq = record.seq
        if isinstance(event, Decided) and event.ending is None:
            self._decided(record.seq, event)

    def events(self) -> list[Event]:
        """Return the events that are needed, in the journal's order."""
        return [self._kept[seq] for seq in sorted(self._kept)]

    def _decided(self, seq: int, event: Decided) -> None:
        self._kept[seq] = event
        newest = self._kept[self._row[-1]] if self._row else None
        if event.why == NO_NEW_DECISION:
            before, self._left = self._left, seq
            self._forget(before)
        elif self._left is None and isinstance(newest, Decided) and same_decision(newest, event):
            last, self._row[-1] = self._row[-1], seq
            self._forget(last)
        else:
            before = self._row[-1] if self._left is None and self._row else self._left
            old, self._row = self._row, [*([] if before is None else [before]), seq, seq]
            self._left = None
            for one in old:
                self._forget(one)

    def _forget(self, seq: int | None) -> None:
        event = None if seq is None else self._kept.get(seq)
        if seq is None or not isinstance(event, Decided) or event.moved_from:
            return
        if seq not in self._row and seq != self._left:
            del self._kept[seq]


def same_decision(one: Decided, other: Decided) -> bool:
    """Whether two decisions hold the same for the same reason."""
    return (one.why, one.pool, one.spot_gpus, one.on_demand_gpus) == (
        other.why,
        other.pool,
        other.spot_gpus,
        other.on_demand_gpus,
    )


class DecisionHistories:
    """The histories of a journal's jobs, each read on from where it was left."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._histories: OrderedDict[str, DecisionHistory] = OrderedDict()

    def events(self, job: str) -> list[Event]:
        """Return what the explanation of a job needs of its events, up to now."""
        history = self._histories.setdefault(job, DecisionHistory())
        self._histories.move_to_end(job)
        while len(self._histories) > MOST_JOBS:
            self._histories.popitem(last=False)
        for record in self._store.read(after=history.seq, job=job):
            history.apply(record)
        return history.events()
