"""The back-test by definition: one job under one policy, slot by slot, in one pool or over several.

`batch` does the same for one pool, compiled; a test checks that both agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat

from slacktide.core.errors import InputError, shown
from slacktide.core.quotes import Sighting
from slacktide.core.types import Allocation, Job, JobState, Reason
from slacktide.core.units import MAX_GPUS
from slacktide.journal.events import Sight
from slacktide.market.base import Pool
from slacktide.market.tape import MarketView
from slacktide.physics import ledger
from slacktide.physics import progress as physics
from slacktide.physics.pace import learn, prior
from slacktide.physics.tariff import Meter, tariff_of
from slacktide.physics.truth import AS_SAID, Truth
from slacktide.policies.base import past_deadline
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.no_checkpoints import keeping
from slacktide.policies.view import Policy, View, decision_of, look
from slacktide.results.run import Run, SlotRecord, stays_of
from slacktide.simulation.playback import USUAL, Playback, Setting, TriedMoment
from slacktide.simulation.pool_options import Obtained, PoolOptions, obtain
from slacktide.solvers.clairvoyant.clairvoyant import Plan
from slacktide.solvers.pools.optimum import Schedule
from slacktide.solvers.slotted import deadline_slots


def last_start(job: Job, pool: Pool) -> int:
    """Return the last slot from which the market covers the job's deadline; negative when none does."""
    return len(pool) - deadline_slots(job, pool.slot_hours)


def check_start(job: Job, pool: Pool, start: int) -> None:
    """Raise InputError unless the market covers the job from this start to its deadline."""
    last = last_start(job, pool)
    if not 0 <= start <= last:
        raise InputError(
            f"pool {shown(pool.name)}: a start must leave {job.deadline_hours:g} h of market, so lie in "
            f"0..{last}, got slot {start}; use a longer market or an earlier deadline"
        )


def guarded(policy: Policy, job: Job) -> Policy:
    """Return the policy as it will run: behind the deadline guard when the deadline is hard.

    For a job without checkpoints it keeps workers that would lose work.
    """
    if isinstance(policy, DeadlineGuard):
        return DeadlineGuard(keeping(policy.inner, job))
    acting = keeping(policy, job)
    return DeadlineGuard(acting) if job.hard else acting


def run(
    job: Job, pool: Pool, policy: Policy, *, start: int = 0, name: str = "", setting: Setting = USUAL
) -> Run:
    """Run a job that stays in one pool, as `run_over_pools` does."""
    return run_over_pools(PoolOptions.single(job, pool), policy, start=start, name=name, setting=setting)


def run_over_pools(
    pools: PoolOptions,
    policy: Policy,
    *,
    start: int = 0,
    name: str = "",
    setting: Setting = USUAL,
    sight: Sight = "feed",
) -> Run:
    """Run a job from `start`, a slot of its first pool, until it ends; the run has a record of every slot."""
    check_start(pools.job, pools.pools[0], start)
    running = _JobRun(pools, policy, start, setting, sight)
    while not running.state.ended:
        running.pass_slot()
    return summarise(pools, running.records, start=start, name=name)


class PlanFollower:
    """The clairvoyant as a policy: holds what a plan that was made with knowledge of the future says."""

    def __init__(self, plan: Plan | Schedule, names: Sequence[str]) -> None:
        where = [names[pool] for pool in plan.pools.tolist()] if isinstance(plan, Schedule) else repeat(None)
        self._slots = list(zip(plan.spot_gpus.tolist(), plan.on_demand_gpus.tolist(), where, strict=False))

    def decide(self, view: View) -> Allocation:
        if view.slot >= len(self._slots):
            return Allocation(reason=Reason("plan-ended"))
        return Allocation(*self._slots[view.slot], Reason("knows-the-future"))


def follow(
    pools: PoolOptions,
    plan: Plan | Schedule,
    *,
    start: int = 0,
    name: str = "",
    truth: Truth = AS_SAID,
) -> Run:
    """Run a plan that was made with knowledge of the future; the run has a record of every slot."""
    jobs = tuple(
        replace(truth.of(job), checkpoint_hours=0.0, max_cost_usd=None, after_deadline="finish-fast")
        for job in pools.places.jobs
    )
    free = replace(pools, job=jobs[0], places=pools.places._replace(jobs=jobs))
    return run_over_pools(free, PlanFollower(plan, free.names), start=start, name=name)


class _JobRun:
    """A back-test under way: the state of its job, and the records of the slots so far."""

    def __init__(
        self, pools: PoolOptions, policy: Policy, start: int, setting: Setting, sight: Sight
    ) -> None:
        self.records: list[SlotRecord] = []
        self.state = JobState()
        self._pools, self._policy, self._sight = pools, policy, sight
        self._terms, self._stated = pools.terms(setting.truth.at(start)), pools.terms()
        self._tariff = tariff_of(pools.job.billing, pools.slot_hours)
        self._pace, self._memory = prior(pools.job.work_spread), tuple[float, ...]()
        known = setting if pools.stays else replace(setting, neighbours=pools.pools[1:])
        self._market = Playback(pools.pools[0], start, known)
        self._sightings: list[list[Sighting]] = [[] for _ in pools.pools]

    def pass_slot(self) -> None:
        """Simulate the next slot: what the market takes back, what is decided, and what comes of it."""
        slot, before = len(self.records), self.state
        moment, left = self._begun(slot, before)
        if past_deadline(self._terms[0], moment.hours):
            seen = self._seen(moment)
            quotes = [seen[at].quote for at in range(len(self._pools.pools))]
            wanted = self._pools.late(self._terms, quotes, left, moment.hours)
        else:
            wanted = decision_of(self._policy, self._view(moment, left))
        got = obtain(self._pools, self._terms, moment, left, wanted, self._sightings)
        lived, dropped, self.state = self._live(moment, left, got)
        lost_gpus = before.spot_gpus - left.spot_gpus
        lost_gpu_hours = before.progress_gpu_hours - left.progress_gpu_hours + dropped
        quote = moment[got.pool].quote
        self.records.append(
            SlotRecord(slot, quote, wanted, left, lost_gpus, lost_gpu_hours, lived, self.state)
        )
        # The pace is learned against the figures of the job's file, never against the true ones.
        stated, productive = self._stated[got.pool], lived.stretch.productive_hours
        self._pace = learn(self._pace, stated, left, self.state, productive)
        self._memory = wanted.memory

    def _begun(self, slot: int, before: JobState) -> tuple[MarketView, JobState]:
        """Return the market at the beginning of a slot, and the job without the spot that was taken."""
        moment = self._market.at(slot, before.pool)
        left = physics.lose(self._terms[before.pool], before, moment[before.pool].quote.spot_gpus)
        if before.spot_gpus:
            # A loss shows exactly how much spot the pool has; keeping all of it shows only the least.
            most = MAX_GPUS if left.spot_gpus == before.spot_gpus else left.spot_gpus
            self._sightings[before.pool].append(Sighting(moment.hours, left.spot_gpus, most))
        return moment.warned(self._market.notice_hours(slot, before.pool, left.spot_gpus)), left

    def _seen(self, moment: MarketView) -> MarketView | TriedMoment:
        return moment if self._sight == "feed" else TriedMoment(moment, self._sightings)

    def _view(self, moment: MarketView, left: JobState) -> View:
        pools, slot = self._pools, len(self.records)
        places = None if pools.stays else pools.places
        view = look(
            pools.job, moment, left, slot, pools.slot_hours, self._memory, pace=self._pace, places=places
        )
        seen = self._seen(moment)
        return view if seen is moment else replace(view, pools=seen, known=seen)

    def _live(
        self, moment: MarketView, left: JobState, got: Obtained
    ) -> tuple[ledger.Priced, float, JobState]:
        """Simulate a slot; return what happened, the work given up in GPU-hours, and the state after it."""
        pool, spot, on_demand = got
        pools, terms, quote = self._pools, self._terms[pool], moment[pool].quote
        slot, begin, hours = len(self.records), moment.hours, pools.slot_hours
        # The checkpoint is paid for when GPUs are taken in the new pool: a job that waits carries nothing.
        moves = pool != left.pool and spot + on_demand > 0 and left.progress_gpu_hours > 0.0
        fee = float(pools.places.move_usd[left.pool, pool]) if moves else 0.0
        after, _, charge, passed = ledger.live(
            terms, self._tariff, pools.job.money_usd, left, Meter(), slot, begin, hours, quote, pool, spot,
            on_demand, fee,
        )  # fmt: skip
        dropped = physics.given_up(terms, left, spot, on_demand, pool)
        gained = after.progress_gpu_hours - (left.progress_gpu_hours - dropped)
        lived = ledger.priced(
            pools.job.name, pools.pools[pool].name, slot, begin, quote, spot, on_demand, charge, passed,
            gained, estimated=True,
        )  # fmt: skip
        return lived, dropped, after


def summarise(pools: PoolOptions, records: list[SlotRecord], *, start: int, name: str) -> Run:
    """Add up the records of a run; for a job that may move, with its stays and what its moves cost."""
    end, job = records[-1].after, pools.job
    lived = [record.lived for record in records]
    bill = ledger.bill(lived)
    run = Run(
        policy=name,
        pool=pools.pools[0].name,
        start_slot=start,
        cost_usd=float(end.cost_usd),
        utility_usd=float(job.value_at(end.finish_hours) - end.cost_usd),
        finish_hours=float(end.finish_hours),
        on_time=job.on_time(end.finish_hours),
        spot_gpu_hours=float(bill.spot_gpu_hours),
        on_demand_gpu_hours=float(bill.on_demand_gpu_hours),
        preemptions=sum(record.lost_gpus > 0 for record in records),
        lost_gpu_hours=float(sum(record.lost_gpu_hours for record in records)),
        slots=tuple(records),
    )
    if pools.stays:
        return run
    moves = sum(
        record.before.pool != record.after.pool and record.before.progress_gpu_hours > 0.0
        for record in records
    )
    usd = sum(stretch.charge.move_usd for stretch in lived)
    return replace(run, stays=stays_of(lived), moves=int(moves), move_usd=float(usd))
