"""Wishes for GPUs in several pools: which of them is fulfilled, and what a job learns by trying.

How much a job knows of the other pools is one of two settings. *Feed*: what every pool offers is recorded
and known. *Tried*: only prices and the stock of on-demand GPUs are. A job then learns about a pool's spot by
holding some there, by losing it, or by a try: a wish that a pool does not fulfil costs nothing, shows that
the pool has too little spot, and gives way to the next wish.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from slacktide.core.arrays import LazySequence
from slacktide.core.quotes import Quote, Sighting
from slacktide.core.types import Allocation, JobState
from slacktide.core.units import MAX_GPUS
from slacktide.market.tape import MarketView, Past, PoolView
from slacktide.physics import progress as physics
from slacktide.policies.view import stays_in
from slacktide.simulation.pool_options import PoolOptions


class TriedMoment(LazySequence[PoolView]):
    """A moment at which only prices of other pools are known, and what was seen of their spot by tries."""

    def __init__(
        self, whole: MarketView, sightings: Sequence[Sequence[Sighting]], start_hours: float
    ) -> None:
        self.hours, self.own = whole.hours, whole.own
        self._whole, self._sightings, self._start_hours = whole, sightings, start_hours

    def __len__(self) -> int:
        return len(self._whole)

    def item(self, index: int) -> PoolView:
        """Return a pool as far as it is known."""
        view, seen = self._whole[index], self._sightings[index]
        # Spot changes from moment to moment, so a sighting counts only at the moment it was made.
        gpus = seen[-1].at_least_gpus if seen and seen[-1].at_hours == self.hours else 0
        return view._replace(quote=view.quote._replace(spot_gpus=gpus))

    def past(self, pool: int) -> Past:
        """Return what a pool had quoted when the job began."""
        return self._whole.past(pool).until(self._start_hours)

    def forecast(self, pool: int) -> Sequence[Quote]:
        """Return nothing: there is no forecast of a pool that is not observed."""
        return ()

    def sightings(self, pool: int) -> Sequence[Sighting]:
        """Return what was seen of a pool since the job began."""
        return self._sightings[pool]


class Obtained(NamedTuple):
    """The pool and GPUs that a job got of its wishes."""

    pool: int
    spot_gpus: int
    on_demand_gpus: int


def obtain(
    pools: PoolOptions,
    terms: Sequence[physics.Terms],
    moment: MarketView,
    state: JobState,
    wanted: Allocation,
    sightings: Sequence[list[Sighting]],
) -> Obtained:
    """Try wishes in order until a pool can fulfil one; what the tries show is added to the sightings.

    Where no wish can be fulfilled and the last one lacks on-demand GPUs only, the job gets those that there
    are. A job that may not move gets what there is of its one wish.
    """
    if pools.stays:
        stays_in(wanted, pools.pools[0].name, pools.job.name)
        return _cut(terms[0], _offer(moment, state, 0), 0, wanted.spot_gpus, wanted.on_demand_gpus)
    for number, wish in enumerate(wanted.wishes):
        pool = state.pool if wish.pool is None else pools.index(wish.pool)
        quote = _offer(moment, state, pool)
        if wish.spot_gpus > quote.spot_gpus:
            sightings[pool].append(Sighting(moment.hours, 0, wish.spot_gpus - 1))
            continue
        stocked = physics.is_stocked(terms[pool], quote, wish.spot_gpus, wish.on_demand_gpus)
        if stocked or number == len(wanted.instead):
            if wish.spot_gpus:
                sightings[pool].append(Sighting(moment.hours, wish.spot_gpus, MAX_GPUS))
            return _cut(terms[pool], quote, pool, wish.spot_gpus, wish.on_demand_gpus)
    return Obtained(state.pool, 0, 0)


def _offer(moment: MarketView, state: JobState, pool: int) -> Quote:
    """Return what a pool offers a job, which keeps the on-demand GPUs that it already holds there."""
    quote = moment[pool].quote
    return quote.keeping(state.on_demand_gpus) if pool == state.pool else quote


def _cut(terms: physics.Terms, quote: Quote, pool: int, spot_gpus: int, on_demand_gpus: int) -> Obtained:
    spot, on_demand = physics.cut(terms, quote, spot_gpus, on_demand_gpus)
    return Obtained(pool, int(spot), int(on_demand))
