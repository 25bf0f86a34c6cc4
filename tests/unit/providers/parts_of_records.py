"""Records of tickets, written at told times."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from slacktide.journal.events import ClockSet, Event, Joined, Record, Rented, Returned

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def utc(hours: float) -> datetime:
    """Return a time so many hours after the start."""
    return START + timedelta(hours=hours)


def records(*written: tuple[float, Event]) -> list[Record]:
    """Return events as records, each with the hour of the wall clock at which it was written."""
    return [Record(number + 1, utc(hours), event) for number, (hours, event) in enumerate(written)]


def as_told(events: Iterable[Event]) -> list[Record]:
    """Return events as records of a journal whose two clocks agree."""
    return records(*((event.at_hours, event) for event in events))


def rented(
    ticket: str, at: float = 0.0, *, pool: str = "a", usd: float = 12.0, on_demand: bool = False
) -> Rented:
    return Rented(
        at_hours=at, ticket=ticket, capacity="on-demand" if on_demand else "spot", pool=pool, gpus=8,
        usd_per_hour=usd,
    )  # fmt: skip


def joined(ticket: str, at: float = 0.0) -> Joined:
    return Joined(at_hours=at, ticket=ticket, machine=f"i-{ticket}", address="ip", boot_hours=0.0)


def returned(ticket: str, at: float = 0.0, cause: str = "not-wanted", ended: float | None = None) -> Returned:
    ended_utc = "" if ended is None else utc(ended).isoformat()
    return Returned(at_hours=at, ticket=ticket, cause=cause, why=f"for {cause}", ended_utc=ended_utc)  # type: ignore[arg-type]


def clock(speed: float, at: float = 0.0) -> ClockSet:
    return ClockSet(at_hours=at, epoch_utc=START.isoformat(), speed=speed)
