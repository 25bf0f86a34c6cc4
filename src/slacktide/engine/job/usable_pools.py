"""Where a job that may move can be: its pools on one clock, and what it was shown of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from slacktide.core.errors import InputError, UnknownNameError
from slacktide.core.quotes import Quote, Sighting
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job
from slacktide.market.base import Market, Pool
from slacktide.market.market_view import NOT_BEGUN
from slacktide.market.pools.places import job_at, places_of
from slacktide.market.tape import SAME_TIME_SHARE, first_hours


def usable(job: Job, gpu: str, market: Market) -> tuple[str, ...]:
    """Return the pools that a job may use.

    None where it names none and the market has several types, but not its own: then it stays in one pool.
    Raises InputError where it names some that are not there.
    """
    try:
        return tuple(place.pool for place in places_of(job, gpu, market))
    except InputError:
        if job.pools:
            raise
        return ()


def job_in(job: Job, gpu: str, market: Market, name: str) -> Job:
    """Return a job as it is in a pool that it stays in; raises InputError where it may not use the pool."""
    places = {place.pool: place for place in places_of(job, gpu, market)}
    if name not in places:
        raise UnknownNameError("pool", name, places, place="the job may not use this pool: ")
    return job_at(job, places[name])


def own_slot(pool: Pool, home: Pool, slot: int) -> int:
    """Return the slot of a pool that runs when a slot of another one begins; negative before its first."""
    hours = slot * home.slot_hours
    return math.floor((hours - first_hours(pool, home, 0)) / pool.slot_hours + SAME_TIME_SHARE)


def quote_in(pool: Pool, home: Pool, slot: int) -> Quote:
    """Return what a recorded pool offers when a slot of another one begins."""
    if pool is home:
        return pool.quote(slot)
    own = own_slot(pool, home, slot)
    return pool.quote(own) if own >= 0 else NOT_BEGUN


def sightings_since(
    seen: Mapping[str, tuple[Sighting, ...]], names: Sequence[str], origin_hours: float, slot_hours: float
) -> list[list[Sighting]]:
    """Return what was seen of each pool, its hours counted from when a job's first slot began."""
    return [
        [
            one._replace(at_hours=hours_since(one.at_hours, origin_hours, slot_hours))
            for one in seen.get(name, ())
        ]
        for name in names
    ]


def hours_since(at_hours: float, origin_hours: float, slot_hours: float) -> float:
    """Return a moment as hours since another; one at which a slot begins is exactly that of the slot."""
    hours = at_hours - origin_hours
    border = round(hours / slot_hours) * slot_hours
    return border if abs(hours - border) < TIME_TOLERANCE_HOURS else hours
