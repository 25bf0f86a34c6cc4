"""The course of a fleet: what its allocator said of itself is read on, and thinned out where it is much."""

from __future__ import annotations

from slacktide.app.journal.fleets import FleetTimelines
from slacktide.app.journal.timeline import MOST_POINTS
from slacktide.journal.events import ClockSet, Remembered
from slacktide.journal.store.base import MemoryStore


def remembered(hours: float, fleet: str = "f") -> Remembered:
    """An allocator that keeps as much in reserve as hours have passed."""
    return Remembered(at_hours=hours, fleet=fleet, reserved_usd=hours, usd_per_job_hour=None)


def test_only_what_is_new_is_read_and_fleets_are_told_apart() -> None:
    store = MemoryStore()
    courses = FleetTimelines(store)
    store.append([remembered(1.0), remembered(1.5, "other")])
    assert [one.reserved_usd for one in courses.of("f")] == [1.0]
    store.append([remembered(2.0)])
    assert [one.reserved_usd for one in courses.of("f")] == [1.0, 2.0]
    assert [one.at_hours for one in courses.of("other")] == [1.5]
    assert courses.of("none") == []


def test_many_moments_are_thinned_out_and_the_newest_stays() -> None:
    store = MemoryStore()
    store.append([remembered(float(hour)) for hour in range(5000)])
    found = [one.at_hours for one in FleetTimelines(store).of("f")]
    assert MOST_POINTS / 2 <= len(found) <= 2 * MOST_POINTS
    assert found == sorted(found)
    assert found[-1] == 4999.0


def test_another_clock_begins_anew() -> None:
    store = MemoryStore()
    store.append([remembered(1.0), ClockSet(at_hours=0.0, epoch_utc="2026-01-01T00:00:00+00:00", speed=1.0)])
    assert FleetTimelines(store).of("f") == []
