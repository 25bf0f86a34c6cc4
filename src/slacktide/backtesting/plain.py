"""The back-test as it is defined: one job, one pool, one policy, slot by slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slacktide import physics
from slacktide.errors import InputError
from slacktide.market.base import Pool
from slacktide.types import Allocation, Job, JobState, Policy, Quote, Reason, View

LATE = Reason("past-deadline")


class SlotRecord(NamedTuple):
    """One slot of a back-test: what was offered, wanted, held, done and paid, and why."""

    slot: int
    quote: Quote
    wanted: Allocation
    before: JobState
    """The state the policy saw: spot that the market took is already gone."""
    lost_gpus: int
    """Spot GPUs that the market took at the start of the slot."""
    lost_gpu_hours: float
    """Work that went with them."""
    happened: physics.Happened
    after: JobState


@dataclass(frozen=True, slots=True)
class Run:
    """A job from its start to its end under one policy."""

    policy: str
    pool: str
    start_slot: int
    cost_usd: float
    utility_usd: float
    finish_hours: float
    """Hours from the start until the work was done; infinite when the money ended before it."""
    on_time: bool
    spot_gpu_hours: float
    on_demand_gpu_hours: float
    preemptions: int
    """Times that the market took GPUs away."""
    lost_gpu_hours: float
    """Work that was lost with them."""
    slots: tuple[SlotRecord, ...] = ()


def check_start(job: Job, pool: Pool, start: int) -> None:
    """Raise InputError unless the market covers the job from this start to its deadline."""
    last = len(pool) - physics.terms(job, pool.slot_hours).deadline_slots
    if not 0 <= start <= last:
        raise InputError(
            f"pool {pool.name!r}: a start must leave {job.deadline_hours:g} h of market, so lie in "
            f"0..{last}, got slot {start}; use a longer market or a nearer deadline"
        )


def run(job: Job, pool: Pool, policy: Policy, *, start: int = 0, name: str = "") -> Run:
    """Run a job from a slot of the market on, until it ends, and keep every slot's record."""
    check_start(job, pool, start)
    terms = physics.terms(job, pool.slot_hours)
    state = JobState()
    records: list[SlotRecord] = []
    while not state.ended:
        record = step(job, pool, policy, terms, state, start, len(records))
        records.append(record)
        state = record.after
    return summarise(job, pool, records, start=start, name=name)


def step(
    job: Job, pool: Pool, policy: Policy, terms: physics.Terms, state: JobState, start: int, slot: int
) -> SlotRecord:
    """Live through one slot: lose, look, decide, advance."""
    quote = pool.quote(start + slot)
    left = physics.lose(terms, state, quote.spot_gpus)
    if slot >= terms.deadline_slots:
        wanted = Allocation(0, terms.fastest, reason=LATE)
    else:
        view = View(
            job=job,
            slot=slot,
            slot_hours=pool.slot_hours,
            quote=quote,
            state=left,
            history=pool.history(start + slot),
            pool=pool.name,
        )
        wanted = policy.decide(view)
    after, happened = physics.advance(
        terms, left, slot, quote, wanted.spot_gpus, wanted.on_demand_gpus, left.pool
    )
    return SlotRecord(
        slot,
        quote,
        wanted,
        left,
        state.spot_gpus - left.spot_gpus,
        state.progress_gpu_hours - left.progress_gpu_hours,
        happened,
        after,
    )


def summarise(job: Job, pool: Pool, records: list[SlotRecord], *, start: int, name: str) -> Run:
    """Add up the records of a run."""
    end = records[-1].after
    held = [record.happened for record in records]
    return Run(
        policy=name,
        pool=pool.name,
        start_slot=start,
        cost_usd=float(end.cost_usd),
        utility_usd=float(job.value_at(end.finish_hours) - end.cost_usd),
        finish_hours=float(end.finish_hours),
        on_time=job.on_time(end.finish_hours),
        spot_gpu_hours=float(sum(slot.spot_gpus * slot.held_hours for slot in held)),
        on_demand_gpu_hours=float(sum(slot.on_demand_gpus * slot.held_hours for slot in held)),
        preemptions=sum(record.lost_gpus > 0 for record in records),
        lost_gpu_hours=float(sum(record.lost_gpu_hours for record in records)),
        slots=tuple(records),
    )
