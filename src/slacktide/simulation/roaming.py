"""The back-test over pools: one job that may be in any of several pools, slot by slot.

Two settings say what is seen of the other pools. *Feed*: what every pool offers is recorded and known.
*Tried*: only prices and the stock of on-demand GPUs are. A job learns of a pool's spot by holding some there,
by losing it, or by a try: a wish that a pool does not fulfil costs nothing, tells that the pool is down, and
gives way to the next wish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from slacktide.core.errors import UnknownNameError, shown
from slacktide.core.types import MAX_GPUS, Allocation, Job, JobState, Quote, Reason, Sighting, Wish
from slacktide.market.base import Market, Pool
from slacktide.market.moment import Moment, PoolView, PoolViews
from slacktide.market.pools.places import Place, job_at, places_of
from slacktide.market.tape import Past
from slacktide.physics import ledger, physics
from slacktide.physics.pace import learn, prior
from slacktide.physics.tariff import Meter, Tariff, tariff_of
from slacktide.physics.truth import AS_SAID, Truth
from slacktide.policies.base import past_deadline
from slacktide.policies.decision import decision_of
from slacktide.policies.pools.rescue import late_in, told_in
from slacktide.policies.view import Places, Policy, look
from slacktide.results.run import Run, SlotRecord, stays_of
from slacktide.simulation.plain import USUAL, Setting, check_start, summarise
from slacktide.simulation.playback import Playback
from slacktide.solvers.pools.optimum import Schedule

Sight: TypeAlias = Literal["feed", "tried"]


@dataclass(frozen=True, slots=True, eq=False)
class PoolOptions:
    """Where a job may be: the pools of a market that it may use, and what moves between them cost."""

    job: Job
    pools: tuple[Pool, ...]
    places: Places

    @classmethod
    def of(cls, job: Job, gpu: str, market: Market, names: Sequence[str] | None = None) -> PoolOptions:
        """Find the pools of a market that a job may use, or take those named; raises InputError for none."""
        found = {place.pool: place for place in places_of(job, gpu, market)}
        pools = tuple(market.pool(name) for name in (found if names is None else names))
        jobs = tuple(job_at(job, found.get(pool.name, Place(pool.name, job.widths, 1.0))) for pool in pools)
        usd, hours = market.moves.matrices(job.checkpoint_gb, [pool.name for pool in pools])
        return cls(job, pools, Places(jobs, hours, usd, tuple(pool.gpu or gpu for pool in pools)))


class TriedMoment(PoolViews):
    """A moment at which only prices of other pools are known, and what was seen of their spot by tries."""

    def __init__(self, whole: Moment, sightings: Sequence[Sequence[Sighting]], start_hours: float) -> None:
        self.hours, self.own = whole.hours, whole.own
        self._whole, self._sightings, self._start_hours = whole, sightings, start_hours

    def __len__(self) -> int:
        return len(self._whole)

    def view(self, pool: int) -> PoolView:
        """Return a pool as far as it is known."""
        view, seen = self._whole[pool], self._sightings[pool]
        gpus = seen[-1].at_least_gpus if seen and seen[-1].at_hours == self.hours else 0
        return view._replace(quote=view.quote._replace(spot_gpus=gpus))

    def past(self, pool: int) -> Past:
        """Return what a pool had quoted when the job began."""
        return self._whole.past(pool).until(self._start_hours)

    def forecast(self, pool: int) -> Sequence[Quote]:
        """Return nothing: who does not see a pool cannot say what it will offer."""
        return ()

    def sightings(self, pool: int) -> Sequence[Sighting]:
        """Return what was seen of a pool since the job began."""
        return self._sightings[pool]


class Held(NamedTuple):
    """What became of a decision's wishes: the pool and GPUs that are held."""

    pool: int
    spot_gpus: int
    on_demand_gpus: int


def run(
    ground: PoolOptions,
    policy: Policy,
    *,
    start: int = 0,
    name: str = "",
    setting: Setting = USUAL,
    sight: Sight = "feed",
) -> Run:
    """Run a job from a slot of the first pool on, until it ends, and keep every slot's record."""
    job, pools = ground.job, ground.pools
    check_start(job, pools[0], start)
    slot_hours, count = pools[0].slot_hours, len(pools)
    told, tariff = told_in(ground.places), tariff_of(job.billing, slot_hours)
    truth = setting.truth.at(start)
    true = told_in(ground.places._replace(jobs=tuple(truth.of(one) for one in ground.places.jobs)))
    market = Playback(pools[0], start, pools[1:], setting.forecaster, setting.horizon)
    sightings: list[list[Sighting]] = [[] for _ in range(count)]
    state, pace = JobState(), prior(job.work_spread)
    memory: tuple[float, ...] = ()
    records: list[SlotRecord] = []
    while not state.ended:
        slot = len(records)
        now = slot * slot_hours
        whole = market.at(slot, state.pool)
        quotes = [whole[at].quote for at in range(count)]
        left = physics.lose(true[state.pool], state, quotes[state.pool].spot_gpus)
        if state.spot_gpus:
            most = MAX_GPUS if left.spot_gpus == state.spot_gpus else left.spot_gpus
            sightings[state.pool].append(Sighting(now, left.spot_gpus, most))
        whole = whole.warned(market.notice_hours(slot, state.pool, left.spot_gpus))
        tried = TriedMoment(whole, sightings, 0.0) if sight == "tried" else None
        if past_deadline(true[0], now):
            seen = quotes if tried is None else [tried[at].quote for at in range(count)]
            wanted = _late(ground, true, left, seen, now)
        else:
            view = look(job, whole, left, slot, slot_hours, memory, pace=pace, places=ground.places)
            if tried is not None:
                view = replace(view, pools=tried, known=tried)
            wanted = decision_of(policy, view)
        held = settle(ground, true, quotes, left, wanted, sightings, now)
        record = _lived(ground, true, tariff, state, left, quotes[held.pool], wanted, held, slot)
        records.append(record)
        pace = learn(pace, told[held.pool], left, record.after, record.lived.stretch.productive_hours)
        state, memory = record.after, wanted.memory
    return roamed(ground, records, start=start, name=name)


def roamed(ground: PoolOptions, records: list[SlotRecord], *, start: int, name: str) -> Run:
    """Add up the records of a run over pools, with where it was when and what moves cost."""
    run = summarise(ground.job, ground.pools[0], records, start=start, name=name)
    lived = [record.lived for record in records]
    moves = sum(
        record.before.pool != record.after.pool and record.before.progress_gpu_hours > 0.0
        for record in records
    )
    usd = sum(one.charge.move_usd for one in lived)
    return replace(run, stays=stays_of(lived), moves=int(moves), move_usd=float(usd))


def follow(
    ground: PoolOptions, plan: Schedule, *, start: int = 0, name: str = "", truth: Truth = AS_SAID
) -> Run:
    """Live through a plan that was made with knowledge of the future, and keep every slot's record."""
    free = [
        replace(truth.of(one), checkpoint_hours=0.0, max_cost_usd=None, after_deadline="finish-fast")
        for one in ground.places.jobs
    ]
    known = replace(ground, job=free[0], places=ground.places._replace(jobs=tuple(free)))
    terms, tariff = told_in(known.places), tariff_of(ground.job.billing, ground.pools[0].slot_hours)
    market = Playback(ground.pools[0], start, ground.pools[1:], USUAL.forecaster, USUAL.horizon)
    state, records = JobState(), list[SlotRecord]()
    for slot, (pool, spot, on_demand) in enumerate(
        zip(plan.pools.tolist(), plan.spot_gpus.tolist(), plan.on_demand_gpus.tolist(), strict=True)
    ):
        whole = market.at(slot, state.pool)
        left = physics.lose(terms[state.pool], state, whole[state.pool].quote.spot_gpus)
        wanted = Allocation(spot, on_demand, ground.pools[pool].name, Reason("knows-the-future"))
        held = Held(pool, spot, on_demand)
        records.append(_lived(known, terms, tariff, state, left, whole[pool].quote, wanted, held, slot))
        state = records[-1].after
    return roamed(known, records, start=start, name=name)


def settle(
    ground: PoolOptions,
    terms: Sequence[physics.Terms],
    quotes: Sequence[Quote],
    state: JobState,
    wanted: Allocation,
    sightings: Sequence[list[Sighting]],
    now_hours: float,
) -> Held:
    """Try wishes in order until a pool has what is wanted; what a try tells is kept.

    Where none is had whole and the last one lacks on-demand GPUs only, what there is of it is held.
    """
    for number, wish in enumerate(wanted.wishes):
        pool = _pool(ground, state, wish)
        quote = quotes[pool].keeping(state.on_demand_gpus) if pool == state.pool else quotes[pool]
        if wish.spot_gpus > quote.spot_gpus:
            sightings[pool].append(Sighting(now_hours, 0, wish.spot_gpus - 1))
            continue
        stocked = physics.is_stocked(terms[pool], quote, wish.spot_gpus, wish.on_demand_gpus)
        if stocked or number == len(wanted.instead):
            if wish.spot_gpus:
                sightings[pool].append(Sighting(now_hours, wish.spot_gpus, MAX_GPUS))
            spot, on_demand = physics.cut(terms[pool], quote, wish.spot_gpus, wish.on_demand_gpus)
            return Held(pool, int(spot), int(on_demand))
    return Held(state.pool, 0, 0)


def _pool(ground: PoolOptions, state: JobState, wish: Wish) -> int:
    if wish.pool is None:
        return state.pool
    names = [pool.name for pool in ground.pools]
    if wish.pool not in names:
        raise UnknownNameError("pool", wish.pool, names, place=f"job {shown(ground.job.name)}: ")
    return names.index(wish.pool)


def _late(
    ground: PoolOptions,
    terms: Sequence[physics.Terms],
    state: JobState,
    quotes: Sequence[Quote],
    now_hours: float,
) -> Allocation:
    """Return what a job holds after its deadline."""
    names = [pool.name for pool in ground.pools]
    return late_in(terms, ground.places, names, quotes, state, now_hours)


def _lived(
    ground: PoolOptions,
    terms: Sequence[physics.Terms],
    tariff: Tariff,
    state: JobState,
    left: JobState,
    quote: Quote,
    wanted: Allocation,
    held: Held,
    slot: int,
) -> SlotRecord:
    """Live through one slot with what is held."""
    pool, spot, on_demand = held
    hours = ground.pools[0].slot_hours
    moves = pool != left.pool and spot + on_demand > 0 and left.progress_gpu_hours > 0.0
    fee = float(ground.places.move_usd[left.pool, pool]) if moves else 0.0
    after, _, charge, passed = ledger.live(
        terms[pool], tariff, ground.job.money_usd, left, Meter(), slot, slot * hours, hours, quote, pool,
        spot, on_demand, fee,
    )  # fmt: skip
    dropped = physics.given_up(terms[pool], left, spot, on_demand, pool)
    gained = after.progress_gpu_hours - (left.progress_gpu_hours - dropped)
    lived = ledger.priced(
        ground.job.name, ground.pools[pool].name, slot, slot * hours, quote, spot, on_demand, charge, passed,
        gained, estimated=True,
    )  # fmt: skip
    lost = state.progress_gpu_hours - left.progress_gpu_hours + dropped
    return SlotRecord(slot, quote, wanted, left, state.spot_gpus - left.spot_gpus, lost, lived, after)
