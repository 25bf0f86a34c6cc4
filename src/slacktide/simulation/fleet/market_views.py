"""What an allocator is shown of a simulated fleet, and how its answer is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from slacktide.allocators.each import claimed
from slacktide.allocators.site.job_tables import JobTables, Kinds, PoolOffers, state_of, work_of
from slacktide.allocators.site.spot import Claim, Spot
from slacktide.allocators.view import Decision, FleetView, JobColumns, SiteView, Wanted
from slacktide.core.arrays import Ints
from slacktide.core.errors import InputError, UnknownNameError
from slacktide.core.quotes import Quote, Sighting
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, JobState
from slacktide.market.forecast.base import OnTape
from slacktide.market.forecast.persistence import DEFAULT_FORECASTER, DEFAULT_HORIZON
from slacktide.market.tape import MarketView, Past, Tape, first_hours
from slacktide.physics.pace import KNOWN
from slacktide.policies.view import View as JobView
from slacktide.policies.view import look
from slacktide.results.stream import PREFIX
from slacktide.simulation.fleet.market_kernel import Orders
from slacktide.simulation.fleet.scene import FleetScene
from slacktide.simulation.playback import play


class Pasts:
    """What every pool has quoted up to the present slot, on the clock of the run."""

    def __init__(self, scene: FleetScene) -> None:
        home = scene.pools[0]
        tapes = [Tape.of(pool, first_hours(pool, home, scene.start)) for pool in scene.pools]
        self.tapes = [OnTape(DEFAULT_FORECASTER, tape, DEFAULT_HORIZON) for tape in tapes]
        for pool, tape in zip(scene.pools, tapes, strict=True):
            play(pool, tape, min(max(0, tape.slots_begun(0.0) - 1), len(pool)))

    def append(self, offer: PoolOffers) -> None:
        rows = zip(*(column.tolist() for column in offer), strict=True)
        for forecast, row in zip(self.tapes, rows, strict=True):
            forecast.tape.append(Quote(*row))

    def past(self, pool: int) -> Past:
        return self.tapes[pool].tape.past()

    def forecast(self, pool: int) -> Sequence[Quote]:
        """Return nothing: allocators forecast for themselves."""
        return ()

    def sightings(self, pool: int) -> Sequence[Sighting]:
        """Return nothing: all that pools quote is recorded."""
        return ()


def columns_of(kinds: Kinds, jobs: JobTables, ids: Ints, number: Ints) -> JobColumns:
    ended = jobs.progress_gpu_hours[:, None] >= jobs.ends_gpu_hours
    return JobColumns(
        ids=ids,
        kind=jobs.kind,
        number=number,
        phase=np.minimum(ended.sum(axis=1), kinds.phases[jobs.kind] - 1),
        submitted_hours=jobs.submitted_hours,
        spot_gpus=jobs.spot_gpus,
        on_demand_gpus=jobs.on_demand_gpus,
        pause_hours=jobs.pause_hours,
        progress_gpu_hours=jobs.progress_gpu_hours,
        work_gpu_hours=work_of(kinds, jobs),
    )


class MarketRows:
    """Rows of a view, one per job, made from its columns when they are read."""

    def __init__(self, scene: FleetScene, site: SiteView, ids: Ints, now_hours: float, pasts: Pasts) -> None:
        self._scene, self._site, self._ids, self._now_hours = scene, site, ids, now_hours
        self._pasts = pasts

    def name(self, place: int) -> str:
        number = int(self._ids[place])
        return self._scene.members[number].name or f"{PREFIX}{number}"

    def claims(self) -> Iterator[Claim]:
        jobs, pools = self._site.jobs, self._site.pools
        columns = (jobs.pool, jobs.spot_gpus, jobs.added_hours, jobs.on_demand_gpus)
        for place, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            pool, spot, added, on_demand = row
            yield Claim(self.name(place), pools[pool].name, spot, added, on_demand)

    def view(self, place: int, spot: Spot) -> JobView:
        """Return a job's view; it is not offered what other jobs hold according to `spot`."""
        scene, jobs, site = self._scene, self._site.jobs, self._site
        _, where = scene.where[int(jobs.kind[place])]
        submitted, slot_hours = float(jobs.submitted_hours[place]), site.slot_hours
        first = math.floor(submitted / slot_hours + 1e-9)
        own = site.slot - first
        name, own_pool = self.name(place), where.index(int(jobs.pool[place]))
        moment = MarketView(
            [self._pasts.tapes[pool] for pool in where], own * slot_hours, own_pool, spot.by_others(name),
            first * slot_hours, spot.on_demand_by_others(name),
        )  # fmt: skip
        held = JobState(*(np.asarray(each).item() for each in state_of(jobs, place)[:8]))
        number, state = int(self._ids[place]), held._replace(pool=own_pool)
        alone = len(where) == 1
        job = scene.places(number).jobs[0] if alone else scene.members[number].job
        places = None if alone else scene.places(number)
        view = look(job, moment, state, own, slot_hours, (), name, KNOWN, places)
        return self._shortened(view, submitted - first * slot_hours)

    def _shortened(self, view: JobView, early_hours: float) -> JobView:
        """Return the view of a whole slot as of now, with its hours counted from the job's submission."""
        waited = self._now_hours - self._site.slot * self._site.slot_hours
        if max(waited, early_hours) < TIME_TOLERANCE_HOURS:
            return view
        now = view.now_hours + (waited if waited >= TIME_TOLERANCE_HOURS else 0.0) - early_hours
        return replace(view, now_hours=now, next_hours=view.next_hours - early_hours)


class LazySpot(Spot):
    """Which job holds which spot, worked out when it is first read."""

    def __init__(self, claims: Callable[[], Iterable[Claim]]) -> None:
        self._claims_of = claims

    def __getattr__(self, name: str) -> object:
        if name in ("_claims", "_held", "_on_demand", "_scarce"):
            super().__init__(self._claims_of())
        return object.__getattribute__(self, name)


def orders_of(decision: Decision, view: FleetView) -> Orders:
    """Return what each job is to hold; a job that is not named keeps what it holds."""
    assert view.site is not None
    jobs = view.site.jobs
    if not isinstance(decision, Wanted):
        return _named(decision, view)
    count = len(jobs.kind)
    spot = np.zeros(count, dtype=np.int64) if decision.spot_gpus is None else decision.spot_gpus
    pool = jobs.pool if decision.pool is None else decision.pool
    found = Orders(
        *(np.ascontiguousarray(each, dtype=np.int64) for each in (pool, spot, decision.on_demand_gpus))
    )
    for column in found:
        if len(column) != count:
            raise InputError(
                f"an allocator must decide about each of {count} jobs, got {len(column)} entries"
            )
    _check(found, len(view.site.pools))
    return found


def _check(orders: Orders, pools: int) -> None:
    """Raise InputError for an impossible pool or count: compiled code trusts them."""
    if ((orders.pool < 0) | (orders.pool >= pools)).any():
        raise InputError(f"a wish must be for one of {pools} pools, got {orders.pool.tolist()}")
    if ((orders.spot_gpus < 0) | (orders.on_demand_gpus < 0)).any():
        raise InputError(
            f"counts of GPUs must be >= 0, got {orders.spot_gpus.tolist()} spot and "
            f"{orders.on_demand_gpus.tolist()} on demand"
        )


def _named(decision: Mapping[str, Allocation], view: FleetView) -> Orders:
    """Return the orders of a decision that is a mapping from the names of jobs.

    Of several wishes of a job the first counts that is still free, given what others hold and what jobs
    before it in the mapping got.
    """
    assert view.site is not None
    jobs, pools = view.site.jobs, [pool.name for pool in view.site.pools]
    orders = Orders(jobs.pool.copy(), jobs.spot_gpus.copy(), jobs.on_demand_gpus.copy())
    places = {view.shown.name(place): place for place in range(len(jobs.kind))}
    left = view.spot.copy()
    for name, wish in decision.items():
        if name not in places:
            raise UnknownNameError("a job", name, places)
        if wish.pool is not None and wish.pool not in pools:
            raise UnknownNameError("pool", wish.pool, pools)
        place = places[name]
        at = pools[jobs.pool[place]] if wish.pool is None else wish.pool
        claim = Claim(name, at, wish.spot_gpus, view.now_hours, wish.on_demand_gpus)
        if wish.instead:
            claim = claimed(view.row(place, left), wish)
        left.hold(claim)
        orders.pool[place] = pools.index(claim.pool)
        orders.spot_gpus[place], orders.on_demand_gpus[place] = claim.spot_gpus, claim.on_demand_gpus
    _check(orders, len(pools))
    return orders
