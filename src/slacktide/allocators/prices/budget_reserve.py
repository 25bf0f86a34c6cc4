"""Keeps a fleet within its budget: what a decision costs until the next border, and what stays in reserve.

After every decision: spent + what all jobs cost until the next border + the reserve for hard deadlines then,
in case all spot disappears, is at most the budget. A job being rescued pays exactly what was kept for it, and
one that waits needs no more than before; so there is always a decision that satisfies this.

A job that turns out to be slower than its file needs more than was kept, and so does every rescue when
on-demand prices rise. If there is no longer enough money for all of them, the budget comes first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.allocators.prices.deadline_guarantees import at_the_border, is_hard, rescue
from slacktide.allocators.prices.spot_auction import WayCosts
from slacktide.allocators.site.job_tables import JobTables, Kinds, SiteMoment, state_of
from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable

SPOT, ON_DEMAND, RESCUE, WAITS, NO_MONEY, SHORT, FULL = range(7)  # why a job has what it has
BEGUN_PAUSES = 2.0
"""A job may start only if there is money for this many times its pause, so for as much work as pause."""


class Holdings(NamedTuple):
    """What each job is to hold, and why."""

    pool: Ints
    spot_gpus: Ints
    on_demand_gpus: Ints
    why: Ints


@compilable
def reserves(moment: SiteMoment) -> Floats:
    """Return what the rescue of each job may cost from now on at the most; 0 without a hard deadline."""
    jobs = moment.jobs
    usd = np.zeros(len(jobs.kind))
    for job in range(len(usd)):
        if is_hard(jobs, job):
            usd[job] = rescue(moment, job, state_of(jobs, job), moment.now_hours).most_usd
    return usd


@compilable
def needs(moment: SiteMoment, job: int, pool: int, spot: int, on_demand: int) -> tuple[float, float]:
    """Return what a job pays until the next border with these GPUs, and what must be kept for it then."""
    kinds, jobs, prices = moment.kinds, moment.jobs, moment.prices
    hours, slot_hours = moment.hours, moment.slot_hours
    hourly = prices.spot_usd[pool] * spot + prices.on_demand_usd[pool] * on_demand
    moves = pool != jobs.pool[job] and spot + on_demand > 0 and jobs.progress_gpu_hours[job] > 0.0
    moved = kinds.move_usd[jobs.kind[job], jobs.pool[job], pool] if moves else 0.0
    whole = kinds.whole_slots[jobs.kind[job]] > 0
    if not is_hard(jobs, job):
        return hourly * (slot_hours if whole else hours) + moved, 0.0
    state, held, kept = at_the_border(moment, job, pool, spot, on_demand)
    paid = hourly * (slot_hours if whole and held > 0.0 else held) + moved
    if state.finish_hours < np.inf:
        return paid, 0.0
    # If spot is not lost there is less work left, but perhaps a checkpoint to copy to the rescue's pool.
    border = moment.now_hours + hours
    most = max(rescue(moment, job, state, border).most_usd, rescue(moment, job, kept, border).most_usd)
    return paid, most + (slot_hours * most_hourly(moment, job) if whole else 0.0)


@compilable
def beginning_usd(
    moment: SiteMoment, renewed_hours: float, job: int, pool: int, spot: int, on_demand: int
) -> float:
    """Return what a job that starts costs from the next border on, until it has worked as long as it paused.

    Without this, many jobs would start on little money, which would run out while they all pause, and the
    same again in the next period. What is paid after the money is renewed is not counted.
    """
    jobs, prices = moment.jobs, moment.prices
    hourly = prices.spot_usd[pool] * spot + prices.on_demand_usd[pool] * on_demand
    pause = jobs.pause_hours[job]
    if spot != jobs.spot_gpus[job] or on_demand != jobs.on_demand_gpus[job] or pool != jobs.pool[job]:
        pause = moment.kinds.restart_hours[jobs.kind[job]]
    return float(hourly * max(0.0, min(BEGUN_PAUSES * pause, renewed_hours) - moment.hours))


@compilable
def most_hourly(moment: SiteMoment, job: int) -> float:
    """Return what the fastest on-demand width costs per hour in the most expensive pool."""
    on_demand_usd, fastest = moment.prices.on_demand_usd, moment.kinds.fastest[moment.jobs.kind[job]]
    most = 0.0
    for pool in range(len(on_demand_usd)):
        most = max(most, on_demand_usd[pool] * fastest[pool])
    return most


@compilable
def keep_to_budget(
    moment: SiteMoment, left_usd: float, renewed_hours: float, ways: WayCosts, gains: Floats, held: Holdings
) -> float:
    """Take back GPUs that there is no money for, those of the least gain first; return the reserve.

    Jobs without a hard deadline give way first. Then jobs with one wait if they can, and otherwise start
    their rescue at once instead of holding spot. There is new money in `renewed_hours`.
    """
    jobs, count = moment.jobs, len(moment.jobs.kind)
    paid, kept, begun = np.zeros(count), np.zeros(count), np.zeros(count)
    for job in range(count):
        pool, spot, on_demand = held.pool[job], held.spot_gpus[job], held.on_demand_gpus[job]
        paid[job], kept[job] = needs(moment, job, pool, spot, on_demand)
        if not is_hard(jobs, job):
            begun[job] = beginning_usd(moment, renewed_hours, job, pool, spot, on_demand)
    if paid.sum() + kept.sum() + begun.sum() <= left_usd:
        return float(kept.sum())
    for job in np.argsort(gains):
        if paid.sum() + kept.sum() + begun.sum() <= left_usd:
            break
        if not is_hard(jobs, job) and paid[job] > 0.0:
            _let_wait(jobs, held, job)
            paid[job] = begun[job] = 0.0
    for job in range(count):
        if paid.sum() + kept.sum() <= left_usd:
            break
        if not is_hard(jobs, job):
            continue
        pool, gpus = jobs.pool[job], 0
        if ways.forced[job]:
            pool, gpus = ways.without_pool[job], ways.without_gpus[job]
        _take_if_cheaper(moment, job, pool, gpus, paid, kept, held)
        if jobs.on_demand_gpus[job] > 0 and not ways.forced[job]:
            # The money kept for a job that already runs on demand is what continuing like that costs.
            _take_if_cheaper(moment, job, jobs.pool[job], jobs.on_demand_gpus[job], paid, kept, held)
    if paid.sum() + kept.sum() > left_usd:
        _cover_some(moment.kinds, jobs, left_usd, paid, kept, held)
    return float(kept.sum())


@compilable
def _take_if_cheaper(
    moment: SiteMoment, job: int, pool: int, gpus: int, paid: Floats, kept: Floats, held: Holdings
) -> None:
    """Give a job on-demand GPUs of a pool, or none, if it then needs less money."""
    pays, keeps = needs(moment, job, pool, 0, gpus)
    if pays + keeps < paid[job] + kept[job]:
        paid[job], kept[job] = pays, keeps
        held.pool[job], held.spot_gpus[job], held.on_demand_gpus[job] = pool, 0, gpus
        held.why[job] = RESCUE if gpus > 0 else NO_MONEY


@compilable
def _cover_some(
    kinds: Kinds, jobs: JobTables, left_usd: float, paid: Floats, kept: Floats, held: Holdings
) -> None:
    """Keep the promises that there is money for; the other jobs get what is left until the next border.

    Jobs as fast as their file says come first, because enough was kept for them; then slower jobs. Both in
    the order of their submission.
    """
    covered, left = np.zeros(len(paid), dtype=np.bool_), left_usd
    for slow in (False, True):
        for job in range(len(paid)):
            fits = is_slow(kinds, jobs, job) == slow and paid[job] + kept[job] <= left
            if fits and is_hard(jobs, job):
                covered[job] = True
                left -= paid[job] + kept[job]
    for job in range(len(paid)):
        if is_hard(jobs, job) and not covered[job]:
            kept[job] = 0.0
            if paid[job] > left:
                _let_wait(jobs, held, job)
                paid[job] = 0.0
            held.why[job] = SHORT
            left -= paid[job]


@compilable
def is_slow(kinds: Kinds, jobs: JobTables, job: int) -> bool:
    """Whether a job is believed to be slower than its file says."""
    pool, gpus = jobs.pool[job], kinds.fastest[jobs.kind[job], jobs.pool[job]]
    rate, said = kinds.rate[jobs.kind[job], pool, 0, gpus], kinds.rate[jobs.said_kind[job], pool, 0, gpus]
    return bool(rate < said)


@compilable
def _let_wait(jobs: JobTables, held: Holdings, job: int) -> None:
    held.pool[job] = jobs.pool[job]
    held.spot_gpus[job] = 0
    held.on_demand_gpus[job] = 0
    held.why[job] = NO_MONEY
