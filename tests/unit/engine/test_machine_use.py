"""What jobs used of rented machines, and how soon their workers reported, told by a journal alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slacktide.core.quotes import Quote
from slacktide.core.types import JobState
from slacktide.engine.bills.machines import machine_use
from slacktide.journal.events import ClockSet, Decided, Event, Lived, PaceRevised, Record, Rented, Returned
from slacktide.physics.ledger import Priced, Stretch
from slacktide.physics.pace import KNOWN, Pace, see_restart
from slacktide.physics.tariff import Charge
from slacktide.results.machine_bill import MachineUse

QUOTE = Quote(1.0, 3.0, 64)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def use_of(*events: Event) -> MachineUse:
    return machine_use(Record(number + 1, NOW, event) for number, event in enumerate(events))


def rented(ticket: str, at: float, *, pool: str = "a", gpus: int = 8, on_demand: bool = False) -> Rented:
    capacity = "on-demand" if on_demand else "spot"
    return Rented(
        at_hours=at, ticket=ticket, capacity=capacity, pool=pool, gpus=gpus, usd_per_hour=1.0  # type: ignore[arg-type]
    )  # fmt: skip


def returned(ticket: str, at: float) -> Returned:
    return Returned(at_hours=at, ticket=ticket)


def clock(speed: float) -> ClockSet:
    return ClockSet(at_hours=0.0, epoch_utc=NOW.isoformat(), speed=speed)


def lived(begin: float, end: float, spot: int, on_demand: int = 0, pool: str = "a") -> Lived:
    stretch = Stretch(
        payer="job", use="work", slot=0, from_hours=begin, to_hours=end, held_hours=end - begin, pool=pool,
        spot_gpus=spot, on_demand_gpus=on_demand, quote=QUOTE,
    )  # fmt: skip
    return Lived(job="job", at_hours=end, priced=Priced(stretch, Charge(1.0)), state=JobState())


def test_what_jobs_held_while_machines_were_rented_counts() -> None:
    both = rented("1", 0.0), rented("2", 0.0, on_demand=True)
    used = use_of(*both, lived(0.1, 1.1, 6, 4), lived(1.1, 3.1, 8)).used_gpu_hours
    assert used == pytest.approx({("a", "spot"): 22.0, ("a", "on-demand"): 4.0})


def test_jobs_that_ran_elsewhere_used_none_of_them() -> None:
    elsewhere = [lived(0.0, 1.0, 8), rented("1", 1.0), lived(0.0, 1.0, 8), lived(1.0, 2.0, 8, pool="b")]
    assert use_of(*elsewhere, lived(1.0, 2.0, 0, 4)).used_gpu_hours == {}


def test_no_more_is_used_than_there_is() -> None:
    assert use_of(rented("1", 0.0, gpus=4), lived(0.0, 1.0, 8)).used_gpu_hours == {("a", "spot"): 4.0}


def test_what_was_held_until_its_machine_went_counts_though_it_is_told_later() -> None:
    told = (rented("1", 0.0), returned("1", 1.0), lived(0.0, 1.0, 8), lived(1.0, 2.0, 8))
    assert use_of(*told).used_gpu_hours == {("a", "spot"): 8.0}


def test_a_fast_market_uses_real_hours_and_machines_outlive_a_clock() -> None:
    told = (clock(60.0), rented("1", 50.0), lived(50.0, 110.0, 8), clock(1.0), lived(0.0, 1.0, 8))
    assert use_of(*told).used_gpu_hours == {("a", "spot"): pytest.approx(16.0)}
    closed = (clock(60.0), rented("1", 0.0), returned("1", 0.5), clock(1.0), lived(0.0, 1.0, 8))
    assert use_of(*closed).used_gpu_hours == {}


def decided(pool: str) -> Decided:
    return Decided(
        job="job", at_hours=0.0, slot=0, quote=QUOTE, state=JobState(), pool=pool, spot_gpus=8,
        on_demand_gpus=0, wanted_spot_gpus=8, wanted_on_demand_gpus=0, attempt=1,
    )  # fmt: skip


def revised(pace: Pace) -> PaceRevised:
    return PaceRevised(job="job", at_hours=0.5, gpus=8, measured_hours=0.0, pace=pace)


def test_the_starts_that_the_engine_measured_are_the_times_to_first_progress() -> None:
    paces = [KNOWN]
    for hours in (0.2, 0.5, 0.3):
        paces.append(see_restart(paces[-1], hours))
    other = paces[2]._replace(mean=0.1)  # a measured pace, and no start
    events = [rented("1", 0.0), decided("a"), *map(revised, (paces[1], paces[2], other, paces[3]))]
    found = use_of(clock(2.0), *events)
    assert found.first_progress_hours["a"] == pytest.approx((0.1, 0.25, 0.15))
    spread = found.first_progress("a")
    assert spread.count == 3
    assert spread.median_hours == pytest.approx(0.15)
    assert found.first_progress("b").count == 0
    assert use_of(rented("1", 0.0, pool="b"), *events[1:]).first_progress_hours == {}, "not on machines"
