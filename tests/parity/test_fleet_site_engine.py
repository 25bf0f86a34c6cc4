"""A fleet on a market under the engine on replay is the simulated one, to the cent."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.allocators.patient_spot import PatientSpot
from slacktide.allocators.view import Admitting, Allocator, Decision, FleetView, Remembering, begin
from slacktide.backends.replay import Replay
from slacktide.budget.allowance import Allowance, Renewal
from slacktide.budget.classes import Member
from slacktide.core.errors import InfeasibleError
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.register import Spec
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job, Phase, PoolChoice, Refusal
from slacktide.engine.engine import Engine
from slacktide.engine.fleet.fleets import FleetMarket, LiveFleet
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Event, Lived, Record, Submitted
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market, Moves, Pool
from slacktide.physics import ledger
from slacktide.physics.pace import USUAL_SPREAD
from slacktide.policies.base import policies
from slacktide.simulation.fleet.market_kernel import Orders
from slacktide.simulation.fleet.run import RunOptions, run_fleet
from slacktide.simulation.fleet.scene import FleetScene
from slacktide.simulation.pool_options import PoolOptions
from tests import build

ALLOCATORS: tuple[Spec, ...] = (
    {"patient-spot": {"width": 4, "wait_hours": 0.7}},
    {"patient-spot": {"width": 2, "wait_hours": 0.0}},
    "shadow-prices",
)
SLOT_HOURS = 0.5
KINDS = (
    Job(name="small", work_gpu_hours=2.0, speedup=Amdahl(0.9), widths=(1, 2, 4, 8), restart_hours=0.1),
    Job(
        name="large", work_gpu_hours=9.0, speedup=Amdahl(0.97), widths=(2, 4, 8), restart_hours=0.2,
        checkpoint_hours=0.3, checkpoint_gb=40.0,
    ),
    Job(
        name="phased", phases=(Phase(1.0, Amdahl(0.99)), Phase(3.0, Amdahl(0.5))), widths=(1, 4),
        restart_hours=0.15, shrink_hours=0.05, checkpoint_hours=math.inf,
    ),
    Job(
        name="elsewhere", work_gpu_hours=5.0, widths=(1, 2, 4), billing="slot", checkpoint_gb=10.0,
        pools=(PoolChoice("H100", "", (2, 4), 1.5), PoolChoice("A100")),
    ),
)  # fmt: skip


def market(rng: np.random.Generator, pools: int, *, stock: bool) -> Market:
    def pool(number: int) -> Pool:
        limited = rng.choice([2, 6, 12, UNLIMITED_GPUS], 60) if stock else None
        return Pool(
            f"zone-{number}",
            SLOT_HOURS,
            rng.uniform(1, 3, 240),
            np.repeat(rng.uniform(8, 12, 60), 4),
            np.repeat(rng.integers(0, 12, 60), 4),
            gpu=("A100", "H100", "A100")[number],
            on_demand_gpus=None if limited is None else np.repeat(limited, 4),
        )

    return Market(
        tuple(pool(number) for number in range(pools)),
        moves=Moves(within_region_usd_per_gb=0.02, between_regions_usd_per_gb=0.02),
    )


def scene(
    seed: int,
    *,
    pools: int = 3,
    jobs: int = 24,
    stock: bool = False,
    renewal: Renewal = "fixed",
    spread: float = 0.0,
) -> FleetScene:
    """Return a random fleet, of which a third have deadlines, on a random market."""
    rng = np.random.default_rng(seed)
    where = market(rng, pools, stock=stock)
    kinds = [dataclasses.replace(kind, work_spread=spread) for kind in (KINDS if pools > 1 else KINDS[:3])]
    members = []
    for number, hours in enumerate(np.sort(rng.uniform(0, 20, jobs))):
        kind = kinds[rng.integers(len(kinds))]
        work = float(kind.work_gpu_hours * rng.uniform(0.3, 2.0))
        soonest = kind.restart_hours + work / kind.work_gpu_hours * kind.work_hours(kind.max_gpus)
        due = soonest * float(rng.uniform(1.5, 5.0)) + 0.5 if rng.random() < 0.35 else math.inf
        members.append(Member(float(hours if number else 0.0), kind, work, due))
    return FleetScene(where, tuple(members), Allowance(300.0, 7.3, renewal), start=11, gpu="A100")


class Lives:
    """A fleet that was simulated, and lived through by the engine at the same moments."""

    def __init__(
        self,
        spec: Spec | Allocator,
        where: FleetScene,
        *,
        between: int = 0,
        crash_every: int = 0,
        late_hours: float = 0.0,
        store: MemoryStore | None = None,
    ) -> None:
        self.where, self.spec, self.moments = where, spec, list[float]()
        self.refused: dict[int, str] = {}
        self.money: dict[float, tuple[float, float]] = {}
        self.told = run_fleet(where, self.allocator(), RunOptions(watch=self._note))
        self.job_contexts = {str(number): self._job_context(one) for number, one in enumerate(where.members)}
        self.store, self.seen = store or MemoryStore(), list[FleetView]()
        self.engine = self.open()
        self._live(between, crash_every, late_hours)

    def allocator(self) -> Allocator:
        made = self.spec if isinstance(self.spec, Allocator) else begin(allocators.make(self.spec), None)
        assert isinstance(made, Allocator)
        return made

    def _note(self, view: FleetView, orders: Orders) -> None:
        assert view.site is not None
        self.moments.append(view.now_hours)
        self.money[view.now_hours] = (view.site.money.spent_usd, view.site.money.ever_usd)

    def _job_context(self, one: Member) -> JobContext:
        where = self.where
        ground = PoolOptions.of(one.job, where.gpu, where.market)
        own = math.floor(one.submitted_hours / SLOT_HOURS + 1e-9)
        return make_context(
            one.job, where.market, ground.pools[0], policies.make("on-demand"), where.start + own,
            began_hours=one.submitted_hours, origin_hours=own * SLOT_HOURS,
            pools=ground if len(ground.pools) > 1 else None,
        )  # fmt: skip

    def open(self) -> Engine:
        """Return a new engine on what the journal tells so far."""
        return Engine(
            self.store, Replay(), open_job=lambda event: self.job_contexts[event.job], open_fleet=self._opened
        )

    def _opened(self, first: Submitted) -> LiveFleet:
        inner = self.allocator()
        watched = _Promising if isinstance(inner, Admitting) else _Watched
        watched = _Knowing if isinstance(inner, Remembering) else watched
        run = LiveFleet(None, watched(inner, self.seen), "any", {})
        run.market = FleetMarket(self.where.market, self.where.start)
        run.allowance, run.on_demand_gpus = self.where.allowance, self.where.on_demand_gpus
        return run

    def submitted(self, number: int) -> Submitted:
        context = self.job_contexts[str(number)]
        return build.submitted(
            str(number),
            at_hours=context.terms.submitted_hours,
            policy=json.dumps("any"),
            pool=context.home.name,
            slot_hours=SLOT_HOURS,
            start_slot=context.start_slot,
            origin_hours=context.origin_hours,
            fleet="a fleet",
            fleet_class="any",
            pools=context.pool_names if context.may_move else (),
        )

    def _live(self, between: int, crash_every: int, late_hours: float) -> None:
        came, members = 0, self.where.members
        last = float(self.told.finish_hours[np.isfinite(self.told.finish_hours)].max())
        # The simulator does not decide about a job that it refuses.
        asked = {one.submitted_hours for number, one in enumerate(members) if number in self.told.refused}
        for number, now in enumerate(_with_more(sorted({*self.moments, *asked, last}), between)):
            while came < len(members) and members[came].submitted_hours <= now:
                self._surely(partial(self._submit, came))
                came += 1
            if crash_every and number % crash_every == 0:
                self.engine.keep()
                self._begin_anew()
            self._surely(lambda now=now: self.engine.step(now + late_hours))  # type: ignore[misc]

    def _begin_anew(self) -> None:
        self.engine = self.open()
        self.engine.recover()

    def _surely(self, act: Callable[[], None]) -> None:
        """Do something, with a new engine as often as it takes."""
        while True:
            try:
                act()
                return
            except Killed:
                self._begin_anew()

    def _submit(self, number: int) -> None:
        if str(number) in self.engine.state.jobs:
            return  # it was written by one who was killed then
        before = self.store.last_seq()
        try:
            self.engine.submit(self.submitted(number))
        except InfeasibleError as error:
            self.refused[number] = str(error)
            assert self.store.last_seq() == before, "nothing is written of a job that was refused"

    def stretches(self) -> list[ledger.Priced]:
        return [record.event.priced for record in self.store.read() if isinstance(record.event, Lived)]

    def check(self) -> None:
        """See that all jobs took as long and cost as much as simulated, and that no spot was sold twice."""
        assert self.refused.keys() == self.told.refused.keys()
        taken = [number for number in range(len(self.where.members)) if number not in self.refused]
        jobs = [self.engine.state.jobs[str(number)] for number in taken]
        hours = [math.nan if job.ended is None else job.ended.at_hours for job in jobs]
        np.testing.assert_allclose(hours, self.told.finish_hours[taken], atol=1e-6)
        np.testing.assert_allclose(
            [job.progress.state.cost_usd for job in jobs], self.told.cost_usd[taken], atol=1e-6
        )
        assert [job.holding.preemptions for job in jobs] == self.told.losses[taken].tolist()
        for view in self.seen:
            assert view.site is not None
            spent = view.site.money.spent_usd, view.site.money.ever_usd
            assert spent == pytest.approx(self.money[view.now_hours], abs=1e-6)
        self.audit()

    def held_together(self) -> list[list[ledger.Stretch]]:
        """Return the stretches that run at the beginning of each of them."""
        all_of_them = [one.stretch for one in self.stretches()]
        return [
            [one for one in all_of_them if one.from_hours <= first.from_hours + 1e-9 < one.to_hours]
            for first in all_of_them
        ]

    def audit(self) -> None:
        checked = ledger.audit(self.stretches(), lambda payer: self.job_contexts[payer].tariff)
        assert checked.clean, checked
        costs = [job.progress.state.cost_usd for job in self.engine.state.jobs.values()]
        assert checked.cost_usd == pytest.approx(sum(costs), abs=1e-6)
        (fleet,) = self.engine.state.fleets.values()
        assert fleet.spending.total_usd == pytest.approx(sum(costs), abs=1e-6)


class Killed(Exception):
    """The controller was killed here."""


class Fragile(MemoryStore):
    """A journal whose controller dies at every so many writes, before and after them by turns."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every, self._writes = every, 0

    def append(self, events: Iterable[Event]) -> list[Record]:
        events = list(events)
        self._writes += bool(events)
        deadly = bool(events) and self._writes % self._every == 0
        before = self._writes // self._every % 2 == 0
        if deadly and before:
            raise Killed
        records = super().append(events)
        if deadly:
            raise Killed
        return records


@dataclasses.dataclass(frozen=True)
class _Watched:
    """An allocator whose views are kept."""

    inner: Allocator
    seen: list[FleetView]

    def decide(self, view: FleetView) -> Decision:
        self.seen.append(view)
        return self.inner.decide(view)


class _Promising(_Watched):
    """... that makes promises."""

    def admit(self, view: FleetView) -> Refusal | None:
        assert isinstance(self.inner, Admitting)
        return self.inner.admit(view)


class _Knowing(_Promising):
    """... and can write down what it knows."""

    def remember(self) -> Mapping[str, Any]:
        assert isinstance(self.inner, Remembering)
        return self.inner.remember()

    def recall(self, memory: Mapping[str, Any]) -> None:
        assert isinstance(self.inner, Remembering)
        self.inner.recall(memory)


class Reserved:
    """Patient spot that takes in no job once much is spent, or much is held: it reads all that is shown."""

    def decide(self, view: FleetView) -> Decision:
        return PatientSpot(2, 0.5).decide(view)

    def admit(self, view: FleetView) -> Refusal | None:
        assert view.site is not None
        jobs, money = view.site.jobs, view.site.money
        fewer = int(jobs.spot_gpus.sum()) > 0.6 * sum(pool.quote.spot_gpus for pool in view.site.pools)
        if fewer or money.spent_usd > 0.5 * money.budget_usd:
            late = float(jobs.pause_hours.sum() + jobs.progress_gpu_hours.sum())
            return Refusal("no more can be promised", late, 412.0, int(jobs.gpus.sum()) + 1)
        return None


def _with_more(moments: Sequence[float], between: int) -> list[float]:
    """Return moments with some more between each two."""
    shares = np.arange(between + 1) / (between + 1)
    pairs = zip(moments, [*moments[1:], moments[-1]], strict=True)
    return [float(one + (other - one) * share) for one, other in pairs for share in shares]


@pytest.mark.parametrize("spec", ALLOCATORS, ids=str)
@pytest.mark.parametrize("pools", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_the_engine_on_replay_lives_the_fleet_that_was_simulated(seed: int, pools: int, spec: Spec) -> None:
    Lives(spec, scene(seed, pools=pools)).check()


@pytest.mark.parametrize("spec", ALLOCATORS, ids=str)
@pytest.mark.parametrize("seed", [3, 4])
def test_looked_at_more_often_and_begun_anew_on_the_way_it_is_the_same(seed: int, spec: Spec) -> None:
    Lives(spec, scene(seed), between=1, crash_every=7).check()


def test_files_are_taken_at_their_word_in_a_dry_run() -> None:
    Lives("shadow-prices", scene(2, spread=USUAL_SPREAD), crash_every=5).check()


@pytest.mark.parametrize("renewal", ["rolling", "calendar"])
def test_money_is_counted_as_simulated_however_it_is_renewed(renewal: Renewal) -> None:
    Lives(ALLOCATORS[0], scene(5, renewal=renewal), between=1).check()


@pytest.mark.parametrize("seed", [6, 7])
def test_on_demand_gpus_that_are_few_are_given_as_simulated(seed: int) -> None:
    Lives(ALLOCATORS[1], scene(seed, stock=True)).check()


@pytest.mark.parametrize("spec", ALLOCATORS, ids=str)
@pytest.mark.parametrize("quota", [5, 12])
def test_a_fleet_that_may_hold_few_gpus_on_demand_is_lived_as_simulated(quota: int, spec: Spec) -> None:
    few = dataclasses.replace(scene(13), on_demand_gpus=quota)
    lives = Lives(spec, few)
    lives.check()
    most = max(sum(one.on_demand_gpus for one in at) for at in lives.held_together())
    assert 0 < most <= quota


@pytest.mark.parametrize("late_hours", [0.01, 0.2])
def test_a_late_look_sells_no_spot_twice_and_pays_every_stretch_once(late_hours: float) -> None:
    Lives(ALLOCATORS[0], scene(8), late_hours=late_hours).audit()


def test_jobs_of_these_tests_do_all_that_is_to_be_the_same() -> None:
    lives = Lives(ALLOCATORS[0], scene(0))
    jobs = lives.engine.state.jobs.values()
    assert sum(job.holding.moves for job in jobs) > 3
    assert sum(job.holding.preemptions for job in jobs) > 3
    assert sum(job.money.bill.move_usd for job in jobs) > 0.0
    assert (
        min(sum(job.money.bill.spot_usd for job in jobs), sum(job.money.bill.on_demand_usd for job in jobs))
        > 10.0
    )


def test_the_state_of_a_fleet_on_a_market_is_a_fold_over_its_journal() -> None:
    lives = Lives(ALLOCATORS[0], scene(1))
    again = JournalState()
    for record in lives.store.read():
        again.apply(record)
    assert dataclasses.asdict(again) == dataclasses.asdict(lives.engine.state)
    lives.engine.keep()
    assert dataclasses.asdict(read_state(lives.store)) == dataclasses.asdict(again)


@pytest.mark.parametrize("seed", [9, 10, 11])
def test_jobs_are_refused_as_simulated_and_told_what_could_be_promised(seed: int) -> None:
    lives = Lives(Reserved(), scene(seed))
    lives.check()
    assert 2 < len(lives.refused) < 21
    said = next(iter(lives.refused.values()))
    assert "no more can be promised; it could be promised with a deadline of " in said
    assert " or a budget of $412.00 a period or a width of " in said
    for number, refusal in lives.told.refused.items():
        assert refusal.gpus is not None
        assert f"a width of {refusal.gpus} GPU" in lives.refused[number]


@pytest.mark.parametrize("every", [3, 4, 7])
def test_controllers_that_are_killed_between_writes_live_the_same_fleet(every: int) -> None:
    Lives(ALLOCATORS[0], scene(12), store=Fragile(every)).check()
