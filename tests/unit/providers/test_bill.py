"""Machines are paid by real time from their ticket to its end, whatever clocks do and jobs use."""

from __future__ import annotations

import pytest

from slacktide.engine.bills.machines import machine_bill
from slacktide.journal.events import ClockJumped
from slacktide.results.machine_bill import LAST_BOOTS, MachineCost, Spread

from .parts_of_records import as_told, clock, joined, records, rented, returned, utc


def one(*written: tuple[float, object], until: float | None = None) -> MachineCost:
    bill = machine_bill(records(*written), None if until is None else utc(until))  # type: ignore[arg-type]
    (line,) = bill.lines
    return line


def test_a_machine_is_paid_from_its_ticket_to_its_return() -> None:
    line = one((0.0, rented("1")), (0.1, joined("1")), (2.5, returned("1")))
    assert (line.hours, line.cost_usd, line.gpu_hours) == (2.5, 30.0, 20.0)
    assert (line.rented_utc, line.joined_utc, line.returned_utc) == (utc(0), utc(0.1), utc(2.5))
    assert line.boot_hours == pytest.approx(0.1)
    assert (line.machine, line.cause, line.why) == ("i-1", "not-wanted", "for not-wanted")


def test_a_market_that_runs_fast_costs_no_more() -> None:
    fast = (0.0, clock(60.0)), (0.0, rented("1", 0.0)), (0.1, joined("1", 6.0)), (1.0, returned("1", 60.0))
    assert one(*fast).hours == 1.0
    assert one(*fast).boot_hours == pytest.approx(0.1)


def test_a_fast_market_that_waited_for_its_controller_costs_no_less() -> None:
    assert one((0.0, clock(60.0)), (0.0, rented("1", 0.0)), (3.0, returned("1", 60.0))).hours == 3.0


@pytest.mark.parametrize("wall", [-5.0, 1.0, 900.0])
def test_a_wall_clock_that_was_set_changes_no_bill_at_the_speed_of_the_wall(wall: float) -> None:
    line = one((0.0, clock(1.0)), (0.0, rented("1", 2.0)), (wall, returned("1", 3.5)))
    assert line.hours == 1.5


def test_a_wall_clock_that_was_set_is_known_from_the_journal_while_a_machine_is_rented() -> None:
    jumped = ClockJumped(at_hours=1.0, from_hours=1.0, why="the wall clock was set forward by 899 h")
    written = (0.0, clock(1.0)), (0.0, rented("1", 0.0)), (900.0, jumped)
    assert one(*written).hours == 1.0
    assert one(*written, until=901.0).hours == 2.0
    unseen = ClockJumped(job="job", at_hours=0.5, from_hours=0.0, why="slots passed unseen")
    assert one(*written[:2], (1.0, unseen), until=2.0).hours == 2.0


def test_a_clock_at_half_the_speed_of_the_wall() -> None:
    assert one((0.0, clock(0.5)), (0.0, rented("1", 2.0)), (2.0, returned("1", 3.0))).hours == 2.0


def test_a_clock_that_was_set_anew_is_bridged_by_the_wall() -> None:
    line = one(
        (0.0, clock(1.0)), (7.0, rented("1", 7.0)), (9.0, clock(1.0)), (10.0, returned("1", 1.0)), until=99.0
    )
    assert line.hours == 3.0


def test_time_never_runs_backwards() -> None:
    assert one((5.0, rented("1")), (4.0, returned("1"))).hours == 0.0
    assert one((5.0, rented("1")), until=4.0).hours == 0.0
    assert one((0.0, clock(1.0)), (5.0, rented("1", 5.0)), (5.0, returned("1", 4.0))).hours == 0.0


def test_an_open_ticket_costs_until_now_or_until_the_last_record() -> None:
    written = (0.0, rented("1")), (0.2, joined("1")), (3.0, clock(1.0))
    assert one(*written).hours == pytest.approx(3.0)
    assert one(*written, until=4.0).hours == pytest.approx(4.0)
    assert one(*written, until=4.0).returned_utc is None


def test_a_ticket_that_nobody_answered_is_counted_until_it_is_closed() -> None:
    assert one((0.0, rented("1")), until=2.0).hours == 2.0
    assert not one((0.0, rented("1")), until=2.0).never_joined
    given_up = one((0.0, rented("1")), (0.5, returned("1")), until=2.0)
    assert (given_up.hours, given_up.never_joined) == (0.5, True)


@pytest.mark.parametrize("cause", ["no-capacity", "refused"])
def test_a_ticket_that_was_closed_without_a_machine_costs_nothing(cause: str) -> None:
    line = one((0.0, rented("1")), (2.0, returned("1", cause=cause)))
    assert (line.hours, line.cost_usd, line.free, line.never_joined) == (0.0, 0.0, True, False)


def test_what_ended_unseen_costs_until_its_provider_says_that_it_ended() -> None:
    late = (9.0, returned("1", cause="interrupted", ended=2.0))
    assert one((0.0, rented("1")), (0.1, joined("1")), late).hours == pytest.approx(2.0)
    before = (1.0, returned("1", cause="interrupted", ended=-3.0))
    assert one((0.0, rented("1")), before).hours == 0.0
    after = (1.0, returned("1", cause="interrupted", ended=3.0))
    assert one((0.0, rented("1")), after).hours == 1.0


def test_facts_of_tickets_that_are_closed_or_unknown_change_nothing() -> None:
    written = [rented("1"), joined("1", 0.1), returned("1", 1.0)]
    more = [
        *written,
        joined("1", 2.0),
        returned("1", 3.0, "interrupted"),
        joined("9", 4.0),
        returned("9", 5.0),
    ]
    assert machine_bill(as_told(more)).lines == machine_bill(as_told(written)).lines
    assert one(*((each.at_hours, each) for each in [*written[:2], joined("1", 0.9)])).boot_hours == 0.1


def test_no_machines_no_bill() -> None:
    bill = machine_bill([])
    assert (bill.lines, bill.pools, bill.until_utc, bill.total.cost_usd) == ((), (), None, 0.0)


def test_pools_are_added_up_to_the_cent() -> None:
    facts = [
        *(rented(str(number), usd=0.1) for number in range(10)),
        rented("od", on_demand=True, usd=32.0), rented("b", pool="b"), rented("full", pool="b"),
        *(joined(str(number), 0.01 * (number + 1)) for number in range(8)), joined("od", 0.5),
        *(returned(str(number), 1.0, "interrupted" if number < 3 else "not-wanted") for number in range(10)),
        returned("full", 1.0, "no-capacity"), returned("od", 2.0), returned("b", 3.0, "never-joined"),
    ]  # fmt: skip
    bill = machine_bill(as_told(facts))
    spot, on_demand, other = bill.pools
    assert [(one.pool, one.capacity) for one in bill.pools] == [
        ("a", "spot"),
        ("a", "on-demand"),
        ("b", "spot"),
    ]
    assert (spot.machines, spot.hours, spot.cost_usd) == (10, 10.0, 1.0)
    assert sum([0.1] * 10) != 1.0, "plain addition would be off"
    assert (spot.never_joined, spot.interrupted, spot.no_capacity) == (2, 3, 0)
    assert spot.boot.count == 8
    assert spot.boot.median_hours == pytest.approx(0.045)
    assert spot.boot.worst_hours == pytest.approx(0.08)
    assert (on_demand.cost_usd, on_demand.boot.count) == (64.0, 1)
    assert (other.machines, other.hours, other.no_capacity, other.never_joined) == (1, 3.0, 1, 1)
    assert other.boot == Spread(0, None, None)
    total = bill.total
    assert (total.machines, total.hours, total.cost_usd) == (12, 15.0, 101.0)
    assert total.gpu_hours == 120.0


def test_the_last_boots_of_a_pool_say_how_long_the_next_one_takes() -> None:
    old = [fact for n in range(50) for fact in (rented(f"o{n}", n), joined(f"o{n}", n + 0.9))]
    new = [fact for n in range(LAST_BOOTS) for fact in (rented(f"n{n}", 60 + n), joined(f"n{n}", 60.2 + n))]
    bill = machine_bill(as_told([*old, *new, rented("b", 90.0, pool="b")]))
    assert bill.boot_hours("a") == pytest.approx(0.2)
    assert machine_bill(as_told(old)).boot_hours("a") == pytest.approx(0.9)
    assert bill.boot_hours("b") is None
    assert bill.boot_hours("nowhere") is None
