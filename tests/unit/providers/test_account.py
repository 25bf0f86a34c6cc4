"""The bill of machines beside their provider's account, also where answers are lost and controllers die."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from slacktide.engine.bills.machines import between, compared, machine_bill
from slacktide.journal.events import Record
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import Machine, MachineState, Renter
from slacktide.results.machine_bill import MachineAccount
from slacktide.testing import fake_provider as fake
from slacktide.testing.fake_provider import EPOCH, Fake, Faults

from .campaign import Life
from .parts_of_records import as_told, joined, rented, returned, utc

SPOT = MachineKind("spot", "a", 8)
SEEDS = 300


def machine(
    ticket: str, since: float | None, until: float | None = None, state: MachineState = "gone", name: str = ""
) -> Machine:
    return Machine(
        name or f"i-{ticket}", ticket, SPOT, state,
        since_utc=None if since is None else utc(since), until_utc=None if until is None else utc(until),
    )  # fmt: skip


FACTS = [
    rented("1"), rented("2"), rented("3"), rented("4"), joined("1", 0.1), joined("2", 0.1),
    returned("3", 0.5, "no-capacity"), returned("1", 2.02),
]  # fmt: skip


def account(*machines: Machine) -> MachineAccount:
    return compared(machine_bill(as_told(FACTS), utc(4.0)), machines, lambda spec: 9.0)


def test_ours_and_theirs_stand_side_by_side() -> None:
    found = account(machine("1", 0.0, 2.0), machine("2", 0.0, state="up"))
    first, second, third = found.rows
    assert first.our_hours == pytest.approx(2.02)
    assert first.their_hours == 2.0
    assert first.difference_share == pytest.approx(0.01)
    assert first.our_usd == pytest.approx(24.24)
    assert first.their_usd == 24.0
    assert (second.our_hours, second.their_hours, second.difference_share) == (4.0, 4.0, 0.0)
    assert third.ticket == "4", "a ticket that found no capacity has no machine to compare"
    assert found.our_hours == pytest.approx(6.02)
    assert found.difference_share == pytest.approx(0.02 / 6.0)


def test_what_is_not_listed_is_unknown_and_not_zero() -> None:
    found = account(machine("2", 0.0, state="up"))
    assert [row.their_hours for row in found.rows] == [None, 4.0, None]
    assert [row.difference_share for row in found.rows] == [None, 0.0, None]
    assert (found.unknown, found.difference_share) == (2, 0.0)
    nothing = account()
    assert (nothing.unknown, nothing.difference_share, nothing.our_hours) == (3, None, 0.0)


@pytest.mark.parametrize("one", [machine("1", None, 2.0), machine("1", 0.0, None)])
def test_a_provider_that_does_not_tell_the_times_is_not_compared(one: Machine) -> None:
    assert account(one).rows[0].their_hours is None


def test_all_machines_of_a_ticket_are_counted() -> None:
    twice = account(machine("1", 0.0, 2.0), machine("1", 0.0, 0.5, name="i-second"))
    assert twice.rows[0].their_hours == 2.5
    assert account(machine("3", 0.0, 0.5)).rows[2].our_hours == 0.0, "listed though there was no capacity"


def test_machines_that_the_journal_does_not_know_are_shown_at_the_price_of_their_kind() -> None:
    stray = account(machine("9", 1.0, state="up")).rows[-1]
    assert (stray.ticket, stray.machine, stray.in_journal) == ("9", "i-9", False)
    assert (stray.our_hours, stray.their_hours, stray.their_usd) == (0.0, 3.0, 27.0)


def lived(seed: int) -> Life:
    """Live through a storm of faults and kills."""
    life = Life(seed)
    life.run()
    return life


def told_by(life: Life) -> list[Record]:
    times = [EPOCH + timedelta(hours=fact.at_hours) for fact in life.journal.facts]
    return [Record(n + 1, times[n], fact) for n, fact in enumerate(life.journal.facts)]


def account_of(life: Life) -> MachineAccount:
    """Compare the journal of a life with what its cloud lists at the end."""
    life.cloud.faults = Faults()
    bill = machine_bill(told_by(life), EPOCH + timedelta(hours=life.hours))
    return compared(bill, Fake(Renter(owner="own"), cloud=life.cloud).machines())


def test_over_a_campaign_the_bill_is_within_one_percent_of_the_providers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lives = [lived(seed) for seed in range(SEEDS)]
    monkeypatch.setattr(fake, "LISTED_AFTER_HOURS", math.inf)
    rows = [row for life in lives for row in account_of(life).rows]
    ours = sum(row.our_hours for row in rows)
    theirs = sum(row.their_hours or 0.0 for row in rows)
    known = sum(row.our_hours for row in rows if row.their_hours is not None)
    mean_off = sum(abs(row.our_hours - (row.their_hours or 0.0)) for row in rows) / len(rows)
    with capsys.disabled():
        print(
            f"\nbills of {len(rows):,} machines, {SEEDS} seeds: {ours:,.1f} h, "
            f"their provider {theirs:,.1f} h ({ours / theirs - 1.0:+.2%}), {mean_off * 3600:.0f} s apart each"
        )
    assert theirs == pytest.approx(sum(map(billed, lives))), "the whole account was listed"
    assert theirs > 1000.0
    assert sum(life.counts["crashes"] for life in lives) > SEEDS
    assert all(row.in_journal for row in rows)
    assert abs(known / theirs - 1.0) < 0.01
    assert abs(ours / theirs - 1.0) < 0.01, "also with tickets that were closed before anybody answered"


def billed(life: Life) -> float:
    ours = [one for one in life.cloud.instances.values() if one.owner == "own"]
    return sum(min(one.ended_hours, life.hours) - one.made_hours for one in ours)


@pytest.mark.parametrize("seed", range(3))
def test_a_journal_that_is_cut_off_anywhere_has_a_bill_of_what_is_in_it(seed: int) -> None:
    told = told_by(lived(seed))
    whole = {line.ticket: line for line in machine_bill(told).lines}
    for length in range(len(told)):
        for line in machine_bill(told[:length]).lines:
            if line.returned_utc is not None:
                assert line == whole[line.ticket], "what is closed never changes"
            else:
                assert line.hours == pytest.approx(between(line.rented_utc, told[length - 1].time_utc))
    assert len(whole) > 5
    assert all(line.returned_utc is not None for line in whole.values())


def test_a_provider_forgets_machines_that_are_long_gone() -> None:
    found = account_of(lived(1))
    assert 0 < found.unknown < len(found.rows)
    assert found.difference_share is not None
