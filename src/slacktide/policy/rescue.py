"""Where a job that may be in several pools is still rescued, and what that costs: the promise over pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slacktide import physics
from slacktide.deciding import Places, View
from slacktide.pace import Z, believed, is_measured, safe
from slacktide.physics import Terms
from slacktide.policy.base import late, past_deadline
from slacktide.types import TIME_TOLERANCE_HOURS, Allocation, Job, JobState, Quote, Wish


class Rescue(NamedTuple):
    """On demand in one pool until the work is done."""

    pool: int
    gpus: int
    finish_hours: float
    cost_usd: float
    """From now on, the move included."""


def terms_in(view: View) -> tuple[Terms, ...]:
    """Return the job in each of its pools as bare numbers, at the pace that is believed."""
    assert view.places is not None
    return tuple(believed(one, view.pace) for one in _told(view.places.jobs, _key(view.places)))


def safe_terms_in(view: View) -> tuple[Terms, ...]:
    """Return the same at the slowest pace that the promise reckons with."""
    terms = terms_in(view)
    if not (is_measured(view.pace) and view.pace.hours < math.inf):
        return terms
    done = view.state.progress_gpu_hours
    return tuple(safe(one, view.pace, done, view.slot_hours, Z) for one in terms)


def _key(places: Places) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in places.move_hours.T.tolist())


@lru_cache(maxsize=64)
def _told(jobs: tuple[Job, ...], hours: tuple[tuple[float, ...], ...]) -> tuple[Terms, ...]:
    return tuple(physics.terms(job, move_hours=np.array(row)) for job, row in zip(jobs, hours, strict=True))


def told_in(places: Places) -> tuple[Terms, ...]:
    """Return the job in each of its pools as its file says it is."""
    return _told(places.jobs, _key(places))


def rescue(
    terms: Sequence[Terms], places: Places, quotes: Sequence[Quote], state: JobState, now_hours: float
) -> Rescue:
    """Return the cheapest way to finish in time on demand; the soonest where none is in time."""
    found = [
        _in_pool(terms[pool], places, quotes[pool], state, now_hours, pool, gpus)
        for pool in range(len(terms))
        for gpus in {terms[pool].fastest, *_held(terms[pool], state, pool)}
        if quotes[pool].on_demand_usd_per_gpu_hour < math.inf
    ]
    in_time = [one for one in found if one.finish_hours <= _limit(terms[0])]
    if in_time:
        return min(in_time, key=lambda one: (one.cost_usd, one.finish_hours))
    return min(found, key=lambda one: (one.finish_hours, one.cost_usd))


def late_over_pools(view: View) -> Allocation | None:
    """Return what a job that may move holds once its deadline has come, None before.

    Who has to start anew goes where on demand is cheapest.
    """
    assert view.places is not None
    terms, state = told_in(view.places), view.state
    if not past_deadline(terms[0], view.now_hours):
        return None
    wanted = late(terms[state.pool], state, view.quote)
    if wanted.spot_gpus or not wanted.on_demand_gpus or state.gpus:
        return wanted
    last = rescue(terms, view.places, [pool.quote for pool in view.pools], state, view.now_hours)
    return wanted._replace(on_demand_gpus=last.gpus, pool=view.pools[last.pool].name)


def is_safe(
    terms: Sequence[Terms],
    quotes: Sequence[Quote],
    state: JobState,
    now_hours: float,
    next_hours: float,
    hours: float,
    pool: int,
    wish: Wish,
) -> bool:
    """Whether holding this until the next decision leaves the deadline safe, whatever the market does then.

    Safe means: on-demand GPUs in some pool would still finish in time from then on, restart and move
    included, if all spot were gone at that moment, and also if none were: whoever has lost all work has
    nothing to carry to another pool, and whoever has not may have.
    """
    after, _ = physics.pass_time(
        terms[pool], state, now_hours, hours, pool, wish.spot_gpus, wish.on_demand_gpus
    )
    if after.finish_hours < math.inf:
        return after.finish_hours <= _limit(terms[0])
    ends = (after, physics.lose(terms[pool], after, 0))
    return all(_is_rescued(terms, quotes, end, next_hours) for end in ends)


def _is_rescued(terms: Sequence[Terms], quotes: Sequence[Quote], state: JobState, now_hours: float) -> bool:
    """Whether on-demand GPUs in some pool would finish in time from a state on."""
    return any(
        physics.finish_in(terms[pool], state, now_hours, pool, gpus) <= _limit(terms[0])
        for pool in range(len(terms))
        if quotes[pool].on_demand_usd_per_gpu_hour < math.inf
        for gpus in {terms[pool].fastest, *_held(terms[pool], state, pool)}
    )


def _limit(terms: Terms) -> float:
    return terms.deadline_hours + 0.5 * TIME_TOLERANCE_HOURS


def _held(terms: Terms, state: JobState, pool: int) -> tuple[int, ...]:
    """Return the on-demand width that is held in a pool, if the job may go on with it there."""
    gpus = state.on_demand_gpus
    if pool != state.pool or not 0 < gpus < len(terms.fit) or terms.fit[gpus] != gpus:
        return ()
    return (gpus,)


def _in_pool(
    terms: Terms, places: Places, quote: Quote, state: JobState, now_hours: float, pool: int, gpus: int
) -> Rescue:
    finish = physics.finish_in(terms, state, now_hours, pool, gpus)
    carries = pool != state.pool and state.progress_gpu_hours > 0.0
    fee = float(places.move_usd[state.pool, pool]) if carries else 0.0
    cost = fee + quote.on_demand_usd_per_gpu_hour * gpus * (finish - now_hours)
    return Rescue(pool, int(gpus), float(finish), float(cost))


def guarded_wishes(view: View, wishes: Sequence[Wish]) -> tuple[tuple[Wish, ...], bool]:
    """Leave out wishes after which the deadline could be missed; say whether the last resort had to be added.

    What is left ends with a wish that is certain: on demand, or nothing where that is safe.
    """
    assert view.places is not None
    terms, names = safe_terms_in(view), [pool.name for pool in view.pools]
    quotes = [pool.quote for pool in view.pools]
    kept = []
    for wish in wishes:
        pool = view.pool if wish.pool is None else names.index(wish.pool)
        if is_safe(terms, quotes, view.state, view.now_hours, view.next_hours, view.hours, pool, wish):
            kept.append(wish)
            if not wish.spot_gpus:
                return tuple(kept), False
    last = rescue(terms, view.places, quotes, view.state, view.now_hours)
    return (*kept, Wish(0, last.gpus, names[last.pool])), True
