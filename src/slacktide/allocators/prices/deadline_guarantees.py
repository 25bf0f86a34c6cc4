"""The deadline guard of a fleet's jobs: whether each can still be rescued, and what that may cost; compiled.

A job with a hard deadline may hold something until the market's next border only if on-demand GPUs alone
could still rescue it then, even if all its spot were gone: so contention for spot cannot break the promise.
What a rescue may cost at the most is kept in reserve. All of this goes by the job's safe pace.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.allocators.site.job_tables import JobTables, Kinds, SiteMoment, safe_terms_of, state_of
from slacktide.core.compiled import compilable, inlined
from slacktide.core.types import TIME_TOLERANCE_HOURS, JobState
from slacktide.physics.progress import finish_in, lose, pass_time

LATE_HOURS = 0.5 * TIME_TOLERANCE_HOURS
"""A finish this long after a deadline is in time: it is the same moment."""


class FleetRescue(NamedTuple):
    """On demand from now on: the pool, the width, and the most that any way to be in time may cost."""

    pool: int
    gpus: int
    most_usd: float


@inlined
def is_hard(jobs: JobTables, job: int) -> bool:
    """Whether a job must be done by its deadline."""
    deadline = jobs.deadline_hours[job]
    return bool(deadline < np.inf and jobs.worthless_hours[job] <= deadline)


@compilable
def held_on(kinds: Kinds, jobs: JobTables, job: int, state: JobState, now_hours: float) -> float:
    """Return when a job that holds only on-demand GPUs is done if it keeps them; infinite otherwise."""
    if state.on_demand_gpus == 0 or state.spot_gpus > 0:
        return np.inf
    terms = safe_terms_of(kinds, jobs, job, state.pool)
    return finish_in(terms, state, now_hours, state.pool, state.on_demand_gpus, 0)


@inlined
def move_usd(kinds: Kinds, kind: int, state: JobState, pool: int) -> float:
    """Return what it costs to copy a job's checkpoint to a pool."""
    return kinds.move_usd[kind, state.pool, pool] if state.progress_gpu_hours > 0.0 else 0.0


@compilable
def rescue(moment: SiteMoment, job: int, state: JobState, now_hours: float) -> FleetRescue:
    """Return the cheapest way to be in time on demand from a state on, else that of the soonest end.

    A job that is on time with the on-demand GPUs that it holds keeps them: so what its rescue costs is known
    once it has begun. Narrow widths are cheaper, but while a job waits they are the first to be too slow: so
    `most_usd` is the cost of the most expensive way in time. If none is in time any more at the safe pace, it
    is the cost of the soonest end, which is what the job then gets.
    """
    kinds, jobs, on_demand_usd = moment.kinds, moment.jobs, moment.prices.on_demand_usd
    # Only a rescue that is under way may use the tolerance, or rounding would end it; a new one may not.
    deadline = jobs.deadline_hours[job]
    limit = deadline + LATE_HOURS
    finish = held_on(kinds, jobs, job, state, now_hours)
    if finish <= limit:
        usd = on_demand_usd[state.pool] * state.on_demand_gpus * (finish - now_hours)
        return FleetRescue(state.pool, state.on_demand_gpus, usd)
    kind, pool, gpus = jobs.kind[job], state.pool, 0
    least, soonest, most = np.inf, np.inf, 0.0
    latest, hastily = np.inf, 0.0
    for at in range(len(on_demand_usd)):
        if kinds.fastest[kind, at] == 0:
            continue
        terms = safe_terms_of(kinds, jobs, job, at)
        for width in range(1, len(terms.fit)):
            if terms.fit[width] != width:
                continue
            finish = finish_in(terms, state, now_hours, at, width, 0)
            usd = on_demand_usd[at] * width * (finish - now_hours) + move_usd(kinds, kind, state, at)
            if finish <= deadline and usd < least:
                least, pool, gpus = usd, at, width
            elif least == np.inf and finish < soonest:
                soonest, pool, gpus = finish, at, width
            if finish <= limit:
                most = max(most, usd)
            elif finish < latest:
                latest, hastily = finish, usd
    return FleetRescue(pool, gpus, most if most > 0.0 or now_hours >= limit else hastily)


@compilable
def can_be_rescued(kinds: Kinds, jobs: JobTables, job: int, state: JobState, now_hours: float) -> bool:
    """Whether on-demand GPUs alone still finish a job in time from a moment on."""
    limit = jobs.deadline_hours[job] + LATE_HOURS
    if held_on(kinds, jobs, job, state, now_hours) <= limit:
        return True
    for at in range(kinds.fastest.shape[1]):
        width = kinds.fastest[jobs.kind[job], at]
        if width > 0:
            terms = safe_terms_of(kinds, jobs, job, at)
            if finish_in(terms, state, now_hours, at, width, 0) <= limit:
                return True
    return False


@compilable
def at_the_border(
    moment: SiteMoment, job: int, pool: int, spot: int, on_demand: int
) -> tuple[JobState, float, JobState]:
    """Return a job's state at the next border if all its spot is lost, hours held, and its state if not."""
    terms, state = safe_terms_of(moment.kinds, moment.jobs, job, pool), state_of(moment.jobs, job)
    after, passed = pass_time(terms, state, moment.now_hours, moment.hours, pool, spot, on_demand)
    return lose(terms, after, 0), passed.hours if spot + on_demand > 0 else 0.0, after


@compilable
def is_far(moment: SiteMoment, job: int) -> bool:
    """Whether a deadline is so far away that whatever is held until the next border is safe.

    This assumes that all work since the last checkpoint is lost, and that the rescue needs the longest move.
    False until the pace was measured: before that the job may not wait.
    """
    kinds, jobs = moment.kinds, moment.jobs
    if jobs.measure_gpus[job].max() > 0:
        return False
    kind, here = jobs.kind[job], jobs.pool[job]
    nothing = JobState(
        0, 0, here, 0.0, jobs.checkpointed_gpu_hours[job], jobs.checkpointed_gpu_hours[job], 0.0, 0.0,
        np.inf, False,
    )  # fmt: skip
    travels = kinds.move_hours[kind].max()
    return can_be_rescued(kinds, jobs, job, nothing, moment.now_hours + moment.hours + travels)


@compilable
def is_safe(moment: SiteMoment, job: int, pool: int, spot: int, on_demand: int) -> bool:
    """Whether a job that holds this until the next border is in time whatever the market does then.

    Also if it takes nothing: only a job with work done has a checkpoint to copy to another pool. Until the
    pace was measured, only holdings that are wide enough to measure it are safe.
    """
    kinds, jobs = moment.kinds, moment.jobs
    if spot + on_demand < jobs.measure_gpus[job, pool]:
        return False
    terms, border = safe_terms_of(kinds, jobs, job, pool), moment.now_hours + moment.hours
    state = state_of(jobs, job)
    after, _ = pass_time(terms, state, moment.now_hours, moment.hours, pool, spot, on_demand)
    if after.finish_hours < np.inf:
        return bool(after.finish_hours <= jobs.deadline_hours[job] + LATE_HOURS)
    if not can_be_rescued(kinds, jobs, job, lose(terms, after, 0), border):
        return False
    moves = spot > 0 and kinds.fastest.shape[1] > 1
    return not moves or can_be_rescued(kinds, jobs, job, after, border)
