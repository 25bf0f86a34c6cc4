"""Jobs of a fleet that are slower than their files say: measured, in time, and never beyond the budget."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.allocators.view import FleetView, begin
from slacktide.backends.base import BackendStatus, JobProgress
from slacktide.backends.replay import Replay
from slacktide.budget.allowance import Allowance
from slacktide.core.errors import InfeasibleError
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job, Order
from slacktide.engine.engine import Engine
from slacktide.engine.fleet.fleets import FleetMarket, LiveFleet
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Decided, HealthChanged, PaceRevised, Submitted
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market
from slacktide.physics import progress as physics
from slacktide.physics.pace import USUAL_SPREAD, mean_factor
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import to_spare
from slacktide.simulation.pool_options import PoolOptions
from tests import build

SLOT, TICK = 0.5, 0.1
RESTART_HOURS, CHECKPOINT_HOURS = 0.1, 0.1
JOB = Job(
    work_gpu_hours=16.0, widths=(1, 2, 4, 8), speedup=Amdahl(0.97), restart_hours=RESTART_HOURS,
    checkpoint_hours=CHECKPOINT_HOURS, work_spread=USUAL_SPREAD,
)  # fmt: skip


class Workers(Replay):
    """Workers that really work, at their own pace, and report how far they came."""

    def __init__(self, jobs: Mapping[str, Job], paces: Mapping[str, float]) -> None:
        super().__init__()
        self.jobs, self.paces = jobs, paces
        self.now_hours = 0.0
        self.began: dict[str, tuple[int, float]] = {}
        """The newest attempt of each job, and when it was ordered."""
        self.saved: dict[str, float] = {}
        self.done: dict[str, float] = {}
        self.ended: dict[str, float] = {}

    def hold(self, order: Order) -> None:
        super().hold(order)
        if order.attempt > self.began.get(order.job, (0, 0.0))[0]:
            self.began[order.job] = order.attempt, self.now_hours
            # A planned change is a graceful stop.
            self.saved[order.job] = self.done.setdefault(order.job, 0.0)

    def take(self, job: str, spot_gpus: int, notice_s: float) -> None:
        """Lose what was not saved."""
        self.done[job] = self.saved[job]

    def work(self, now_hours: float) -> None:
        """Let time pass."""
        for name, order in self._orders.items():
            self._work(name, order, now_hours)
        self.now_hours = now_hours

    def _work(self, name: str, order: Order, now_hours: float) -> None:
        if order.ending or not order.gpus or name in self.ended:
            return
        from_hours = max(self.now_hours, self.began[name][1] + RESTART_HOURS)
        job = self.jobs[name]
        rate = job.speedup(order.gpus) * self.paces[name] / job.work_gpu_hours
        if from_hours + (1.0 - self.done[name]) / rate <= now_hours:
            self.ended[name] = from_hours + (1.0 - self.done[name]) / rate
            self.done[name] = 1.0
        else:
            self.done[name] += rate * max(0.0, now_hours - from_hours)
        # It saves at every tenth of an hour of work.
        step = rate * CHECKPOINT_HOURS
        self.saved[name] = max(self.saved.get(name, 0.0), math.floor(self.done[name] / step) * step)

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        return {job: self._told(job) for job in jobs}

    def _told(self, name: str) -> BackendStatus:
        order = self._orders.get(name)
        if order is None or name not in self.began:
            return BackendStatus(finished=False, gone=True)
        attempt, began = self.began[name]
        progress = JobProgress(self.saved.get(name, 0.0), self.saved.get(name, 0.0))
        if self.now_hours > began + RESTART_HOURS:
            progress = JobProgress(self.done[name], self.saved.get(name, 0.0), self.now_hours)
        if name in self.ended:
            return BackendStatus(
                attempt, finished=True, gone=True, until_hours=self.ended[name], progress=progress
            )
        held = (0, 0) if order.ending else (order.spot_gpus, order.on_demand_gpus)
        gone = order.ending or not order.gpus
        return BackendStatus(attempt, order.pool, *held, finished=False, gone=gone, progress=progress)


class Life:
    """A fleet with real workers, lived through."""

    def __init__(
        self, where: Market, jobs: Mapping[str, Job], paces: Mapping[str, float], spec: str, budget_usd: float
    ) -> None:
        self.market, self.jobs, self.store = where, jobs, MemoryStore()
        self.spec, self.allowance = spec, Allowance(budget_usd, 1000.0)
        self.job_contexts = {name: self._job_context(job) for name, job in jobs.items()}
        self.backend = Workers(jobs, paces)
        self.engine = Engine(
            self.store, self.backend, open_job=lambda one: self.job_contexts[one.job], open_fleet=self._opened
        )
        self.views: list[FleetView] = []
        self.refused: dict[str, str] = {}
        for name in jobs:
            self._submit(name)
        self._live()

    def _job_context(self, job: Job) -> JobContext:
        ground = PoolOptions.of(job, "", self.market) if len(self.market.pools) > 1 else None
        pool, policy = self.market.pools[0], policies.make("on-demand")
        return make_context(job, self.market, pool, policy, 0, pools=ground)

    def _opened(self, first: Submitted) -> LiveFleet:
        inner, views = begin(allocators.make(self.spec), None), self.views

        class Watched:
            def decide(self, view: FleetView) -> object:
                views.append(view)
                return inner.decide(view)

            def __getattr__(self, name: str) -> object:
                return getattr(inner, name)

        run = LiveFleet(None, Watched(), self.spec, {})  # type: ignore[arg-type]
        run.market, run.allowance = FleetMarket(self.market), self.allowance
        return run

    def _submit(self, name: str) -> None:
        context = self.job_contexts[name]
        pools = context.pool_names if context.may_move else ()
        try:
            self.engine.submit(
                build.submitted(
                    name,
                    slot_hours=SLOT,
                    origin_hours=0.0,
                    pool=context.home.name,
                    fleet="fleet",
                    fleet_class="any",
                    pools=pools,
                )
            )
        except InfeasibleError as error:
            self.refused[name] = str(error)

    def _live(self) -> None:
        for tick in range(int(90 / TICK)):
            now = tick * TICK
            self.backend.work(now)
            self.engine.step(now)
            if all(math.isinf(self.jobs[record.job].deadline_hours) for record in self.engine.state.active):
                return

    @property
    def late(self) -> list[str]:
        """The jobs that were not done by their deadline."""
        ended = {name: record.ended for name, record in self.engine.state.jobs.items()}
        due = {name: one for name, one in ended.items() if self.jobs[name].deadline_hours < math.inf}
        return [name for name, one in due.items() if one is None or one.status != "succeeded"]

    @property
    def spent_usd(self) -> float:
        return sum(record.progress.state.cost_usd for record in self.engine.state.jobs.values())

    def events(self, kind: type) -> list:  # type: ignore[type-arg]
        return [record.event for record in self.store.read() if isinstance(record.event, kind)]


def market(seed: int, pools: int = 1) -> Market:
    """Return a market whose spot comes and goes."""
    rng = np.random.default_rng(seed)
    return Market(
        tuple(
            build.pool(
                rng.uniform(1.0, 2.0, 240),
                4.0,
                np.repeat(rng.integers(0, 9, 40) * rng.integers(0, 2, 40), 6),
                name=f"zone-{number}",
                slot_hours=SLOT,
            )
            for number in range(pools)
        )
    )


def fleet(seed: int, spread: float = USUAL_SPREAD) -> tuple[dict[str, Job], dict[str, float]]:
    """Return jobs of which most have a deadline, and how fast each really is, as a factor on its file.

    On demand from the start, at its true pace, each has what the promise needs to spare.
    """
    rng = np.random.default_rng(seed)
    jobs, paces = dict[str, Job](), dict[str, float]()
    for number in range(6):
        work, pace = float(rng.uniform(4.0, 24.0)), float(rng.choice([0.5, 0.6, 0.75, 0.9, 1.0, 1.2]))
        said = dataclasses.replace(JOB, name=f"job-{number}", work_gpu_hours=work, work_spread=spread)
        needs = RESTART_HOURS + said.work_hours(8) / pace
        spare = to_spare(physics.terms(said), SLOT) + TICK
        due = needs + spare + float(rng.choice([0.0, 0.5, 3.0, 10.0])) if number < 4 else math.inf
        jobs[said.name] = dataclasses.replace(said, deadline_hours=due)
        paces[said.name] = pace
    return jobs, paces


@cache
def lived(seed: int, spec: str, spread: float, pools: int = 1) -> Life:
    return Life(market(seed, pools), *fleet(seed, spread), spec, 5000.0)


@pytest.mark.parametrize(
    ("spec", "pools"),
    [("shadow-prices", 1), ("shadow-prices", 2), ("patient-spot", 1), ("earliest-deadline", 2)],
)
def test_none_is_late_whatever_files_say_where_on_demand_has_time_to_spare(spec: str, pools: int) -> None:
    for seed in range(3):
        one = lived(seed, spec, USUAL_SPREAD, pools)
        assert not one.late, f"{seed}: {one.late} of {list(one.engine.state.jobs)}"
        assert len(one.engine.state.jobs) > 3


def test_files_that_are_believed_are_late() -> None:
    late = [lived(seed, "shadow-prices", 0.0).late for seed in range(3)]
    assert any(late), "the scene: this is what measuring prevents"


def test_bids_go_by_the_mean_and_promises_by_the_safe_pace() -> None:
    one = lived(0, "shadow-prices", USUAL_SPREAD)
    last = {event.job: event.pace for event in one.events(PaceRevised)}
    assert len(last) == len(one.engine.state.jobs)
    for job, pace in last.items():
        assert mean_factor(pace, 8) == pytest.approx(one.backend.paces[job], rel=0.15)
    slower = 0
    for view in one.views:
        assert view.site is not None
        jobs, rate = view.site.jobs, view.site.kinds.rate[:, 0, 0, 8]
        assert (rate[jobs.safe_kind] <= rate[jobs.kind]).all()
        assert (jobs.measure_gpus[np.isinf(jobs.deadline_hours)] == 0).all()
        slower += int((rate[jobs.safe_kind] < rate[jobs.kind]).sum())
    assert slower > 50
    first = one.views[0].site
    assert first is not None
    assert (first.jobs.measure_gpus[np.isfinite(first.jobs.deadline_hours)] > 0).all()


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_the_budget_is_never_passed_by_jobs_that_need_more_than_was_kept(share: float) -> None:
    at_risk = 0
    for seed in range(6):
        jobs, paces = fleet(seed)
        needed = sum(4.0 * 8 * (0.2 + job.work_hours(8)) for job in jobs.values())
        one = Life(market(seed), jobs, paces, "shadow-prices", share * needed)
        assert one.spent_usd <= share * needed + 1e-6
        told = [event for event in one.events(HealthChanged) if "the budget comes first" in event.why]
        short = {event.job for event in one.events(Decided) if event.why == "budget-short"}
        assert {event.job for event in told} <= short
        at_risk += len(told)
        assert set(one.late) <= short, "who was covered is in time"
    assert at_risk > 0
