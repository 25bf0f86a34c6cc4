"""How far a job gets with the GPUs it holds: pauses, progress, checkpoints, losses, the latest safe start.

Prices, policies and what follows from a missed deadline are elsewhere.

All code that lets time pass calls these functions: back-tests plain and compiled, the simulator of streams,
the live engine, replays. The rules are functions of plain numbers (`pause_on_change`, `ends_in_hours`,
`worked`), which the fleet kernel calls; functions of a job's `Terms` and `JobState` are built from them.
A job's life is a series of stretches, in each of which nothing changes:

1. `lose`: the market takes spot GPUs back; work since the last checkpoint goes with them.
2. A policy decides what is to be held, and `cut` makes it a width the job may have.
3. `pass_time`: workers are added or let go, the pause that this costs passes, and the rest is worked.

`tariff` says what a stretch costs; the caller ends a stretch when the money runs out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, inlined
from slacktide.core.quotes import UNLIMITED_GPUS, Quote
from slacktide.core.types import AFTER_DEADLINE, TIME_TOLERANCE_HOURS, Job, JobState

WORK_TOLERANCE_HOURS = 1e-9
"""Work that would end no more than this after a stretch ends in it: the difference is rounding."""


class Terms(NamedTuple):
    """A job as bare numbers, the form compiled code reads. Times are hours on the market's clock."""

    work_gpu_hours: float
    submitted_hours: float
    deadline_hours: float
    restart_hours: float
    shrink_hours: float
    checkpoint_hours: float
    """Productive hours between checkpoints; 0: a loss costs no work; infinite: there are none."""
    move_hours: Floats  # [pool]: added to a restart if a checkpoint has to be copied from there first
    after_deadline: int  # what becomes of work left at the deadline: an index in `types.AFTER_DEADLINE`
    fastest: int  # the width on which the work is done soonest
    phase_ends_gpu_hours: Floats  # [phase]: the progress at which it is over; the last is all the work
    rate: Floats  # rate[phase, n] = s(n), progress per hour on n GPUs
    fit: Ints  # fit[n] = the greatest allowed width within n GPUs


class Passed(NamedTuple):
    """What a stretch did; it is shorter than the hours given if the work was done before."""

    hours: float
    pause_hours: float  # hours without progress, though GPUs were held
    productive_hours: float


NO_MOVE = np.zeros(1)  # how long moves take where there is one pool


def terms(job: Job, *, submitted_hours: float = 0.0, move_hours: Floats = NO_MOVE) -> Terms:
    """Return a job as plain numbers, submitted at a time of the market's clock."""
    width = np.zeros(job.max_gpus + 1, dtype=np.int64)
    width[list(job.widths)] = job.widths
    widths = range(job.max_gpus + 1)
    rate = np.array([[phase.speedup(gpus) for gpus in widths] for phase in job.parts], dtype=np.float64)
    ends = np.cumsum([phase.work_gpu_hours for phase in job.parts], dtype=np.float64)
    ends[-1] = job.work_gpu_hours  # the running sum may differ from it in the last bits
    return Terms(
        work_gpu_hours=float(job.work_gpu_hours),
        submitted_hours=float(submitted_hours),
        deadline_hours=float(submitted_hours + job.deadline_hours),
        restart_hours=float(job.restart_hours),
        shrink_hours=float(job.restart_hours if job.shrink_hours is None else job.shrink_hours),
        checkpoint_hours=float(job.checkpoint_hours),
        move_hours=np.ascontiguousarray(move_hours, dtype=np.float64),
        after_deadline=AFTER_DEADLINE.index(job.after_deadline),
        fastest=job.fastest_width,
        phase_ends_gpu_hours=ends,
        rate=rate,
        # `width` has each allowed width at its own place: its running maximum is the greatest within n.
        fit=np.maximum.accumulate(width),
    )


@inlined
def measured_terms(terms: Terms, rate: Floats, restart_hours: float, checkpoint_hours: float) -> Terms:
    """Return a job's terms with measured rates, restart time and time between checkpoints.

    The pause after workers are lost changes by the same factor as the restart.
    """
    shrink = terms.shrink_hours
    if terms.restart_hours > 0.0:
        shrink *= restart_hours / terms.restart_hours
    elif restart_hours > 0.0:
        shrink = restart_hours
    return Terms(
        terms.work_gpu_hours,
        terms.submitted_hours,
        terms.deadline_hours,
        restart_hours,
        shrink,
        checkpoint_hours,
        terms.move_hours,
        terms.after_deadline,
        terms.fastest,
        terms.phase_ends_gpu_hours,
        rate,
        terms.fit,
    )


@inlined
def phase_of(terms: Terms, progress_gpu_hours: float) -> int:
    """Return the phase that a job with this progress is in."""
    phase = 0
    while (
        phase < len(terms.phase_ends_gpu_hours) - 1
        and progress_gpu_hours >= terms.phase_ends_gpu_hours[phase]
    ):
        phase += 1
    return phase


@inlined
def lose(terms: Terms, state: JobState, spot_left: int) -> JobState:
    """Return the state after the market left only this many spot GPUs in the job's pool."""
    if state.spot_gpus <= spot_left:
        return state
    progress, since = state.progress_gpu_hours, state.since_checkpoint_hours
    # With 0 hours between checkpoints all work is always saved, so a loss takes nothing back.
    if terms.checkpoint_hours > 0.0:
        progress, since = state.checkpointed_gpu_hours, 0.0
    # A restart under way goes on: losing workers does not shorten it.
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


@inlined
def cut(terms: Terms, quote: Quote, spot: int, on_demand: int) -> tuple[int, int]:
    """Cut a wish to what the market offers and to a width the job may have; on demand is cut first."""
    spot = min(max(spot, 0), quote.spot_gpus, len(terms.fit) - 1)
    on_demand = min(max(on_demand, 0), quote.on_demand_gpus, len(terms.fit) - 1 - spot)
    # GPUs above the greatest allowed width would be paid for and do nothing.
    surplus = spot + on_demand - terms.fit[spot + on_demand]
    from_on_demand = min(surplus, on_demand)
    return spot - (surplus - from_on_demand), on_demand - from_on_demand


@inlined
def on_demand_first(quote: Quote, width: int) -> tuple[int, int]:
    """Return a width as spot and on-demand GPUs: as many on demand as are offered, and spot for the rest."""
    on_demand = min(width, quote.on_demand_gpus)
    return min(width - on_demand, quote.spot_gpus), on_demand


def is_stocked(terms: Terms, quote: Quote, spot: int, on_demand: int) -> bool:
    """Whether the market has all on-demand GPUs that a job with this wish would hold if none were lacking."""
    if quote.on_demand_gpus >= len(terms.fit) - 1:
        return True
    _, whole = cut(terms, quote._replace(on_demand_gpus=UNLIMITED_GPUS), spot, on_demand)
    return whole <= quote.on_demand_gpus


@inlined
def pause_on_change(
    restart_hours: float,
    shrink_hours: float,
    pause_hours: float,
    spot: int,
    on_demand: int,
    new_spot: int,
    new_on_demand: int,
) -> float:
    """Return the pause that lies ahead when workers change in one pool: any added one costs a restart."""
    if new_spot + new_on_demand == 0:
        return 0.0
    # All workers form a new set, so what was left of another pause is part of this one, not added to it.
    if new_spot > spot or new_on_demand > on_demand:
        return restart_hours
    if new_spot < spot or new_on_demand < on_demand:
        return max(pause_hours, shrink_hours)
    return pause_hours


@inlined
def pause_after(terms: Terms, state: JobState, spot: int, on_demand: int, pool: int) -> float:
    """Return the hours without progress that lie ahead once the job holds these workers."""
    # No worker is kept across pools. A job that has done nothing has no checkpoint to carry along.
    if pool != state.pool and spot + on_demand > 0:
        return terms.restart_hours + (terms.move_hours[state.pool] if state.progress_gpu_hours > 0.0 else 0.0)
    return pause_on_change(
        terms.restart_hours,
        terms.shrink_hours,
        state.pause_hours,
        state.spot_gpus,
        state.on_demand_gpus,
        spot,
        on_demand,
    )


@inlined
def ends_in_hours(left_gpu_hours: float, rate: float, pause_hours: float) -> float:
    """Return in how many hours some work is done: the pause is served first."""
    return pause_hours + left_gpu_hours / rate


@inlined
def worked(
    left_gpu_hours: float, rate: float, pause_hours: float, hours: float, tolerance_hours: float
) -> tuple[float, float, float, bool]:
    """Let up to some hours pass on work that is left: a pause first, then progress until the work is done.

    Returns hours of pause, hours of progress, the work done, and whether it is all. The tolerance forgives
    what rounding took from the hours; it is 0 where they are `ends_in_hours` of this very work.
    """
    waited = min(pause_hours, hours)
    left = hours - waited
    gained = rate * left
    due = ends_in_hours(left_gpu_hours, rate, pause_hours) <= hours + tolerance_hours
    # `due` compares times and `gained` work: rounding may satisfy either one alone.
    if pause_hours < hours and (due or gained >= left_gpu_hours):
        return waited, min(left_gpu_hours / rate, left), left_gpu_hours, True
    return waited, left, gained, False


@inlined
def pass_time(
    terms: Terms, state: JobState, from_hours: float, hours: float, pool: int, spot: int, on_demand: int
) -> tuple[JobState, Passed]:
    """Let up to that many hours pass with one holding, which must be a width the job may have.

    Returns the state at the end and what the stretch did. Cutting one in two changes nothing but rounding.
    """
    width = spot + on_demand
    changed = spot != state.spot_gpus or on_demand != state.on_demand_gpus or pool != state.pool
    progress, safe, since = carried(terms, state, changed)
    if width == 0:
        return _idle(state, progress), Passed(hours, 0.0, 0.0)
    pause = pause_after(terms, state, spot, on_demand, pool)
    waited, productive, left = 0.0, 0.0, hours
    phase = phase_of(terms, progress)
    # One iteration for each phase that the stretch touches: what is left of the pause passes first, and in
    # the hours after it work is done at the phase's rate.
    while True:
        rate = terms.rate[phase, width]
        to_do = terms.phase_ends_gpu_hours[phase] - progress
        paused, took, gained, ended = worked(to_do, rate, pause - waited, left, WORK_TOLERANCE_HOURS)
        waited += paused
        productive += took
        if not ended:
            break
        # The phase ends in this stretch; the next one goes on with the hours that are left.
        left = left - paused - took
        progress = terms.phase_ends_gpu_hours[phase]
        if phase == len(terms.phase_ends_gpu_hours) - 1:
            finish = from_hours + (waited + productive)
            return _done(terms, state, pool, finish), Passed(waited + productive, waited, productive)
        safe, since = _checkpoint(terms, safe, since, progress, rate, took)
        phase += 1
    progress += gained
    safe, since = _checkpoint(terms, safe, since, progress, rate, took)
    after = JobState(
        spot, on_demand, pool, pause - waited, progress, safe, since, state.cost_usd, np.inf, state.exhausted
    )
    return after, Passed(hours, waited, productive)


@inlined
def carried(terms: Terms, state: JobState, changed: bool) -> tuple[float, float, float]:
    """Return progress, the part of it that is saved, and productive hours since, when a stretch begins.

    A planned change of workers is a graceful stop: the job checkpoints first. A job without checkpoints
    starts over from its saved work, which is nothing unless the job itself reported some.
    """
    if not changed:
        return state.progress_gpu_hours, state.checkpointed_gpu_hours, state.since_checkpoint_hours
    kept = state.progress_gpu_hours if terms.checkpoint_hours < np.inf else state.checkpointed_gpu_hours
    return kept, kept, 0.0


@inlined
def given_up(terms: Terms, state: JobState, spot: int, on_demand: int, pool: int) -> float:
    """Return the work that is lost if a job changes to these workers now."""
    changed = spot != state.spot_gpus or on_demand != state.on_demand_gpus or pool != state.pool
    kept, _, _ = carried(terms, state, changed)
    return state.progress_gpu_hours - kept


@inlined
def _idle(state: JobState, progress_gpu_hours: float) -> JobState:
    """Return the state of a job that holds nothing; it checkpointed before it let go of its workers."""
    done = progress_gpu_hours
    return JobState(0, 0, state.pool, 0.0, done, done, 0.0, state.cost_usd, np.inf, state.exhausted)


@inlined
def _done(terms: Terms, state: JobState, pool: int, finish_hours: float) -> JobState:
    """Return the state of a job whose work was done at this time."""
    work = terms.work_gpu_hours
    return JobState(0, 0, pool, 0.0, work, work, 0.0, state.cost_usd, finish_hours, state.exhausted)


@inlined
def _checkpoint(
    terms: Terms, safe: float, since: float, progress: float, rate: float, productive: float
) -> tuple[float, float]:
    """Return the work that is safe after some productive hours and those since it was made safe."""
    if terms.checkpoint_hours <= 0.0:
        return progress, 0.0
    since += productive
    # The 1e-9 counts a checkpoint that is due at this very moment, which rounding could miss.
    times = math.floor(since / terms.checkpoint_hours + 1e-9)
    if times < 1:
        return safe, since
    since = max(0.0, since - times * terms.checkpoint_hours)
    # Everything is safe but what was done at this rate since the last checkpoint.
    return progress - since * rate, since


@inlined
def work_hours(terms: Terms, progress_gpu_hours: float, width: int) -> float:
    """Return how many hours without a pause the rest of the work takes on a width."""
    hours = 0.0
    done = progress_gpu_hours
    for phase in range(phase_of(terms, done), len(terms.phase_ends_gpu_hours)):
        hours += (terms.phase_ends_gpu_hours[phase] - done) / terms.rate[phase, width]
        done = terms.phase_ends_gpu_hours[phase]
    return hours


@inlined
def next_end_hours(terms: Terms, state: JobState) -> float:
    """Return in how many hours the phase or the work ends with what is held; infinite while nothing is."""
    width = state.spot_gpus + state.on_demand_gpus
    if width == 0:
        return np.inf
    phase = phase_of(terms, state.progress_gpu_hours)
    left = terms.phase_ends_gpu_hours[phase] - state.progress_gpu_hours
    return ends_in_hours(left, terms.rate[phase, width], state.pause_hours)


@inlined
def finish_in(
    terms: Terms, state: JobState, now_hours: float, pool: int, on_demand: int, spot: int = 0
) -> float:
    """Return when the work is done if from now on these GPUs are held in this pool, which may be a new one.

    `terms` are those of this pool.
    """
    if spot + on_demand == 0:
        return np.inf
    changed = spot != state.spot_gpus or on_demand != state.on_demand_gpus or pool != state.pool
    pause = pause_after(terms, state, spot, on_demand, pool)
    done, _, _ = carried(terms, state, changed)
    return now_hours + pause + work_hours(terms, done, spot + on_demand)


@compilable
def on_demand_finish(terms: Terms, state: JobState, now_hours: float, width: int) -> float:
    """Return when the work is done if from now on only this width is held, on demand."""
    return finish_in(terms, state, now_hours, state.pool, width)


@compilable
def rescue_width(terms: Terms, state: JobState, now_hours: float) -> int:
    """Return the on-demand width with which the work is done soonest from now on, restart included."""
    best, soonest = terms.fastest, on_demand_finish(terms, state, now_hours, terms.fastest)
    # Keeping what is held on demand needs no restart, which may outweigh the faster width.
    stay = state.on_demand_gpus
    if stay > 0 and terms.fit[stay] == stay and on_demand_finish(terms, state, now_hours, stay) < soonest:
        best = stay
    return best


@inlined
def latest_start(terms: Terms, saved_gpu_hours: float, pace: float = 1.0) -> float:
    """Return the last time at which a new start on demand, at a share of the pace, meets the deadline."""
    hours = work_hours(terms, saved_gpu_hours, terms.fastest) / pace
    return terms.deadline_hours - terms.restart_hours - hours


@compilable
def can_still_wait(
    terms: Terms,
    state: JobState,
    now_hours: float,
    next_hours: float,
    hours: float,
    spot: int,
    on_demand: int,
) -> bool:
    """Whether the deadline is still safe after these GPUs are held for that many hours.

    Safe means: if all spot were gone at that moment, on-demand GPUs alone would still finish in time,
    their restart included.
    """
    # Half of what `Job.on_time` forgives: the other half is for the rounding of later stretches.
    limit = terms.deadline_hours + 0.5 * TIME_TOLERANCE_HOURS
    after, _ = pass_time(terms, state, now_hours, hours, state.pool, spot, on_demand)
    if after.finish_hours < np.inf:
        return after.finish_hours <= limit
    worst = lose(terms, after, 0)
    # The fastest width is nearly always enough; another is tried only if it is late.
    if on_demand_finish(terms, worst, next_hours, terms.fastest) <= limit:
        return True
    width = rescue_width(terms, worst, next_hours)
    return on_demand_finish(terms, worst, next_hours, width) <= limit
