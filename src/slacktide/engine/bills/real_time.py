"""How much time really passed between the records of a journal, whatever its clock or the wall's did."""

from __future__ import annotations

from datetime import datetime

from slacktide.journal.events import ClockSet, Record

SECONDS_PER_HOUR = 3600.0


class RealTime:
    """Counts real hours from record to record.

    Rented machines are paid by real time. The market's clock may run at a speed and may be set, and a fast
    one waits for its controller; the wall's clock may be set by any user. So where the market's clock is no
    faster than the wall's and was not set in between, it gives the time that passed, because it counts by
    the computer's own clock, which no user can set. Everywhere else the times at which records were written
    give it. Time never runs backwards: a clock that was set back counts as one that stood still.
    """

    def __init__(self) -> None:
        self.hours = 0.0
        """Since the first record."""
        self.speed: float | None = None
        """How fast the market's clock runs; None before it was set."""
        self._last: Record | None = None

    def advance(self, record: Record) -> float:
        """Move on to a record, and return the hours at it.

        Only for records whose event happened when it was written: in many events `at_hours` is earlier.
        """
        self.hours += self._passed(record)
        self._last = record
        if isinstance(record.event, ClockSet):
            self.speed = record.event.speed
        return self.hours

    def at(self, utc: datetime) -> float:
        """Return the hours at a time after the last record."""
        return self.hours if self._last is None else self.hours + between(self._last.time_utc, utc)

    def _passed(self, record: Record) -> float:
        before = self._last
        if before is None:
            return 0.0
        if self.speed is not None and self.speed <= 1.0 and not isinstance(record.event, ClockSet):
            return max(0.0, record.event.at_hours - before.event.at_hours) / self.speed
        return between(before.time_utc, record.time_utc)


def between(begin: datetime, end: datetime) -> float:
    """Return the hours from one time to another; 0 where that is earlier."""
    return max(0.0, (end - begin).total_seconds() / SECONDS_PER_HOUR)
