"""The market clock: by the machine's own clock, across restarts, and never faster than it is looked at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from slacktide.core import machine_clock as boot
from slacktide.core.errors import InputError
from slacktide.engine.clock import Clock, resumed_hours
from slacktide.journal.events import ClockAnchored, ClockSet

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Time:
    """A machine whose two clocks the test moves."""

    def __init__(self) -> None:
        self.boot_s, self.wall_s = 1000.0, 0.0

    def pass_s(self, seconds: float) -> None:
        self.boot_s += seconds
        self.wall_s += seconds

    def seconds(self) -> float:
        return self.boot_s

    def wall(self) -> datetime:
        return EPOCH + timedelta(seconds=self.wall_s)

    def clock(self, speed: float = 3600.0, hours: float = 0.0) -> Clock:
        return Clock(speed, hours, seconds=self.seconds, wall=self.wall)

    def resumed(self, anchor: ClockAnchored | None, latest_hours: float = 0.0) -> float:
        was_set = ClockSet(at_hours=0.0, epoch_utc=EPOCH.isoformat(), speed=3600.0)
        return resumed_hours(was_set, anchor, latest_hours, seconds=self.seconds, wall=self.wall)


def test_a_wall_clock_that_is_set_moves_nothing_and_is_told_once() -> None:
    time = Time()
    clock = time.clock()
    time.pass_s(5.0)
    time.wall_s += 1200.0
    assert clock.hours() == pytest.approx(5.0)
    jumped = clock.jumped_wall()
    assert jumped is not None
    assert "forward by 1200 s" in jumped.why
    assert clock.jumped_wall() is None
    time.wall_s -= 7200.0
    time.pass_s(1.0)
    assert clock.hours() == pytest.approx(6.0)
    jumped = clock.jumped_wall()
    assert jumped is not None
    assert "back by 7200 s" in jumped.why


def test_across_restarts_of_one_boot_the_wall_clock_does_not_count() -> None:
    time = Time()
    anchor = time.clock(hours=3.0).anchor()
    time.pass_s(10.0)
    time.wall_s -= 100_000.0
    assert time.resumed(anchor, 4.0) == pytest.approx(13.0)


def test_across_a_boot_the_wall_clock_counts_but_never_back(monkeypatch: pytest.MonkeyPatch) -> None:
    time = Time()
    anchor = time.clock(hours=3.0).anchor()
    monkeypatch.setattr(boot, "boot_id", lambda: "another")
    time.boot_s, time.wall_s = 2.0, 20.0
    assert time.resumed(anchor, 4.0) == pytest.approx(23.0)
    time.wall_s = -500.0
    assert time.resumed(anchor, 4.0) == pytest.approx(4.0)


def test_a_journal_of_before_goes_on_by_the_wall_clock() -> None:
    time = Time()
    time.pass_s(7.0)
    assert time.resumed(None) == pytest.approx(7.0)


def test_a_fast_market_waits_for_slow_steps_and_says_so() -> None:
    time = Time()
    clock = time.clock()
    seen = []
    for _ in range(10):
        seen.append(clock.step(0.2))
        time.pass_s(1.0)  # an hour of the market
        assert clock.hours() == pytest.approx(seen[-1] + 0.2)
    assert seen == pytest.approx([0.2 * number for number in range(10)])
    slowed = clock.slowed_down(0.6)
    assert slowed is not None
    assert "waits for the steps" in slowed.why
    assert clock.slowed_down(0.6) is None
    assert time.resumed(slowed) == pytest.approx(clock.hours())


def test_real_time_waits_for_nobody() -> None:
    time = Time()
    clock = time.clock(1.0)
    clock.step(0.2)
    time.pass_s(7200.0)
    assert clock.step(0.2) == pytest.approx(2.0)


@pytest.mark.parametrize("speed", [0.0, -1.0, 1e9, float("nan")])
def test_a_speed_must_make_sense(speed: float) -> None:
    with pytest.raises(InputError, match="speed must be > 0"):
        Clock(speed)
