"""The state of a journal knows which machines are rented, through snapshots and across clocks."""

from __future__ import annotations

from slacktide.journal.events import ClockSet, Joined, Rented, Returned
from slacktide.journal.state.snapshots import keep, known, read_state
from slacktide.journal.state.tickets import MachineKind
from slacktide.journal.store.base import MemoryStore


def rented(ticket: str, at_hours: float) -> Rented:
    return Rented(at_hours=at_hours, ticket=ticket, capacity="spot", pool="a", gpus=8, usd_per_hour=12.0)


def test_tickets_are_folded_kept_and_outlive_the_clock() -> None:
    store = MemoryStore()
    store.append([rented("1-a", 1.0), rented("2-a", 1.0), rented("3-a", 1.0)])
    store.append([Joined(at_hours=1.1, ticket="2-a", machine="i-2", address="ip", boot_hours=0.1)])
    store.append([Returned(at_hours=1.2, ticket="1-a", left=True), Returned(at_hours=1.2, ticket="3-a")])
    state = read_state(store)
    assert list(state.tickets.open) == ["2-a"]
    assert state.tickets.open["2-a"].machine == "i-2"
    assert state.tickets.open["2-a"].spec == MachineKind("spot", "a", 8)
    assert list(state.tickets.closed) == ["1-a"], "its machine may be left"
    keep(store, state)
    assert known(store).tickets == state.tickets
    store.append([ClockSet(at_hours=0.0, epoch_utc="2026-01-01T00:00:00+00:00", speed=1.0)])
    again = read_state(store).tickets
    assert (list(again.open), again.count) == (["2-a"], 3)
    assert (again.open["2-a"].rented_hours, again.open["2-a"].joined_hours) == (0.0, 0.0)
    assert again.closed["1-a"].returned_hours == 0.0


def test_old_closed_tickets_are_forgotten() -> None:
    store = MemoryStore()
    store.append([rented("1-a", 1.0), rented("2-a", 1.0), Returned(at_hours=1.2, ticket="1-a", left=True)])
    store.append([Returned(at_hours=2.5, ticket="2-a", left=True)])
    assert list(read_state(store).tickets.closed) == ["2-a"]
