"""Asking the allocator of a fleet on a market, and giving its jobs what it wants of what is there.

First all jobs give up what they no longer want; then, in the order in which they came, they are given what is
added. So what one gives up another can have in the same decision, and nothing is sold twice. Where workers
are real, what they still hold is free only when they have gone: then the allocator is asked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slacktide.allocators.site.spot import Claim
from slacktide.allocators.view import Decision, FleetView, Wanted
from slacktide.core.errors import InputError
from slacktide.core.types import Allocation, Reason
from slacktide.engine.fleet.ask import remembered
from slacktide.engine.fleet.fleets import FleetRun
from slacktide.engine.fleet.kinds import is_hard, kept_in, leaving, ordered
from slacktide.engine.fleet.site import site_view
from slacktide.engine.fulfil import fulfil, fulfilment
from slacktide.engine.job.blocked_jobs import said
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.pending_decisions import PendingDecision
from slacktide.journal.events import Event
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.journal.state.journal_state import JobRecord
from slacktide.policies.view import goes_where_it_may

if TYPE_CHECKING:
    from slacktide.engine.engine import Engine


def ask_on_market(
    engine: Engine,
    track: FleetRecord,
    run: FleetRun,
    asks: list[PendingDecision],
    now_hours: float,
    *,
    cut: bool = False,
) -> None:
    """Ask about all jobs of a fleet on a market, and do what is decided; all of it is written as one batch.

    With `cut`, stretches end here also of jobs that go on as they are.
    """
    asks.sort(key=lambda ask: ask.track.number)
    with _gone_since(engine, track, now_hours):
        wishes = _carefully(engine, track, run, asks, now_hours)
        for ask, wish in zip(asks, wishes, strict=True):
            _give_up(engine, ask, wish)
        given = _all_given(engine, asks, wishes)
        told = [(ask, one.events) for ask, one in zip(asks, given, strict=True) if cut or one.events]
        events: list[Event] = list(remembered(track, run, now_hours))
        for ask, own in told:
            events += [*ask.before, *own]
        engine.act(events, [(ask.track, ask.taken) for ask, own in told if own])
    short = any(one.lacks for one in given) and any(one.gives_back for one in given)
    run.asked_hours, run.asked_orders = now_hours, orders_of(engine, track)
    run.asked_about = None if short else track.settled_at(now_hours)


def orders_of(engine: Engine, track: FleetRecord) -> dict[str, tuple[int, int]]:
    """Return what each job of a fleet is to hold: where that changed, something happened to a job."""
    jobs = (engine.world.jobs[name] for name in track.present)
    return {
        job.job: (job.order.spot_gpus, job.order.on_demand_gpus)
        for job in jobs
        if job.order is not None and job.ending is None
    }


@contextmanager
def _gone_since(engine: Engine, track: FleetRecord, now_hours: float) -> Iterator[None]:
    """Hold back what went between the border of a slot and the look at it: it was not free at the border."""
    claims = [
        Claim(f"{track.key} gone {number}", span.pool, span.spot_gpus, 0.0, span.gpus)
        for number, span in enumerate(track.spans_after(now_hours))
    ]
    for claim in claims:
        engine.spot.hold(claim)
    yield
    for claim in claims:
        engine.spot.hold(claim._replace(spot_gpus=0, on_demand_gpus=0))


# -------------------------------------------------------------------- what is wanted


def _carefully(
    engine: Engine, track: FleetRecord, run: FleetRun, asks: Sequence[PendingDecision], now_hours: float
) -> list[Allocation]:
    """Return what each job is to have; where the allocator fails, its jobs keep what they hold."""
    try:
        view = site_view(engine, track, run, asks, engine.spot, now_hours)
        wishes, why = _wishes(engine, run.allocator.decide(view), view, run, asks), ""
        for ask, wish in zip(asks, wishes, strict=True):
            goes_where_it_may(wish, engine.lane(ask.track).pool_names, ask.track.job)
    except Exception as error:
        wishes = [_as_it_is(ask, engine.lane(ask.track)) for ask in asks]
        why = f"its fleet's allocator failed: {said(error)}"
    for ask in asks:
        engine.troubles.note(ask.track.job, "policy", why)
    return wishes


def _as_it_is(ask: PendingDecision, lane: JobContext) -> Allocation:
    state = ordered(ask, lane)
    pool = lane.at(state.pool).market_pool.name if state.gpus else None
    return Allocation(state.spot_gpus, state.on_demand_gpus, pool, Reason("as-it-is"))


def _wishes(
    engine: Engine, decision: Decision, view: FleetView, run: FleetRun, asks: Sequence[PendingDecision]
) -> list[Allocation]:
    """Return what is wanted for each job; one that is not named keeps what it holds."""
    if not isinstance(decision, Wanted):
        return [decision.get(ask.track.job, _as_it_is(ask, engine.lane(ask.track))) for ask in asks]
    return _columns_read(decision, view, run)


def _columns_read(decision: Wanted, view: FleetView, run: FleetRun) -> list[Allocation]:
    assert view.site is not None
    jobs = view.site.jobs
    count = len(jobs.kind)
    spot = np.zeros(count, dtype=np.int64) if decision.spot_gpus is None else decision.spot_gpus
    pools = jobs.pool if decision.pool is None else decision.pool
    for column in (spot, decision.on_demand_gpus, pools):
        if len(column) != count:
            raise InputError(
                f"an allocator must decide about each of {count} jobs, got {len(column)} entries"
            )
    signals = {"jobs": float(count), "gpus_of_all": float(decision.on_demand_gpus.sum() + spot.sum())}
    usual = Reason(decision.rule or run.name, signals)
    names = [pool.name for pool in view.site.pools]
    rows = zip(spot.tolist(), decision.on_demand_gpus.tolist(), pools.tolist(), strict=True)
    return [
        Allocation(
            gpus,
            on_demand,
            names[pool] if gpus + on_demand else None,
            usual if decision.why is None else decision.why(place),
        )
        for place, (gpus, on_demand, pool) in enumerate(rows)
    ]


# -------------------------------------------------------------------- what is given


def _give_up(engine: Engine, ask: PendingDecision, wish: Allocation) -> None:
    """Let a job hold no more than it wants of what it has: the rest is there for others."""
    track, lane = ask.track, engine.lane(ask.track)
    pool = wish.pool or lane.at(ask.state.pool).market_pool.name
    spot, on_demand = kept_in(ask, lane, pool)
    _claim(engine, track, pool, min(spot, wish.spot_gpus), min(on_demand, wish.on_demand_gpus))
    if pool != track.held_pool:
        spot, on_demand = leaving(track, track.held_pool)
        left = Claim(f"{track.job} left", track.held_pool, spot, track.spot_added_hours, on_demand)
        engine.spot.hold(left)


def _claim(engine: Engine, track: JobRecord, pool: str, spot: int, on_demand: int) -> None:
    """Let a job hold this in a pool, and what its workers there have not given back yet."""
    held = leaving(track, pool)
    engine.spot.hold(
        Claim(track.job, pool, max(spot, held[0]), track.spot_added_hours, max(on_demand, held[1]))
    )


class _Given(NamedTuple):
    """What became of a wish."""

    events: list[Event]
    lacks: bool
    """Whether it is less than was wanted."""
    gives_back: bool
    """Whether workers of the job hold more than they are to, until they have gone."""


def _all_given(engine: Engine, asks: Sequence[PendingDecision], wishes: Sequence[Allocation]) -> list[_Given]:
    """Give jobs what there is of what they want, those with a hard deadline before others."""
    order = sorted(range(len(asks)), key=lambda place: not is_hard(engine.lane(asks[place].track).job))
    found = {place: _given(engine, asks[place], wishes[place]) for place in order}
    return [found[place] for place in range(len(asks))]


def _given(engine: Engine, ask: PendingDecision, wish: Allocation) -> _Given:
    """Give a job what there is of what it wants; nothing is said where it goes on as it is."""
    found, track = fulfilment(engine, ask, wish), ask.track
    pool, now = found.lane.market_pool.name, (found.spot_gpus, found.on_demand_gpus)
    same = kept_in(ask, engine.lane(track), pool) == now
    told = [] if ask.inside and ask.taken is None and same else fulfil(engine, ask, wish)
    _claim(engine, track, pool, *now)
    held = leaving(track, track.held_pool)
    gives_back = held > (0, 0) and (track.held_pool != pool or held[0] > now[0] or held[1] > now[1])
    return _Given(told, now != (wish.spot_gpus, wish.on_demand_gpus), gives_back)
