"""The allocator of a fleet: the vectors of its mathematics, its limits, and its promises."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.allocators.prices.cost_tables import CELLS, MarketRates, fill_open
from slacktide.allocators.prices.pacing import Pacing, WorkCostCurve
from slacktide.allocators.shadow_prices import PricesRun, ShadowPrices
from slacktide.allocators.view import FleetView, OldMemory
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import JobClass, Member
from slacktide.budget.fleet import Fleet
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl, Linear, Power
from slacktide.core.types import Job
from slacktide.market.base import Market as Pools
from slacktide.market.base import Pool
from slacktide.simulation.fleet.run import RunOptions, run_fleet
from slacktide.simulation.fleet.scene import FleetScene
from tests import build
from tests.parts_of_effort import examples

NEVER_LOST = 1e-9
AT_ONCE = 1e9


def market(gpus: int, *, spot_usd: float = 1.0, on_demand_usd: float = 5.0, slots: int = 400) -> Pools:
    """Return one pool that stays as it is, in slots of half an hour."""
    prices = np.full(slots, spot_usd), np.full(slots, on_demand_usd)
    return Pools((Pool("zone", 0.5, *prices, np.full(slots, gpus)),))


def best_on_spot(
    widths: list[int], speedup: Power | Linear, hour_usd: float, restart: float
) -> tuple[int, float]:
    """Return the width and the cost of a GPU-hour of work on spot at 1 USD that is never lost."""
    rate = np.array([speedup(gpus) for gpus in widths])
    work = np.arange(CELLS) / (CELLS - 1.0)
    spot, on_demand = np.zeros((2, len(widths), CELLS))
    told = MarketRates(AT_ONCE, AT_ONCE, NEVER_LOST, 1.0, 1e6, hour_usd)
    fill_open(rate, np.array(widths), restart, told, work, spot, on_demand)
    usd = spot[:, -1] + restart * (hour_usd + np.array(widths))
    return widths[int(np.argmin(usd))], float(usd.min())


@pytest.mark.parametrize(("price", "gpus", "hours"), [(1.0, 1, 2.0), (1 / 4, 4, 1.0), (1 / 9, 9, 2 / 3)])
def test_the_width_of_a_job_follows_the_price_of_money(price: float, gpus: int, hours: float) -> None:
    found, usd = best_on_spot([1, 4, 9], Power(0.5), 1.0 / price, 0.0)
    assert found == gpus
    assert usd * price == pytest.approx(hours, rel=1e-6)


def test_a_start_is_paid_by_its_width() -> None:
    found, usd = best_on_spot([1, 2, 4], Linear(1.0, 0.0), 1.0, 0.1)
    assert found == 4
    assert usd == pytest.approx(1.75, rel=1e-6)


def root(work: float = 1.0, widths: tuple[int, ...] = (1, 4, 9)) -> Job:
    return Job(name="root", work_gpu_hours=work, speedup=Power(0.5), widths=widths)


def test_two_equal_jobs_share_spot_that_is_short() -> None:
    where = FleetScene(market(8), (Member(0.0, root()), Member(0.0, root())))
    first: list[list[int]] = []
    options = RunOptions(watch=lambda view, orders: first.append(orders.spot_gpus.tolist()))
    run_fleet(where, ShadowPrices(hour_usd=9.0, tenure_hours=1e6), options)
    assert first[0] == [4, 4]


def test_without_deadlines_and_with_spot_for_all_widths_are_fixed() -> None:
    jobs = tuple(Member(0.3 * number, root(0.5 + 0.1 * number)) for number in range(20))
    held = run_fleet(FleetScene(market(1000), jobs), ShadowPrices(hour_usd=4.0), RunOptions(keep=True)).held
    assert held is not None
    assert set(held.spot_gpus.tolist()) == {4}
    assert not held.on_demand_gpus.any()


def test_two_deadlines_at_their_latest_start_are_both_met_though_spot_is_there_for_one() -> None:
    job = Job(name="due", work_gpu_hours=8.0, widths=(8,), restart_hours=0.1, deadline_hours=1.15)
    found = run_fleet(FleetScene(market(8), (Member(0.0, job), Member(0.0, job))), ShadowPrices(hour_usd=1.0))
    assert not len(found.late)
    assert found.on_demand_gpu_hours.sum() > 0


def busy(seed: int, usd: float, *, jobs: int = 60) -> FleetScene:
    """Return a fleet that has too little of everything: spot that flickers, money, time."""
    rng = np.random.default_rng(seed)
    slots = 300
    pools = tuple(
        Pool(f"zone-{at}", 0.25, rng.uniform(1, 4, slots), np.full(slots, 8.0 + at),
             np.repeat(rng.integers(0, 9, slots // 5), 5))
        for at in range(2)
    )  # fmt: skip
    kinds = (
        Job(name="a", work_gpu_hours=3.0, speedup=Amdahl(0.9), widths=(1, 2, 4, 8), restart_hours=0.1),
        Job(name="b", work_gpu_hours=8.0, speedup=Power(0.8), widths=(2, 4, 8), restart_hours=0.3,
            checkpoint_hours=0.2, checkpoint_gb=5.0),
    )  # fmt: skip
    members = []
    for hours in np.sort(rng.uniform(0, 40, jobs)):
        kind = kinds[rng.integers(2)]
        work = float(kind.work_gpu_hours * rng.uniform(0.3, 2))
        soonest = kind.restart_hours + work / kind.speedup(8)
        due = soonest * float(rng.uniform(1.05, 4)) if rng.random() < 0.4 else np.inf
        members.append(Member(float(hours), kind, work, due))
    return FleetScene(Pools(pools), tuple(members), Allowance(usd, 20.0))


@pytest.mark.parametrize("seed", range(examples(6)))
@pytest.mark.parametrize("usd", [60.0, 250.0, 900.0])
def test_the_budget_is_never_passed_and_admitted_deadlines_are_met(seed: int, usd: float) -> None:
    found = run_fleet(busy(seed, usd), ShadowPrices())
    assert found.most_spent_share <= 1.0 + 1e-12
    assert not len(found.late)
    assert np.isfinite(found.finish_hours[found.admitted]).all(), "however little money, all come to an end"


@pytest.mark.parametrize("seed", range(3))
def test_nobody_starves_while_there_is_money(seed: int) -> None:
    found = run_fleet(busy(seed, 1e6), ShadowPrices())
    assert not found.refused or all(one.deadline_hours for one in found.refused.values())
    assert np.isfinite(found.finish_hours[found.admitted]).all()


def test_a_deadline_that_cannot_be_met_is_refused_with_the_earliest_that_can() -> None:
    job = Job(name="due", work_gpu_hours=8.0, widths=(1, 2, 4), restart_hours=0.5, deadline_hours=2.0)
    refusal = run_fleet(FleetScene(market(8), (Member(0.0, job),)), ShadowPrices()).refused[0]
    assert refusal.deadline_hours == pytest.approx(2.5)
    assert "needs 2h30m on demand" in refusal.why


def test_a_deadline_that_the_money_does_not_reach_for_is_refused_with_what_could_be_promised() -> None:
    job = Job(name="due", work_gpu_hours=10.0, speedup=Power(0.5), widths=(1, 4), deadline_hours=20.0)
    where = FleetScene(market(8), (Member(0.0, job),), Allowance(60.0, 100.0))
    refusal = run_fleet(where, ShadowPrices()).refused[0]
    # On one GPU it costs 50 USD and is in time; on four it may cost 100.
    assert refusal.budget_usd == pytest.approx(100.0)
    assert refusal.gpus == 1
    assert "may need $100" in refusal.why


def test_what_it_knows_can_be_written_down_at_any_moment() -> None:
    """A run that begins anew from its memory at every decision decides the same."""

    class Forgetful:
        needs_market = True

        def __init__(self) -> None:
            self.memory: str | None = None

        def decide(self, view: FleetView) -> object:
            run = PricesRun(ShadowPrices())
            if self.memory is not None:
                run.recall(json.loads(self.memory))
            found = run.decide(view)
            self.memory = json.dumps(run.remember(), allow_nan=False)
            return found

    where = busy(1, 1e6, jobs=15)
    one, other = run_fleet(where, Forgetful()), run_fleet(where, PricesRun(ShadowPrices()))  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.cost_usd, other.cost_usd)


def test_a_reason_names_its_prices() -> None:
    found = run_fleet(busy(2, 400.0, jobs=30), ShadowPrices(), RunOptions(keep=True))
    rules = {reason.rule for _, _, reason in found.reasons}
    assert {"spot", "waits"} <= rules <= {"spot", "waits", "on-demand", "deadline-rescue", "no-money"}
    assert all(reason.signals["hour_usd"] > 0 for _, _, reason in found.reasons)


def test_an_hour_is_worth_more_where_there_is_more_money() -> None:
    means = [
        float(np.nanmean(run_fleet(busy(3, usd), ShadowPrices()).moments.usd_per_job_hour))
        for usd in (150.0, 600.0)
    ]
    assert means[0] < means[1]


def test_the_curve_of_prices_is_its_own_inverse() -> None:
    curve = WorkCostCurve(2.0, 10.0)
    for usd in (2.4, 4.0, 7.0, 9.0):
        assert curve.usd(curve.log_hour_usd(usd)) == pytest.approx(usd)


def test_pacing_can_be_written_down_before_it_has_seen_anything() -> None:
    again = Pacing().recalled(json.loads(json.dumps(Pacing().remember())))
    assert math.isnan(again.log_hour_usd)


def test_a_fleet_file_that_promises_more_work_makes_an_hour_worth_less() -> None:
    """Before jobs have come, the price goes by what the classes of the file bring."""
    where = busy(3, 2000.0)
    job = where.members[0].template
    means = []
    for arrivals in (0.5, 50.0):
        fleet = Fleet((JobClass(replace(job, deadline_hours=math.inf), arrivals),))
        found = run_fleet(replace(where, fleet=fleet), ShadowPrices())
        means.append(float(np.nanmean(found.moments.usd_per_job_hour[:24])))
    assert means[1] < means[0]


@pytest.mark.parametrize(("value_usd", "in_time"), [(5.0, False), (500.0, True)])
def test_a_soft_deadline_is_met_only_where_that_costs_less_than_it_is_worth(
    value_usd: float, in_time: bool
) -> None:
    gpus = np.where(np.arange(400) < 20, 0, 8)  # no spot for ten hours
    pools = Pools((build.pool(1.0, 5.0, gpus, name="zone"),))
    job = Job(
        work_gpu_hours=8.0, widths=(1, 2, 4), restart_hours=0.05, deadline_hours=6.0, value_usd=value_usd,
        worthless_after_hours=12.0,
    )  # fmt: skip
    where = FleetScene(pools, (Member(0.0, job, patience_hours=50.0),), Allowance(1000.0, 100.0), again=True)
    found = run_fleet(where, ShadowPrices(hour_usd=0.5))
    assert (found.response_hours[0] <= 6.0) == in_time
    assert (found.cost_usd[0] < 12.0) == (not in_time)


def test_memory_of_another_form_is_refused_with_a_sentence() -> None:
    with pytest.raises(OldMemory, match="must be of form 2, got 1"):
        PricesRun(ShadowPrices()).recall({"pacing": {}})


@pytest.mark.parametrize(
    "wrong", [{"hour_usd": 0.0}, {"tenure_hours": 0.0}, {"patience_share": -1.0}, {"hour_usd": math.inf}]
)
def test_numbers_that_cannot_be_meant_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="must be > 0"):
        allocators.make({"shadow-prices": wrong})
