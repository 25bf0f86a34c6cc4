"""What a slot does to work and money: the only place where either is counted.

The plain back-test, the batch back-test and the live engine all call these functions. One slot:

1. `lose`: the market takes spot GPUs back; work since the last checkpoint goes with them.
2. A policy sees what is left and says what it wants.
3. `advance`: the wish is cut to what can be had, workers are added or let go, the pause this
   costs is served, work is done with the rest of the slot, and what was held is paid.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.arrays import Floats, Ints
from slacktide.compiled import compilable
from slacktide.errors import InputError
from slacktide.types import TIME_TOLERANCE_HOURS, Job, JobState, Quote

WORK_TOLERANCE_HOURS = 1e-9


class Terms(NamedTuple):
    """A job and a slot length as bare numbers, the form compiled code reads."""

    slot_hours: float
    work_gpu_hours: float
    deadline_hours: float
    deadline_slots: int
    """First slot that begins at the deadline or after it: there the termination configuration begins."""
    restart_hours: float
    shrink_hours: float
    checkpoint_hours: float
    max_cost_usd: float
    whole_slots: bool
    """Whether a slot in which anything is held is paid in full."""
    move_hours: float
    """Added to a restart when the workers move to another pool."""
    move_usd: float
    fastest: int
    """The width with the greatest speedup."""
    rate: Floats
    """rate[n] = s(n), progress per hour on n GPUs."""
    fit: Ints
    """fit[n] = the greatest allowed width within n GPUs."""


class Happened(NamedTuple):
    """What one slot held, did and cost."""

    spot_gpus: int
    on_demand_gpus: int
    pause_hours: float
    """Hours of this slot without progress, though GPUs were held."""
    productive_hours: float
    held_hours: float
    cost_usd: float


def terms(job: Job, slot_hours: float, *, move_hours: float = 0.0, move_usd: float = 0.0) -> Terms:
    """Write a job as bare numbers for slots of this length."""
    if not (math.isfinite(slot_hours) and slot_hours > 0):
        raise InputError(f"slot_hours must be > 0, got {slot_hours:g}")
    width = np.zeros(job.max_gpus + 1, dtype=np.int64)
    width[list(job.widths)] = job.widths
    rate = np.array([job.speedup(gpus) for gpus in range(job.max_gpus + 1)], dtype=np.float64)
    return Terms(
        slot_hours=float(slot_hours),
        work_gpu_hours=float(job.work_gpu_hours),
        deadline_hours=float(job.deadline_hours),
        deadline_slots=math.ceil(job.deadline_hours / slot_hours - TIME_TOLERANCE_HOURS),
        restart_hours=float(job.restart_hours),
        shrink_hours=float(job.restart_hours if job.shrink_hours is None else job.shrink_hours),
        checkpoint_hours=float(job.checkpoint_hours),
        max_cost_usd=math.inf if job.max_cost_usd is None else float(job.max_cost_usd),
        whole_slots=job.billing == "slot",
        move_hours=float(move_hours),
        move_usd=float(move_usd),
        fastest=job.fastest_width,
        rate=rate,
        fit=np.maximum.accumulate(width),
    )


@compilable
def lose(terms: Terms, state: JobState, spot_left: int) -> JobState:
    """Return the state after the market left only this many spot GPUs in the job's pool."""
    if state.spot_gpus <= spot_left:
        return state
    progress, since = state.progress_gpu_hours, state.since_checkpoint_hours
    if terms.checkpoint_hours > 0.0:
        progress, since = state.checkpointed_gpu_hours, 0.0
    pause = max(state.pause_hours, terms.shrink_hours)
    return JobState(
        max(spot_left, 0),
        state.on_demand_gpus,
        state.pool,
        pause if max(spot_left, 0) + state.on_demand_gpus > 0 else 0.0,
        progress,
        state.checkpointed_gpu_hours,
        since,
        state.cost_usd,
        state.finish_hours,
        state.exhausted,
    )


@compilable
def cut(terms: Terms, quote: Quote, spot: int, on_demand: int) -> tuple[int, int]:
    """Cut a wish to what the market offers and to a width the job may have; on demand goes first."""
    spot = min(max(spot, 0), quote.spot_gpus, len(terms.fit) - 1)
    on_demand = min(max(on_demand, 0), len(terms.fit) - 1 - spot)
    surplus = spot + on_demand - terms.fit[spot + on_demand]
    from_on_demand = min(surplus, on_demand)
    return spot - (surplus - from_on_demand), on_demand - from_on_demand


@compilable
def pause_after(terms: Terms, state: JobState, spot: int, on_demand: int, pool: int) -> float:
    """Return the hours without progress that lie ahead once the job holds these workers."""
    if spot + on_demand == 0:
        return 0.0
    if pool != state.pool:
        return terms.restart_hours + (terms.move_hours if state.progress_gpu_hours > 0.0 else 0.0)
    if spot > state.spot_gpus or on_demand > state.on_demand_gpus:
        return terms.restart_hours
    if spot < state.spot_gpus or on_demand < state.on_demand_gpus:
        return max(state.pause_hours, terms.shrink_hours)
    return state.pause_hours


@compilable
def usd_per_hour(quote: Quote, spot: int, on_demand: int) -> float:
    """Return what an hour with these GPUs costs."""
    return quote.spot_usd_per_gpu_hour * spot + quote.on_demand_usd_per_gpu_hour * on_demand


@compilable
def advance(
    terms: Terms, state: JobState, slot: int, quote: Quote, spot: int, on_demand: int, pool: int
) -> tuple[JobState, Happened]:
    """Live through one slot, wanting these GPUs; from the deadline on the termination configuration holds.

    `state` is what `lose` left. Returns the state at the slot's end and what happened in it.
    """
    if slot >= terms.deadline_slots:
        spot, on_demand = 0, terms.fastest
    spot, on_demand = cut(terms, quote, spot, on_demand)
    width = spot + on_demand
    pause = pause_after(terms, state, spot, on_demand, pool)
    changed = spot != state.spot_gpus or on_demand != state.on_demand_gpus or pool != state.pool
    moving = pool != state.pool and width > 0 and state.progress_gpu_hours > 0.0

    rate = terms.rate[width]
    waited = min(pause, terms.slot_hours)
    productive = terms.slot_hours - waited
    needed = (terms.work_gpu_hours - state.progress_gpu_hours) / rate if width > 0 else np.inf
    finished = needed <= productive + WORK_TOLERANCE_HOURS and pause < terms.slot_hours
    if finished:
        productive = min(needed, productive)
    held = waited + productive if width > 0 else 0.0
    if width == 0:
        productive = 0.0

    hourly = usd_per_hour(quote, spot, on_demand)
    fee = terms.move_usd if moving else 0.0
    billed = terms.slot_hours if terms.whole_slots and width > 0 else held
    cost = hourly * billed + fee
    exhausted = state.cost_usd + cost > terms.max_cost_usd + 1e-9
    if exhausted:
        # The job checkpoints and stops at the moment its money ends.
        left = max(0.0, terms.max_cost_usd - state.cost_usd - fee)
        held = 0.0 if terms.whole_slots or hourly <= 0.0 else left / hourly
        fee = fee if held > 0.0 else 0.0
        cost = hourly * held + fee
        waited = min(waited, held)
        productive = held - waited
        finished = False

    progress = terms.work_gpu_hours if finished else state.progress_gpu_hours + rate * productive
    checkpointed, since = _checkpoint(terms, state, changed, progress, rate, productive)
    gone = finished or exhausted or width == 0
    after = JobState(
        0 if gone else spot,
        0 if gone else on_demand,
        pool if width > 0 else state.pool,
        0.0 if gone else pause - waited,
        progress,
        progress if gone else checkpointed,
        0.0 if gone else since,
        state.cost_usd + cost,
        slot * terms.slot_hours + held if finished else np.inf,
        exhausted,
    )
    return after, Happened(spot, on_demand, waited if width > 0 else 0.0, productive, held, cost)


def on_demand_usd(terms: Terms, quote: Quote, happened: Happened) -> float:
    """Return the part of a slot's cost that on-demand GPUs made; spot made the rest."""
    billed = terms.slot_hours if terms.whole_slots and happened.held_hours > 0.0 else happened.held_hours
    return quote.on_demand_usd_per_gpu_hour * happened.on_demand_gpus * billed


@compilable
def _checkpoint(
    terms: Terms, state: JobState, changed: bool, progress: float, rate: float, productive: float
) -> tuple[float, float]:
    """Return the work that is safe at the slot's end and the productive hours since it was made safe."""
    if terms.checkpoint_hours <= 0.0:
        return progress, 0.0
    # A planned change of workers is a graceful stop: the job checkpoints before it re-forms.
    safe = state.progress_gpu_hours if changed else state.checkpointed_gpu_hours
    since = (0.0 if changed else state.since_checkpoint_hours) + productive
    times = math.floor(since / terms.checkpoint_hours + 1e-9)
    if times < 1:
        return safe, since
    since = max(0.0, since - times * terms.checkpoint_hours)
    return progress - since * rate, since


@compilable
def on_demand_finish(terms: Terms, state: JobState, slot: int, width: int) -> float:
    """Return when the work is done if this slot and all later ones hold just this width on demand."""
    pause = pause_after(terms, state, 0, width, state.pool)
    rate: float = terms.rate[width]
    return slot * terms.slot_hours + pause + (terms.work_gpu_hours - state.progress_gpu_hours) / rate


@compilable
def rescue_width(terms: Terms, state: JobState, slot: int) -> int:
    """Return the on-demand width with which the work is done soonest from here, restart included."""
    best, soonest = terms.fastest, on_demand_finish(terms, state, slot, terms.fastest)
    stay = state.on_demand_gpus
    if stay > 0 and terms.fit[stay] == stay and on_demand_finish(terms, state, slot, stay) < soonest:
        best = stay
    return best


@compilable
def latest_start(terms: Terms, saved_gpu_hours: float) -> float:
    """Return the last time at which starting afresh on demand still meets the deadline."""
    rate: float = terms.rate[terms.fastest]
    left = (terms.work_gpu_hours - saved_gpu_hours) / rate
    return terms.deadline_hours - terms.restart_hours - left


@compilable
def can_still_wait(terms: Terms, state: JobState, slot: int, quote: Quote, spot: int, on_demand: int) -> bool:
    """Whether holding these GPUs for one slot leaves the deadline safe, whatever the market does next.

    Safe means: if all spot were gone at the next slot's start, on-demand GPUs alone would
    still finish in time, their restart included.
    """
    limit = terms.deadline_hours + 0.5 * TIME_TOLERANCE_HOURS
    after, _ = advance(terms, state, slot, quote, spot, on_demand, state.pool)
    if after.finish_hours < np.inf:
        return after.finish_hours <= limit
    worst = lose(terms, after, 0)
    if on_demand_finish(terms, worst, slot + 1, terms.fastest) <= limit:
        return True
    width = rescue_width(terms, worst, slot + 1)
    return on_demand_finish(terms, worst, slot + 1, width) <= limit
