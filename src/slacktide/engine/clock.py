"""The market clock: hours since an epoch, as fast as asked; it never goes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from slacktide.errors import InputError

DRIFT_S = 2.0
"""A wall clock that is ahead of the machine's uptime by more than this is believed: the machine slept."""


class Clock:
    """Reads market hours from two clocks.

    The wall's clock says where a run stands after its controller was away; the monotonic one carries on
    from there, so that a wall clock that is set back does no harm. A machine that slept is noticed by the
    wall clock being ahead, and time jumps forward.
    """

    def __init__(
        self,
        epoch: datetime,
        speed: float,
        *,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if not 0 < speed < 1e9:
            raise InputError(f"speed must be > 0, got {speed:g}")
        self.speed = speed
        self._wall, self._monotonic = wall, monotonic
        self.set(epoch)

    def set(self, epoch: datetime) -> None:
        """Let hour 0 be at this moment."""
        self.epoch = epoch
        self._seen_s = (self._wall() - epoch).total_seconds()
        self._at = self._monotonic()

    def hours(self) -> float:
        """Return the market hours since the epoch."""
        now = self._monotonic()
        self._seen_s += now - self._at
        self._at = now
        by_wall = (self._wall() - self.epoch).total_seconds()
        if by_wall > self._seen_s + DRIFT_S:
            self._seen_s = by_wall
        return self._seen_s * self.speed / 3600.0

    def seconds_until(self, hours: float) -> float:
        """Return how many seconds of the wall clock lie between now and a time of the market."""
        return max(0.0, (hours - self.hours()) * 3600.0 / self.speed)
