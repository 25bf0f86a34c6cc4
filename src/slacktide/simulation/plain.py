"""The back-test as it is defined: one job, one pool, one policy, slot by slot."""

from __future__ import annotations

from dataclasses import dataclass

from slacktide.core.errors import InputError, shown
from slacktide.core.types import Allocation, Job, JobState, Quote
from slacktide.market.base import Pool
from slacktide.market.forecast.base import Forecaster
from slacktide.market.forecast.persistence import DEFAULT_FORECASTER, DEFAULT_HORIZON
from slacktide.physics import ledger, physics
from slacktide.physics.pace import learn, prior
from slacktide.physics.tariff import Meter, Tariff, tariff_of
from slacktide.physics.truth import AS_SAID, Truths
from slacktide.policies.base import late, past_deadline
from slacktide.policies.decision import decision_of
from slacktide.policies.view import Policy, look, stays_in
from slacktide.results.run import Run, SlotRecord
from slacktide.simulation.playback import Playback
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


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run is given beside job, pool and policy; all policies of a comparison share it."""

    forecaster: Forecaster = DEFAULT_FORECASTER
    horizon: int = DEFAULT_HORIZON
    """How many slots ahead forecasts reach."""
    neighbours: tuple[Pool, ...] = ()
    """Other pools whose past may be known."""
    truth: Truths = AS_SAID
    """What the job really is from each start; policies know only what it says and what was measured."""


USUAL = Setting()


def run(
    job: Job, pool: Pool, policy: Policy, *, start: int = 0, name: str = "", setting: Setting = USUAL
) -> Run:
    """Run a job from a slot of the market on, until it ends, and keep every slot's record."""
    check_start(job, pool, start)
    told, tariff = physics.terms(job), tariff_of(job.billing, pool.slot_hours)
    terms = physics.terms(setting.truth.at(start).of(job))
    state, pace = JobState(), prior(job.work_spread)
    records: list[SlotRecord] = []
    memory: tuple[float, ...] = ()
    market = played(pool, start, setting)
    while not state.ended:
        slot = len(records)
        quote = pool.quote(start + slot)
        left = physics.lose(terms, state, quote.spot_gpus)
        if past_deadline(terms, slot * pool.slot_hours):
            wanted = late(terms, left, quote.keeping(left.on_demand_gpus))
        else:
            now = market.at(slot, spot_gpus=left.spot_gpus)
            wanted = decision_of(policy, look(job, now, left, slot, pool.slot_hours, memory, pace=pace))
        record = step(job, pool, terms, tariff, state, left, quote, wanted, slot)
        records.append(record)
        pace = learn(pace, told, left, record.after, record.lived.stretch.productive_hours)
        state, memory = record.after, wanted.memory
    return summarise(job, pool, records, start=start, name=name)


def played(pool: Pool, start: int, setting: Setting) -> Playback:
    """Return the market as it will be seen from a start on, moment by moment."""
    return Playback(pool, start, setting.neighbours, setting.forecaster, setting.horizon)


def step(
    job: Job,
    pool: Pool,
    terms: physics.Terms,
    tariff: Tariff,
    state: JobState,
    left: JobState,
    quote: Quote,
    wanted: Allocation,
    slot: int,
) -> SlotRecord:
    """Live through one slot with a decision taken."""
    stays_in(wanted, pool.name, job.name)
    offered = quote.keeping(left.on_demand_gpus)
    spot, on_demand = physics.cut(terms, offered, wanted.spot_gpus, wanted.on_demand_gpus)
    begin, hours = slot * tariff.slot_hours, tariff.slot_hours
    after, _, charge, passed = ledger.live(
        terms, tariff, job.money_usd, left, Meter(), slot, begin, hours, quote, left.pool, spot, on_demand
    )
    dropped = physics.given_up(terms, left, spot, on_demand, left.pool)
    gained = after.progress_gpu_hours - (left.progress_gpu_hours - dropped)
    lived = ledger.priced(
        job.name, pool.name, slot, begin, quote, spot, on_demand, charge, passed, gained, estimated=True
    )
    return SlotRecord(
        slot,
        quote,
        wanted,
        left,
        state.spot_gpus - left.spot_gpus,
        state.progress_gpu_hours - left.progress_gpu_hours + dropped,
        lived,
        after,
    )


def summarise(job: Job, pool: Pool, records: list[SlotRecord], *, start: int, name: str) -> Run:
    """Add up the records of a run."""
    end = records[-1].after
    bill = ledger.bill(record.lived for record in records)
    return Run(
        policy=name,
        pool=pool.name,
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
