"""The back-test as it is defined: one job under one policy, slot by slot, in one pool or over several.

`batch` is the same for one pool, compiled; that both agree is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from slacktide.core.errors import InputError, shown
from slacktide.core.quotes import Sighting
from slacktide.core.types import Allocation, Job, JobState, Reason
from slacktide.core.units import MAX_GPUS
from slacktide.journal.events import Sight
from slacktide.market.base import Pool
from slacktide.market.forecast.base import Forecaster
from slacktide.market.forecast.persistence import DEFAULT_FORECASTER, DEFAULT_HORIZON
from slacktide.market.tape import MarketView
from slacktide.physics import ledger
from slacktide.physics import progress as physics
from slacktide.physics.pace import Pace, learn, prior
from slacktide.physics.tariff import Meter, tariff_of
from slacktide.physics.truth import AS_SAID, Truth
from slacktide.policies.base import past_deadline
from slacktide.policies.decision import decision_of
from slacktide.policies.view import Policy, View, look
from slacktide.results.run import Run, SlotRecord, stays_of
from slacktide.simulation.playback import Playback
from slacktide.simulation.pool_options import PoolOptions
from slacktide.simulation.tries import Obtained, TriedMoment, obtain
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


class TruthByStart(Protocol):
    """What a job really is from each start: always the same, or drawn."""

    def at(self, start: int) -> Truth: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run is given apart from job, pool and policy; all policies of a comparison share it."""

    forecaster: Forecaster = DEFAULT_FORECASTER
    horizon: int = DEFAULT_HORIZON  # how many slots ahead forecasts reach
    neighbours: tuple[Pool, ...] = ()
    """Other pools whose past may be known; a job over pools knows its own pools instead."""
    truth: TruthByStart = AS_SAID
    """What the job really is from each start; policies know only what it says and what was measured."""


USUAL = Setting()


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
    """Run a job from a slot of its first pool on, until it ends, and keep every slot's record."""
    check_start(pools.job, pools.pools[0], start)
    stated, terms = pools.terms(), pools.terms(setting.truth.at(start))
    running = _JobRun(pools, terms, start, setting, sight)
    pace, memory = prior(pools.job.work_spread), tuple[float, ...]()
    while not running.state.ended:
        running.begin_slot()
        if past_deadline(terms[0], running.moment.hours):
            wanted = running.late()
        else:
            wanted = decision_of(policy, running.view(memory, pace))
        got = running.obtain(wanted)
        before, record = running.state, running.pass_slot(wanted, got)
        # What was believed is corrected by the job's own figures, never by those that are true.
        pace = learn(pace, stated[got.pool], before, record.after, record.lived.stretch.productive_hours)
        memory = wanted.memory
    return summarise(pools, running.records, start=start, name=name)


def follow(
    pools: PoolOptions, plan: Schedule, *, start: int = 0, name: str = "", truth: Truth = AS_SAID
) -> Run:
    """Live through a plan that was made with knowledge of the future, and keep every slot's record."""
    jobs = tuple(
        replace(truth.of(job), checkpoint_hours=0.0, max_cost_usd=None, after_deadline="finish-fast")
        for job in pools.places.jobs
    )
    free = replace(pools, job=jobs[0], places=pools.places._replace(jobs=jobs))
    running = _JobRun(free, free.terms(), start)
    for pool, spot, on_demand in zip(
        plan.pools.tolist(), plan.spot_gpus.tolist(), plan.on_demand_gpus.tolist(), strict=True
    ):
        running.begin_slot()
        wanted = Allocation(spot, on_demand, free.pools[pool].name, Reason("knows-the-future"))
        running.pass_slot(wanted, Obtained(pool, spot, on_demand))
    return summarise(free, running.records, start=start, name=name)


def played(pool: Pool, start: int, setting: Setting) -> Playback:
    """Return the market as it will be seen from a start on, moment by moment."""
    return Playback(pool, start, setting.neighbours, setting.forecaster, setting.horizon)


class _JobRun:
    """A job under way on a recorded market: where it stands, and what it has lived through."""

    def __init__(
        self,
        pools: PoolOptions,
        terms: Sequence[physics.Terms],
        start: int,
        setting: Setting = USUAL,
        sight: Sight = "feed",
    ) -> None:
        self.pools, self.sight = pools, sight
        self.records: list[SlotRecord] = []
        self.state = JobState()
        """What the job holds and has done; in a slot that has begun, what the market took is gone from it."""
        self.moment: MarketView
        self._terms, self._tariff = terms, tariff_of(pools.job.billing, pools.slot_hours)
        known = setting if pools.stays else replace(setting, neighbours=pools.pools[1:])
        self._market = played(pools.pools[0], start, known)
        self._sightings: list[list[Sighting]] = [[] for _ in pools.pools]
        self._lost_gpus, self._lost_gpu_hours = 0, 0.0

    def begin_slot(self) -> None:
        """Let time pass to the next slot, where the market takes what spot it no longer offers."""
        slot, before = len(self.records), self.state
        moment = self._market.at(slot, before.pool)
        left = physics.lose(self._terms[before.pool], before, moment[before.pool].quote.spot_gpus)
        if before.spot_gpus:
            # A loss shows exactly how much spot the pool has; keeping all of it shows only the least.
            most = MAX_GPUS if left.spot_gpus == before.spot_gpus else left.spot_gpus
            self._sightings[before.pool].append(Sighting(moment.hours, left.spot_gpus, most))
        self.moment = moment.warned(self._market.notice_hours(slot, before.pool, left.spot_gpus))
        self._lost_gpus = before.spot_gpus - left.spot_gpus
        self._lost_gpu_hours = before.progress_gpu_hours - left.progress_gpu_hours
        self.state = left

    @property
    def _seen(self) -> MarketView | TriedMoment:
        """The market as far as the job sees it."""
        return self.moment if self.sight == "feed" else TriedMoment(self.moment, self._sightings, 0.0)

    def view(self, memory: tuple[float, ...], pace: Pace) -> View:
        """Return what the job's policy may know now."""
        pools = self.pools
        places = None if pools.stays else pools.places
        slot, slot_hours = len(self.records), pools.slot_hours
        view = look(pools.job, self.moment, self.state, slot, slot_hours, memory, pace=pace, places=places)
        seen = self._seen
        return view if seen is self.moment else replace(view, pools=seen, known=seen)

    def late(self) -> Allocation:
        """Return what the job holds after its deadline."""
        seen = self._seen
        quotes = [seen[at].quote for at in range(len(self.pools.pools))]
        return self.pools.late(self._terms, quotes, self.state, seen.hours)

    def obtain(self, wanted: Allocation) -> Obtained:
        """Return what the job gets of what it wants."""
        return obtain(self.pools, self._terms, self.moment, self.state, wanted, self._sightings)

    def pass_slot(self, wanted: Allocation, got: Obtained) -> SlotRecord:
        """Live through the slot with what was obtained."""
        pool, spot, on_demand = got
        left, job, terms = self.state, self.pools.job, self._terms[pool]
        slot, begin, hours = len(self.records), self.moment.hours, self.pools.slot_hours
        quote = self.moment[pool].quote
        # The checkpoint is paid for when GPUs are taken in the new pool: a job that waits carries nothing.
        moves = pool != left.pool and spot + on_demand > 0 and left.progress_gpu_hours > 0.0
        fee = float(self.pools.places.move_usd[left.pool, pool]) if moves else 0.0
        after, _, charge, passed = ledger.live(
            terms, self._tariff, job.money_usd, left, Meter(), slot, begin, hours, quote, pool, spot,
            on_demand, fee,
        )  # fmt: skip
        dropped = physics.given_up(terms, left, spot, on_demand, pool)
        gained = after.progress_gpu_hours - (left.progress_gpu_hours - dropped)
        lived = ledger.priced(
            job.name, self.pools.pools[pool].name, slot, begin, quote, spot, on_demand, charge, passed,
            gained, estimated=True,
        )  # fmt: skip
        lost = self._lost_gpu_hours + dropped
        record = SlotRecord(slot, quote, wanted, left, self._lost_gpus, lost, lived, after)
        self.records.append(record)
        self.state = after
        return record


def summarise(pools: PoolOptions, records: list[SlotRecord], *, start: int, name: str) -> Run:
    """Add up the records of a run; of a job that may move, with where it was when and what moves cost."""
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
    usd = sum(one.charge.move_usd for one in lived)
    return replace(run, stays=stays_of(lived), moves=int(moves), move_usd=float(usd))
