"""Fleets on markets on which allocators are checked: random, seeded, and deliberately difficult."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from slacktide.allocators.view import AnyAllocator
from slacktide.budget.allowance import RENEWALS, Allowance
from slacktide.budget.classes import JobClass, Member
from slacktide.budget.fleet import Fleet
from slacktide.checks.base import CheckFailed
from slacktide.checks.cases import WIDTHS, random_pool, random_speedup, with_other_future
from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job, JobState, Phase, PoolChoice
from slacktide.market.base import Market, Moves, Pool
from slacktide.physics import progress as physics
from slacktide.results.fleet import FleetRun
from slacktide.simulation.fleet.run import RunOptions, Watch, run_fleet
from slacktide.simulation.fleet.scene import ANY_GPU, FleetScene
from slacktide.simulation.pool_options import PoolOptions

SLOTS = 80  # the length of a market
ARRIVAL_SLOTS = 12  # jobs are submitted in the first slots, up to this one
CALM_SLOTS = 400  # how long a calmed market has plenty of spot at its end
PLENTY_GPUS = 256  # at least as much spot as all jobs of a case could want


@dataclass(frozen=True)
class SiteCase:
    """Jobs of a fleet that share a market and a budget."""

    scene: FleetScene
    name: str = "a case"

    def __str__(self) -> str:
        return f"{self.name}: {len(self.scene.members)} jobs on {len(self.scene.pools)} pools"

    @cached_property
    def soonest_hours(self) -> Floats:
        """The least time that each job takes, on demand from its submission."""
        gpu, market = self.scene.gpu, self.scene.market
        return np.array([soonest_hours(one.template, one.work, gpu, market) for one in self.scene.members])

    @property
    def feasible(self) -> np.typing.NDArray[np.bool_]:
        """Which jobs have no deadline, or one that they meet if run on demand from the start."""
        due = np.array([one.due_hours for one in self.scene.members])
        return np.asarray(due >= self.soonest_hours)

    @property
    def stop_hours(self) -> float:
        """When to stop a run: the market has ended and all deadlines are over."""
        scene = self.scene
        dues = [one.submitted_hours + one.due_hours for one in scene.members if one.due_hours < math.inf]
        return max(scene.pools[0].hours, *dues, 0.0) + scene.slot_hours

    @property
    def fleet(self) -> Fleet:
        """The classes of the jobs."""
        assert self.scene.fleet is not None
        return self.scene.fleet

    def run(self, allocator: AnyAllocator, watch: Watch | None = None) -> FleetRun:
        """Run the case; raises CheckFailed for decisions that cannot be carried out."""
        try:
            return run_fleet(self.scene, allocator, RunOptions(watch=watch), stop_hours=self.stop_hours)
        except InputError as error:
            raise CheckFailed(f"{error}, in {self}") from error

    @property
    def on_demand_usd(self) -> float:
        """About the cost of all jobs if they ran on demand."""
        usd = max(float(pool.on_demand_usd_per_gpu_hour.max()) for pool in self.scene.pools)
        gpus = np.array([max(one.template.widths) for one in self.scene.members])
        return float((usd * gpus * self.soonest_hours).sum())

    def calmed(self) -> SiteCase:
        """Return the same case with money for everything, and plenty of spot at the end of the market."""
        scene = self.scene
        pools = tuple(_calmed(pool) for pool in scene.pools)
        ample = replace(scene.allowance, usd=1000.0 * self.on_demand_usd)
        return replace(self, scene=replace(scene, market=replace(scene.market, pools=pools), allowance=ample))

    def with_few_on_demand_gpus(self, rng: np.random.Generator) -> SiteCase:
        """Return the same case with a low limit on the on-demand GPUs that the fleet may hold."""
        widest = max(max(one.template.widths) for one in self.scene.members)
        quota = int(rng.integers(max(1, widest // 2), 3 * widest + 1))
        return replace(self, scene=replace(self.scene, on_demand_gpus=quota))

    def with_other_future(self, rng: np.random.Generator) -> tuple[SiteCase, float, str]:
        """Return a case with other prices, counts and jobs from some slot on, its hours, and words for it."""
        scene, first = self.scene, int(rng.integers(1, ARRIVAL_SLOTS))
        pools = tuple(with_other_future(pool, first, rng) for pool in scene.pools)
        hours = first * scene.slot_hours
        pace = float(rng.uniform(0.2, 3.0))
        members = tuple(
            one if one.submitted_hours < hours else _another(one, hours, pace, rng) for one in scene.members
        )
        market = replace(scene.market, pools=pools)
        other = replace(self, scene=replace(scene, market=market, members=members))
        return other, hours - TIME_TOLERANCE_HOURS, f"slot {first}"


def soonest_hours(job: Job, work_gpu_hours: float, gpu: str, market: Market) -> float:
    """Return the least hours that a job of this much work takes, on demand in the best of its pools."""
    size = work_gpu_hours / job.work_gpu_hours
    found = math.inf
    for one in PoolOptions.of(job, gpu, market).places.jobs:
        terms = physics.terms(one)
        whole = physics.on_demand_finish(terms, JobState(), 0.0, terms.fastest)
        found = min(found, one.restart_hours + size * (whole - one.restart_hours))
    return float(found)


def site_cases(seed: int, count: int) -> Iterator[SiteCase]:
    """Yield random cases; the same seed yields the same ones."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        yield replace(random_site_case(rng), name=f"case {number} of seed {seed}")


def random_site_case(rng: np.random.Generator) -> SiteCase:
    """Make a few difficult jobs on a few pools, whose prices jump and whose spot comes and goes."""
    slot_hours = float(rng.choice([0.25, 0.5, 1.0]))
    market = _random_market(rng, slot_hours)
    kinds = [_random_kind(rng, slot_hours, market, str(number)) for number in range(rng.integers(1, 4))]
    submitted = np.sort(rng.uniform(0.0, ARRIVAL_SLOTS * slot_hours, int(rng.integers(1, 9))))
    at_border = rng.random(len(submitted)) < 0.3
    submitted[at_border] = np.floor(submitted[at_border] / slot_hours) * slot_hours
    members = tuple(_random_member(rng, float(hours), kinds, market) for hours in np.sort(submitted))
    case = SiteCase(FleetScene(market, members, fleet=_fleet(members)))
    return SiteCase(replace(case.scene, allowance=_random_allowance(rng, case, slot_hours)))


def _random_market(rng: np.random.Generator, slot_hours: float) -> Market:
    pools = tuple(
        replace(random_pool(rng, slot_hours, SLOTS, 8), name=f"zone-{number}")
        for number in range(rng.integers(1, 4))
    )
    return Market(pools, moves=Moves(0.0, 0.02, 0.02, float(rng.choice([0.5, 5.0, math.inf]))))


def _random_kind(rng: np.random.Generator, slot_hours: float, market: Market, name: str) -> Job:
    restart = slot_hours * float(rng.choice([0.0, 0.1, 0.5, 1.0, 2.7]))
    widths = WIDTHS[rng.integers(len(WIDTHS))]
    soft = rng.random() < 0.2
    return Job(
        name=name,
        phases=tuple(
            Phase(slot_hours * float(rng.uniform(0.3, 8.0)), random_speedup(rng))
            for _ in range(rng.choice([1, 1, 3]))
        ),
        widths=widths,
        restart_hours=restart,
        shrink_hours=restart * float(rng.choice([0.0, 0.5, 1.0])),
        checkpoint_hours=slot_hours * float(rng.choice([0.0, 0.0, 0.4, 1.5, math.inf])),
        checkpoint_gb=float(rng.choice([0.0, 50.0, 500.0])),
        billing="slot" if rng.random() < 0.25 else "second",
        pools=_random_choices(rng, market, widths),
        deadline_hours=1.0 if soft else math.inf,
        worthless_after_hours=1.5 if soft else None,
        value_usd=float(rng.integers(1, 300)) if soft else 0.0,
    )


def _random_choices(
    rng: np.random.Generator, market: Market, widths: tuple[int, ...]
) -> tuple[PoolChoice, ...]:
    """Let a job run in any pool, or in any with other widths and speed in one, or only in one."""
    one = PoolChoice(
        "", market.pools[rng.integers(len(market))].name, widths[: rng.integers(len(widths) + 1)]
    )
    choices = ((), (one, PoolChoice("", "", (), 0.5)), (one._replace(speed=1.7),))
    return choices[rng.integers(len(choices))]


def _random_member(rng: np.random.Generator, hours: float, kinds: list[Job], market: Market) -> Member:
    kind = kinds[rng.integers(len(kinds))]
    work = kind.work_gpu_hours * float(rng.uniform(0.3, 2.0))
    soonest = soonest_hours(kind, work, ANY_GPU, market)
    due = soonest * float(rng.choice([0.8, 1.0, 1.02, 1.3, 2.0, 4.0])) if rng.random() < 0.6 else math.inf
    return Member(hours, kind, work, due, weight=float(rng.choice([1.0, 1.0, 3.0])))


def _random_allowance(rng: np.random.Generator, case: SiteCase, slot_hours: float) -> Allowance:
    usd = case.on_demand_usd * float(rng.choice([0.2, 0.6, 2.0]))
    hours = slot_hours * float(rng.choice([7.3, 20.0, 500.0]))
    return Allowance(usd, hours, RENEWALS[rng.integers(len(RENEWALS))])


def _fleet(members: tuple[Member, ...]) -> Fleet:
    """Return a fleet with the classes of these jobs, in the order in which they first occur."""
    kinds = {id(one.template): one.template for one in members}.values()
    return Fleet(
        tuple(
            JobClass(
                Job(name=one.name, phases=one.phases, widths=one.widths, restart_hours=one.restart_hours), 1.0
            )
            for one in kinds
        )
    )


def _calmed(pool: Pool) -> Pool:
    usd = np.full(CALM_SLOTS, pool.on_demand_usd_per_gpu_hour[-1])
    return replace(
        pool,
        spot_usd_per_gpu_hour=np.concatenate((pool.spot_usd_per_gpu_hour, 0.3 * usd)),
        on_demand_usd_per_gpu_hour=np.concatenate((pool.on_demand_usd_per_gpu_hour, usd)),
        spot_gpus=np.concatenate((pool.spot_gpus, np.full(CALM_SLOTS, PLENTY_GPUS))),
    )


def _another(one: Member, from_hours: float, pace: float, rng: np.random.Generator) -> Member:
    """Return a job like this one with another submission after `from_hours`, another size and deadline."""
    return replace(
        one,
        submitted_hours=from_hours + (one.submitted_hours - from_hours) * pace,
        work_gpu_hours=one.work * float(rng.uniform(0.5, 2.0)),
        deadline_hours=one.due_hours * float(rng.uniform(1.0, 2.0)),
    )
