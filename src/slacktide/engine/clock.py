"""The market clock: hours since it was set, at a chosen speed; it never goes back, and no user can set it.

It counts by the machine's own clock, which goes on while the machine sleeps and which no user can set. So a
wall clock that is set forward changes no bill, and one that is set back delays no job. Only
after a reboot does the wall clock say how much time has passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

from slacktide.core import machine_clock as boot
from slacktide.core.errors import InputError
from slacktide.journal.events import ClockAnchored, ClockJumped, ClockSet

JUMP_S = 2.0
"""A wall clock that moves by more than this against the machine's own was set by a user or by the system."""
FASTEST = 1e9


class Clock:
    """Reads market hours from the machine's own clock.

    A clock that is faster than real time is for rehearsals, and waits for the loop that steps it: between
    two steps no more hours pass than `step` allowed. At speed 1 or less it does not wait.
    """

    def __init__(
        self,
        speed: float,
        hours: float = 0.0,
        *,
        seconds: Callable[[], float] = boot.seconds,
        wall: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Start at `hours`; `speed` is how many market hours pass in a real hour."""
        if not 0 < speed < FASTEST:
            raise InputError(f"speed must be > 0 and < {FASTEST:g}, got {speed:g}")
        self.speed = speed
        self._seconds, self._wall = seconds, wall
        self.set(hours)

    def set(self, hours: float = 0.0) -> None:
        """Set the clock to this hour."""
        self._from_hours, self._from_s = hours, self._seconds()
        self._most_hours, self.waited_hours = math.inf, 0.0
        self._wall_ahead_s = self._ahead_s()

    def hours(self) -> float:
        """Return the market hours since the clock was set."""
        return min(self._running(), self._most_hours)

    def step(self, most_hours: float) -> float:
        """Return the hours at the beginning of a step; at most this many more pass until the next one."""
        now = self.hours()
        self.waited_hours += self._running() - now
        self._from_hours, self._from_s = now, self._seconds()
        self._most_hours = math.inf if self.speed <= 1.0 else now + most_hours
        return now

    def anchor(self, why: str = "") -> ClockAnchored:
        """Return an event with the clock's present time, from which another process can go on."""
        self.waited_hours = 0.0
        return ClockAnchored(
            at_hours=self.hours(),
            utc=self._wall().isoformat(),
            boot_id=boot.boot_id(),
            boot_s=self._seconds(),
            why=why,
        )

    def jumped_wall(self) -> ClockJumped | None:
        """Return an event when the wall clock was set since the last call."""
        jumped_s, now = self._ahead_s() - self._wall_ahead_s, self.hours()
        if abs(jumped_s) < JUMP_S:
            return None
        self._wall_ahead_s += jumped_s
        how = f"the wall clock was set {'forward' if jumped_s > 0 else 'back'} by {abs(jumped_s):.0f} s"
        why = f"{how}; the market's clock and the bills ignore it"
        return ClockJumped(at_hours=now, from_hours=now, why=why)

    def slowed_down(self, slot_hours: float) -> ClockAnchored | None:
        """Return an event when the market clock has waited for more than a slot since the last anchor."""
        if self.waited_hours <= slot_hours:
            return None
        slot_s = slot_hours * 3600.0 / self.speed
        how = f"at speed {self.speed:g} a slot takes {slot_s:.2g} s, less than a few steps take"
        return self.anchor(f"{how}: the market's clock waits for the steps")

    def _running(self) -> float:
        return self._from_hours + (self._seconds() - self._from_s) * self.speed / 3600.0

    def _ahead_s(self) -> float:
        return self._wall().timestamp() - self._seconds()


def resumed_hours(
    was_set: ClockSet,
    anchor: ClockAnchored | None,
    latest_hours: float,
    *,
    seconds: Callable[[], float] = boot.seconds,
    wall: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> float:
    """Return the present hour of a clock that another process ran, never before `latest_hours`.

    If the machine was not rebooted since, its own clock says how much time has passed, else the wall clock.
    """
    if anchor is not None and anchor.boot_id and anchor.boot_id == boot.boot_id():
        passed_s, from_hours = seconds() - anchor.boot_s, anchor.at_hours
    elif anchor is not None:
        passed_s, from_hours = _since(anchor.utc, wall()), anchor.at_hours
    else:  # an older journal
        passed_s, from_hours = _since(was_set.epoch_utc, wall()), was_set.at_hours
    return max(latest_hours, from_hours + max(0.0, passed_s) * was_set.speed / 3600.0)


def _since(utc: str, now: datetime) -> float:
    return (now - datetime.fromisoformat(utc)).total_seconds()
