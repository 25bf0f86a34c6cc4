"""The deadline guard over pools: in which of them on demand still finishes a job in time, at what cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slacktide.core.quotes import UNLIMITED_GPUS, Quote
from slacktide.core.types import FINISH_FAST, TIME_TOLERANCE_HOURS, Allocation, Job, JobState, Wish
from slacktide.physics import progress as physics
from slacktide.physics.pace import Z, believed, is_measured, safe
from slacktide.physics.progress import Terms
from slacktide.policies.base import late, past_deadline
from slacktide.policies.view import Places, View


class Rescue(NamedTuple):
    """A way to finish the work on demand in one pool, with spot if it has too few on-demand GPUs."""

    pool: int
    gpus: int  # on demand
    finish_hours: float
    cost_usd: float  # from now on, the move included
    spot_gpus: int = 0

    def wish(self, names: Sequence[str]) -> Wish:
        """Return what to hold for it; `names` are those of all pools."""
        return Wish(self.spot_gpus, self.gpus, names[self.pool])


def terms_in(view: View) -> tuple[Terms, ...]:
    """Return the job in each of its pools as bare numbers, at its believed pace."""
    assert view.places is not None
    return tuple(believed(terms, view.pace) for terms in file_terms(view.places))


def safe_terms_in(view: View) -> tuple[Terms, ...]:
    """Return the job in each of its pools as bare numbers, at the slowest pace that the guard allows for."""
    terms = terms_in(view)
    if not (is_measured(view.pace) and view.pace.hours < math.inf):
        return terms
    done = view.state.progress_gpu_hours
    return tuple(safe(one, view.pace, done, view.slot_hours, Z) for one in terms)


@lru_cache(maxsize=64)
def _terms_by_job(jobs: tuple[Job, ...], hours: tuple[tuple[float, ...], ...]) -> tuple[Terms, ...]:
    return tuple(physics.terms(job, move_hours=np.array(row)) for job, row in zip(jobs, hours, strict=True))


def file_terms(places: Places) -> tuple[Terms, ...]:
    """Return the job in each of its pools as bare numbers, at the pace in its file."""
    return _terms_by_job(places.jobs, tuple(tuple(hours) for hours in places.move_hours.T.tolist()))


def rescue(
    terms: Sequence[Terms], places: Places, quotes: Sequence[Quote], state: JobState, now_hours: float
) -> Rescue:
    """Return the cheapest way to finish in time with the on-demand GPUs that are there now.

    If none is in time, the soonest, for which spot may replace missing on-demand GPUs; a rescue on no GPUs
    if there are none at all.
    """
    found = [
        _in_pool(terms[pool], places, quotes[pool], state, now_hours, pool, spot, gpus)
        for pool in range(len(terms))
        if quotes[pool].on_demand_usd_per_gpu_hour < math.inf
        for spot, gpus in _ways(terms[pool], _kept(quotes, state, pool), state, pool)
    ]
    in_time = [one for one in found if one.finish_hours <= _limit(terms[0]) and not one.spot_gpus]
    if in_time:
        return min(in_time, key=lambda one: (one.cost_usd, one.finish_hours))
    nothing = Rescue(state.pool, 0, math.inf, 0.0)
    return min(found, key=lambda one: (one.finish_hours, one.cost_usd), default=nothing)


def home(
    terms: Sequence[Terms], places: Places, quotes: Sequence[Quote], state: JobState, now_hours: float
) -> Rescue:
    """Return the rescue that a policy plans to fall back on, on the on-demand GPUs that are there now.

    If no pool has enough for the fastest width, all are assumed to have them again when they are needed.
    """
    if all(map(_is_short, terms, quotes)):
        seen = [quote._replace(on_demand_gpus=UNLIMITED_GPUS) for quote in quotes]
    else:
        seen = [quote._replace(spot_gpus=0) for quote in quotes]
    return rescue(terms, places, seen, state, now_hours)


def _kept(quotes: Sequence[Quote], state: JobState, pool: int) -> Quote:
    """Return what a pool offers to a job that keeps the on-demand GPUs that it holds."""
    return quotes[pool].keeping(state.on_demand_gpus) if pool == state.pool else quotes[pool]


def _ways(terms: Terms, quote: Quote, state: JobState, pool: int) -> set[tuple[int, int]]:
    """Return the spot and on-demand GPUs with which a job may be rescued in a pool.

    The fastest width on demand, or the on-demand GPUs it holds; if the fastest width is out of stock, the
    widest on demand there is, alone and with spot.
    """
    fastest = int(terms.fastest)
    held = {(0, gpus) for gpus in _held(terms, state, pool)}
    if quote.on_demand_gpus >= fastest:
        return {(0, fastest), *held}
    some = {physics.cut(terms, quote, *physics.on_demand_first(quote, fastest))}
    some |= {physics.cut(terms, quote, 0, fastest)}
    return held | {(int(spot), int(gpus)) for spot, gpus in some if spot + gpus > 0}


def late_over_pools(view: View) -> Allocation | None:
    """Return what a job that may move holds once its deadline has come, None before."""
    assert view.places is not None
    terms = file_terms(view.places)
    if not past_deadline(terms[0], view.now_hours):
        return None
    names, quotes = [pool.name for pool in view.pools], [pool.quote for pool in view.pools]
    return late_in(terms, view.places, names, quotes, view.state, view.now_hours)


def late_in(
    terms: Sequence[Terms],
    places: Places,
    names: Sequence[str],
    quotes: Sequence[Quote],
    state: JobState,
    now_hours: float,
) -> Allocation:
    """Return what a job that may move holds after its deadline.

    A job that would have to start on demand goes where it is done soonest (see `rescue`); so does one that
    is to finish fast if its pool has too few GPUs.
    """
    here = terms[state.pool]
    wanted = late(here, state, _kept(quotes, state, state.pool))
    if here.after_deadline == FINISH_FAST:
        stays = state.gpus > 0 and wanted.gpus >= here.fastest
    else:
        stays = state.gpus > 0 or wanted.spot_gpus > 0 or not wanted.on_demand_gpus
    if stays:
        return wanted
    last = rescue(terms, places, quotes, state, now_hours).wish(names)
    return wanted._replace(spot_gpus=last.spot_gpus, on_demand_gpus=last.on_demand_gpus, pool=last.pool)


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

    Safe means: from then on, on-demand GPUs in some pool would still finish in time, restart and move
    included, both if all spot were gone at that moment and if none were: only a job with work done has a
    checkpoint to copy to another pool. Pools that have the GPUs now are assumed to have them then; if none
    has, all are, since nothing better is known.
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
    open_pools = [pool for pool in range(len(terms)) if quotes[pool].on_demand_usd_per_gpu_hour < math.inf]
    stocked = [pool for pool in open_pools if quotes[pool].on_demand_gpus >= terms[pool].fastest]
    ways = [(pool, int(terms[pool].fastest)) for pool in stocked or open_pools]
    ways += [(pool, gpus) for pool in open_pools for gpus in _held(terms[pool], state, pool)]
    return any(
        physics.finish_in(terms[pool], state, now_hours, pool, gpus) <= _limit(terms[0])
        for pool, gpus in ways
    )


def _limit(terms: Terms) -> float:
    return terms.deadline_hours + 0.5 * TIME_TOLERANCE_HOURS


def _held(terms: Terms, state: JobState, pool: int) -> tuple[int, ...]:
    """Return the on-demand GPUs that are held in a pool, if they are an allowed width; else nothing."""
    gpus = state.on_demand_gpus
    if pool != state.pool or not 0 < gpus < len(terms.fit) or terms.fit[gpus] != gpus:
        return ()
    return (gpus,)


def _in_pool(
    terms: Terms,
    places: Places,
    quote: Quote,
    state: JobState,
    now_hours: float,
    pool: int,
    spot: int,
    gpus: int,
) -> Rescue:
    finish = physics.finish_in(terms, state, now_hours, pool, gpus, spot)
    carries = pool != state.pool and state.progress_gpu_hours > 0.0
    fee = float(places.move_usd[state.pool, pool]) if carries else 0.0
    usd = quote.on_demand_usd_per_gpu_hour * gpus
    usd += quote.spot_usd_per_gpu_hour * spot if spot else 0.0
    return Rescue(pool, int(gpus), float(finish), float(fee + usd * (finish - now_hours)), spot)


def guarded_wishes(view: View, wishes: Sequence[Wish]) -> tuple[tuple[Wish, ...], bool]:
    """Return the wishes after which the deadline is safe, and whether a rescue had to be added to them.

    The last one is certain to be had: on demand, or no GPUs where that is safe. If even the rescue is late
    and on-demand GPUs are out of stock, wishes for more GPUs than the rescue has stay as well.
    """
    assert view.places is not None
    terms, names = safe_terms_in(view), [pool.name for pool in view.pools]
    quotes = [pool.quote for pool in view.pools]
    kept = []
    for wish in wishes:
        pool = view.pool if wish.pool is None else names.index(wish.pool)
        if is_safe(terms, quotes, view.state, view.now_hours, view.next_hours, view.hours, pool, wish):
            kept.append(wish)
            offered = _kept(quotes, view.state, pool).on_demand_gpus
            if not wish.spot_gpus and wish.on_demand_gpus <= offered:
                return tuple(kept), False
    last = rescue(terms, view.places, quotes, view.state, view.now_hours)
    if last.finish_hours > _limit(terms[0]) and any(map(_is_short, terms, quotes)):
        kept = [wish for wish in wishes if wish in kept or wish.gpus > last.spot_gpus + last.gpus]
    return (*kept, last.wish(names)), True


def _is_short(terms: Terms, quote: Quote) -> bool:
    """Whether a pool has too few on-demand GPUs for the job's fastest width."""
    return quote.on_demand_gpus < terms.fastest
