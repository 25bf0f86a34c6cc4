"""Laws of the simulator of fleets, on any jobs, market and money."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.allocators.each import each
from slacktide.allocators.view import Allocator, AnyAllocator, FleetView, Wanted
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import JobClass, Member
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import draw_stream
from slacktide.checks.allocators.site_cases import site_cases
from slacktide.checks.cases import cases, random_speedup
from slacktide.core.types import Job, Refusal
from slacktide.market.base import Market
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.view import Policy
from slacktide.results.fleet import FleetRun, HeldStretches
from slacktide.simulation import plain
from slacktide.simulation.fleet.market_kernel import Orders
from slacktide.simulation.fleet.run import RunOptions, run_events, run_fleet
from slacktide.simulation.fleet.scene import FleetScene
from slacktide.simulation.pool_options import PoolOptions
from slacktide_papers.baselines.on_demand_widths import OnDemandWidths
from tests import build

ROUNDING = 1e-9
"""USD and hours that two ways to add up may differ by."""


@dataclass(frozen=True)
class Restless:
    """Gives each job in each slot a pool and a width of spot and on demand by chance, at times none."""

    seed: int

    def decide(self, view: FleetView) -> Wanted:
        site = view.site
        assert site is not None
        pool, spot, on_demand = np.zeros((3, len(view.jobs.ids)), dtype=np.int64)
        for place, (job, kind) in enumerate(zip(view.jobs.ids, site.jobs.kind, strict=True)):
            rng = np.random.default_rng([self.seed, site.slot, int(job)])
            allowed = np.flatnonzero(site.kinds.fastest[kind])
            pool[place] = rng.choice(allowed) if rng.random() < 0.3 else site.jobs.pool[place]
            widths = np.unique(site.kinds.fit[kind, pool[place]])
            width = int(rng.choice(widths)) if site.slot < 60 else int(widths[-1])
            spot[place] = rng.integers(0, width + 1) if site.slot < 60 else 0
            on_demand[place] = width - spot[place]
        return Wanted(on_demand, spot, pool=pool)


def scenes(count: int = 12) -> Iterator[FleetScene]:
    """Yield fleets with all that makes life hard."""
    return (case.scene for case in site_cases(11, count))


def runs(count: int = 12) -> Iterator[tuple[FleetScene, FleetRun]]:
    """Yield runs under allocators that decide by chance and by rule."""
    for number, scene in enumerate(scenes(count)):
        for allocator in (Restless(number), allocators.make("patient-spot")):
            yield scene, run_fleet(scene, allocator, RunOptions(keep=True))


def held(run: FleetRun) -> HeldStretches:
    """Return all that was held."""
    assert run.held is not None
    return run.held


# -------------------------------------------------------------------- one job alone


@pytest.mark.parametrize("name", ["uniform-progress", "on-demand", "maximal-spot"])
def test_one_job_alone_is_the_back_test_of_its_policy(name: str) -> None:
    policy: Policy = DeadlineGuard(policies.make(name))
    for case in cases(5, 40):
        alone = plain.run(case.job, case.pool, policy)
        scene = FleetScene(Market((case.pool,)), (Member(0.0, case.job),))
        found = run_fleet(scene, each(policy))
        assert found.cost_usd[0] == pytest.approx(alone.cost_usd, abs=ROUNDING, rel=ROUNDING)
        assert found.finish_hours[0] == pytest.approx(alone.finish_hours, abs=ROUNDING)
        assert found.spot_gpu_hours[0] == pytest.approx(alone.spot_gpu_hours, abs=ROUNDING)
        assert found.losses[0] == alone.preemptions


@pytest.mark.parametrize("name", ["eager-failover", "sky-nomad"])
def test_one_job_alone_over_pools_is_the_back_test_over_pools(name: str) -> None:
    policy = DeadlineGuard(policies.make(name))
    compared = 0
    for scene in scenes(40):
        one = replace(scene.members[0], submitted_hours=0.0)
        if not (one.hard and one.due_hours < scene.pools[0].hours):
            continue
        ground = PoolOptions.of(one.job, scene.gpu, scene.market)
        several = len(ground.pools) > 1
        job, pool = ground.places.jobs[0], ground.pools[0]
        alone = plain.run_over_pools(ground, policy) if several else plain.run(job, pool, policy)
        found = run_fleet(replace(scene, members=(one,), fleet=None), each(policy))
        assert found.cost_usd[0] == pytest.approx(alone.cost_usd, abs=ROUNDING, rel=ROUNDING)
        assert found.finish_hours[0] == pytest.approx(alone.finish_hours, abs=ROUNDING)
        compared += several
    assert compared > 5


# -------------------------------------------------------------------- without spot


@pytest.mark.parametrize("seed", range(4))
def test_without_spot_it_is_the_simulator_of_streams(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes = tuple(
        JobClass(
            Job(
                name=str(number),
                work_gpu_hours=float(rng.uniform(0.5, 3.0)),
                speedup=random_speedup(rng),
                restart_hours=float(rng.choice([0.0, 0.1, 1.5])),
                widths=(1, 2, 4, 8),
            ),
            arrivals_per_hour=float(rng.uniform(1.0, 5.0)),
        )
        for number in range(3)
    )
    fleet = Fleet(classes, budget_gpus=100.0)
    stream = draw_stream(classes, 60, seed=seed)
    members = tuple(
        Member(float(hours), classes[kind].job, float(classes[kind].job.work_gpu_hours * size))
        for hours, kind, size in zip(stream.arrival_hours, stream.class_index, stream.size, strict=True)
    )
    usd = 3.0
    market = Market((build.pool(1.0, np.full(9, usd), 0, name="zone", slot_hours=0.7),))
    # Kinds of a scene are numbered as they come, classes of a fleet as they are listed.
    order = list(dict.fromkeys(stream.class_index.tolist()))
    scene = FleetScene(market, members, fleet=replace(fleet, classes=tuple(classes[kind] for kind in order)))
    for allocator in ("fixed-width", {"one-width": {"gpus": 4}}):
        one = run_events(stream, fleet, allocators.make(allocator))
        other = run_fleet(scene, allocators.make(allocator))
        np.testing.assert_allclose(other.response_hours, one.response_hours, atol=ROUNDING)
        assert other.spent_usd == pytest.approx(usd * one.bill.gpu_hours)


# -------------------------------------------------------------------- the bill


def test_what_was_held_adds_up_to_the_bill() -> None:
    for scene, run in runs():
        rows = held(run)
        assert (rows.usd >= 0.0).all()
        bill = np.bincount(rows.job.astype(int), weights=rows.usd, minlength=len(scene.members))
        np.testing.assert_allclose(bill, run.cost_usd, atol=ROUNDING)
        assert (run.on_demand_usd <= run.cost_usd + ROUNDING).all()
        hours = (rows.to_hours - rows.from_hours) * rows.spot_gpus
        spot = np.bincount(rows.job.astype(int), weights=hours, minlength=len(scene.members))
        np.testing.assert_allclose(spot, run.spot_gpu_hours, atol=1e-6)


def test_stretches_cost_what_their_quotes_say() -> None:
    """By the second, or by the slot: the most that was held of each kind in it; moves come on top."""
    whole = 0
    for scene, run in runs():
        for job, member in enumerate(scene.members):
            by_slot = member.template.billing == "slot"
            moves = run.cost_usd[job] - fair_usd(scene, held(run), job, by_slot)
            assert moves >= -1e-6
            if member.template.checkpoint_gb == 0.0:
                assert moves == pytest.approx(0.0, abs=1e-6)
                whole += by_slot
    assert whole > 2


def fair_usd(scene: FleetScene, rows: HeldStretches, job: int, by_slot: bool) -> float:
    """Return what all that a job held costs at the prices of its slots, without moves."""
    usd = 0.0
    places = np.stack((rows.slot, rows.pool), axis=1)[rows.job == job].astype(int)
    for slot, pool in np.unique(places, axis=0):
        here = (rows.job == job) & (rows.slot == slot) & (rows.pool == pool)
        hours = rows.to_hours[here] - rows.from_hours[here]
        offer = scene.offers(slot)
        for gpus, price in ((rows.spot_gpus, offer.spot_usd), (rows.on_demand_gpus, offer.on_demand_usd)):
            most = gpus[here].max() * scene.slot_hours
            usd += price[pool] * (most if by_slot else float((gpus[here] * hours).sum()))
    return float(usd)


@pytest.mark.parametrize("renewal", ["fixed", "calendar", "rolling"])
def test_what_a_period_spends_is_what_was_held_in_it(renewal: str) -> None:
    for number, scene in enumerate(scenes(8)):
        hours = 7.3 * scene.slot_hours
        start = scene.allowance.start
        allowance = Allowance(100.0, hours, renewal, start)  # type: ignore[arg-type]
        run = run_fleet(replace(scene, allowance=allowance), Restless(number), RunOptions(keep=True))
        rows = held(run)
        for now, spent in zip(run.moments.hours, run.moments.spent_usd, strict=True):
            since = allowance.period(float(now)).since_hours
            began = rows.from_hours < now - ROUNDING
            inside = rows.to_hours > since + 1e-7 if renewal == "rolling" else rows.from_hours > since - 1e-7
            assert spent == pytest.approx(rows.usd[began & inside].sum(), abs=1e-6)


def test_an_allocator_is_asked_when_money_is_renewed_inside_a_slot() -> None:
    asked: list[float] = []

    def watch(view: FleetView, orders: Orders) -> None:
        asked.append(view.now_hours)

    job = Job(work_gpu_hours=4.0, widths=(1,))
    pool = build.pool(1.0, 1.0, 0, slots=9, name="zone", slot_hours=1.0)
    scene = FleetScene(Market((pool,)), (Member(0.0, job),), Allowance(100.0, 1.6))
    run_fleet(scene, allocators.make("on-demand-widths"), RunOptions(watch=watch))
    assert asked == pytest.approx([0.0, 1.0, 1.6, 2.0, 3.0, 3.2])


# -------------------------------------------------------------------- moments


@dataclass(frozen=True)
class Turning:
    """Follows another allocator and turns away jobs of one name: they are moments at which it is asked."""

    inner: Allocator

    def decide(self, view: FleetView) -> Wanted:
        decision = self.inner.decide(view)
        assert isinstance(decision, Wanted)
        return decision

    def admit(self, view: FleetView) -> Refusal | None:
        last = len(view.jobs.ids) - 1
        return Refusal("a moment") if view.shown.name(last) == "moment" else None


def test_more_moments_change_nothing() -> None:
    for number, scene in enumerate(scenes()):
        rng = np.random.default_rng(number)
        job = scene.members[0].template
        moments = [Member(float(hours), job, name="moment") for hours in rng.uniform(0, scene.hours, 25)]
        more = sorted((*scene.members, *moments), key=lambda one: one.submitted_hours)
        real = [place for place, one in enumerate(more) if one.name != "moment"]
        fixed = OnDemandWidths()
        one = run_fleet(scene, Turning(fixed))
        other = run_fleet(replace(scene, members=tuple(more), fleet=None), Turning(fixed))
        assert len(other.refused) == 25
        np.testing.assert_allclose(other.cost_usd[real], one.cost_usd, atol=ROUNDING, rtol=ROUNDING)
        np.testing.assert_allclose(other.finish_hours[real], one.finish_hours, atol=1e-8)
        assert other.cost_usd.sum() == pytest.approx(one.cost_usd.sum())


def test_more_moments_change_nothing_for_who_is_restless_once_a_slot() -> None:
    for number, scene in enumerate(scenes()):
        rng = np.random.default_rng(number)
        job = scene.members[0].template
        last = scene.members[-1].submitted_hours
        moments = [Member(last + hours, job, name="moment") for hours in np.sort(rng.uniform(0, 20, 25))]
        more = (*scene.members, *moments)
        one = run_fleet(scene, Turning(Restless(number)))
        other = run_fleet(replace(scene, members=more, fleet=None), Turning(Restless(number)))
        count = len(scene.members)
        np.testing.assert_allclose(other.cost_usd[:count], one.cost_usd, atol=ROUNDING, rtol=ROUNDING)
        np.testing.assert_allclose(other.finish_hours[:count], one.finish_hours, atol=1e-8)


# -------------------------------------------------------------------- losses


def test_who_added_spot_last_loses_it_first() -> None:
    lost = sum(losses_of(scene, Restless(number)) for number, scene in enumerate(scenes(20)))
    assert lost > 20


def losses_of(scene: FleetScene, allocator: AnyAllocator) -> int:
    """Run a fleet, see at every border that in a pool the youngest lost first, and return how many did."""
    borders: list[dict[int, tuple[int, int, float]]] = []
    slots: list[int] = []

    def watch(view: FleetView, orders: Orders) -> None:
        site = view.site
        assert site is not None
        if not slots or slots[-1] != site.slot:
            slots.append(site.slot)
            columns = (view.jobs.ids, site.jobs.pool, site.jobs.spot_gpus, site.jobs.added_hours)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            borders.append({job: (pool, spot, added) for job, pool, spot, added in rows})

    rows = held(run_fleet(scene, allocator, RunOptions(watch=watch, keep=True)))
    lost = 0
    for slot, now in zip(slots, borders, strict=True):
        ends = np.flatnonzero(np.abs(rows.to_hours - slot * scene.slot_hours) < ROUNDING)
        before = {int(rows.job[row]): (int(rows.pool[row]), int(rows.spot_gpus[row])) for row in ends}
        lost += check_losses(before, now)
    return lost


def check_losses(before: dict[int, tuple[int, int]], now: dict[int, tuple[int, int, float]]) -> int:
    """See that whoever kept spot had it longer than whoever lost some; return how many lost some."""
    there = [(now[job][2], job, *before[job]) for job in sorted(before) if job in now and before[job][1]]
    losers = [one for one in there if now[one[1]][1] < one[3]]
    for added, job, pool, _ in losers:
        younger = [other for other in there if other[2] == pool and other[:2] > (added, job)]
        assert all(now[other[1]][1] == 0 for other in younger)
    return len(losers)
