"""From a wish to what a job will hold: cut to what can be had, and written as a decision."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from slacktide.allocators.site.spot import Claim
from slacktide.allocators.view import BUDGET_SHORT
from slacktide.core.types import UNLIMITED_GPUS, Allocation, JobState, Order, Quote, Reason, Wish
from slacktide.engine.capacity import cut_to_capacity
from slacktide.engine.event_builders import decided
from slacktide.engine.holding import nothing_yet
from slacktide.engine.job.health import health
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.pending_decisions import PendingDecision
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import Event, HealthChanged
from slacktide.journal.state.journal_state import JobRecord
from slacktide.market.market_view import offer
from slacktide.physics import physics
from slacktide.physics.pace import believed
from slacktide.policies.view import goes_where_it_may, stays_in


class Fulfilment(NamedTuple):
    """What a job is given of what it wants."""

    lane: JobContext
    """Where."""
    spot_gpus: int
    on_demand_gpus: int
    missed: int = 0
    """How many wishes before this one no pool had the GPUs for."""
    unstocked: tuple[int, ...] = ()
    """Which of those had the spot and not the on-demand GPUs."""


def fulfil(
    context: StepContext, ask: PendingDecision, wish: Allocation, known_missed: int = 0
) -> list[Event]:
    """Say what a job is to hold of what it wants, and take that out of what is left for others.

    A new set of workers begins where the holding changes, and where some were just taken. Raises InputError
    for a wish in a pool that the job may not use. The first `known_missed` wishes are known to be in vain.
    """
    track, state = ask.track, ask.state
    lane, spot, on_demand, missed, unstocked = fulfilment(context, ask, wish, known_missed)
    pool, begun = lane.market_pool.name, ask.begun
    if lane.ground is not None:
        begun = begun._replace(quote=lane.quote(begun.slot))
    before = track.holding.order or state  # what was ordered may not be there yet, and is not ordered again
    changed = ask.taken is not None or (spot, on_demand) != (before.spot_gpus, before.on_demand_gpus)
    changed |= track.holding.order is not None and track.holding.order.pool != pool and spot + on_demand > 0
    attempt = context.next_attempt(track) if changed else track.holding.attempt
    wanted = Order(track.job, attempt, pool, spot, on_demand)
    context.spot.hold(Claim(track.job, pool, wanted.spot_gpus, begun.from_hours, wanted.on_demand_gpus))
    order = context.lasting(track, state, begun, wanted)
    none = nothing_yet(track, context.status(track.job), attempt, begun.from_hours, order.gpus)
    lost = physics.given_up(lane.terms, state, spot, on_demand, lane.here if lane.ground else state.pool)
    decision = decided(begun, state, order, wish, lost_gpu_hours=lost, wanted_pool=_first(lane, state, wish))
    decision = dataclasses.replace(
        decision,
        missed=missed,
        unstocked=unstocked,
        notice_hours=ask.notice_hours,
        **_journey(lane, track, state, order),
    )
    return [decision, *none, *_health(context, ask, lane, order, wish.reason)]


def _journey(lane: JobContext, track: JobRecord, state: JobState, order: Order) -> dict[str, Any]:
    """Say from where a job moves with an order, and what that costs; nothing where it does not."""
    ran = track.money.bill.gpu_hours > 0.0 or state.gpus > 0  # its first stretch may not be written yet
    if lane.ground is None or lane.here == state.pool or not order.gpus or not ran:
        return {}
    carries = state.progress_gpu_hours > 0.0
    hours = float(lane.terms.move_hours[state.pool]) if carries else 0.0
    return {
        "moved_from": lane.pool_names[state.pool],
        "move_usd": lane.move_usd(state),
        "move_hours": hours,
    }


def _first(lane: JobContext, state: JobState, wish: Allocation) -> str:
    """Return the pool of the first wish of a job that may move; empty for one that stays."""
    return "" if lane.ground is None else wish.pool or lane.pool_names[state.pool]


def fulfilment(
    context: StepContext, ask: PendingDecision, wish: Allocation, known_missed: int = 0
) -> Fulfilment:
    """Try wishes in order until a pool has what is wanted; a job that stays gets what there is.

    Where none is had whole and the last one lacks on-demand GPUs only, what there is of it is given. So it is
    of the one wish for a job of a fleet on a market: its allocator saw what every pool has.
    """
    lane = context.lane(ask.track)
    if lane.ground is None:
        stays_in(wish, lane.market_pool.name, ask.track.job)
        return _cut(context, ask, lane, Wish(wish.spot_gpus, wish.on_demand_gpus), ask.begun.quote)
    goes_where_it_may(wish, lane.pool_names, ask.track.job)
    here = lane.at(ask.state.pool)
    unstocked: tuple[int, ...] = ()
    for missed, each in list(enumerate(wish.wishes))[known_missed:]:
        there = here if each.pool is None else here.named(each.pool)
        quote = there.quote(ask.begun.slot)
        left = _left(context, ask, there, quote)
        if each.spot_gpus > left.spot_gpus and not ask.track.fleet:
            continue
        stocked = physics.is_stocked(there.terms, left, each.spot_gpus, each.on_demand_gpus)
        if stocked or missed == len(wish.instead):
            found = _cut(context, ask, there, each, quote)
            nothing = found.spot_gpus + found.on_demand_gpus == 0
            return found._replace(missed=missed, lane=here if nothing else there, unstocked=unstocked)
        unstocked = (*unstocked, missed)
    return Fulfilment(here, 0, 0, len(wish.wishes), unstocked)


def _left(context: StepContext, ask: PendingDecision, lane: JobContext, quote: Quote) -> Quote:
    """Return what others leave of what a pool offers, and of what the job's fleet may hold on demand."""
    left = _left_in_pool(context, ask, lane, quote)
    quota = context.fleets.quota_left(ask.track, context.spot)
    return left._replace(on_demand_gpus=min(left.on_demand_gpus, quota))


def _left_in_pool(context: StepContext, ask: PendingDecision, lane: JobContext, quote: Quote) -> Quote:
    """Return what others leave of what a pool offers, what the job holds or has ordered there included.

    Jobs of a fleet that rents all on demand, at one price, are not limited by a stock.
    """
    track, pool = ask.track, lane.market_pool.name
    by_others = context.spot.by_others(track.job).get(pool, 0)
    if quote.on_demand_gpus >= UNLIMITED_GPUS or context.fleets.is_unlimited(track):
        return offer(quote._replace(on_demand_gpus=UNLIMITED_GPUS), by_others)
    left = offer(quote, by_others, context.spot.on_demand_by_others(track.job).get(pool, 0))
    is_there = lane.ground is None or lane.here == ask.state.pool
    ordered = (
        track.holding.order.on_demand_gpus
        if track.holding.order is not None and track.holding.order.pool == pool
        else 0
    )
    return left.keeping(max(ask.state.on_demand_gpus if is_there else 0, ordered))


def _cut(
    context: StepContext, ask: PendingDecision, lane: JobContext, wish: Wish, quote: Quote
) -> Fulfilment:
    """Cut a wish to what can be had in a pool."""
    left = _left(context, ask, lane, quote)
    spot, on_demand = physics.cut(lane.terms, left, wish.spot_gpus, wish.on_demand_gpus)
    room = context.capacity(lane.market_pool.name)
    spot, on_demand = cut_to_capacity(context.spot, room, ask.track.job, lane, left, spot, on_demand)
    return Fulfilment(lane, int(spot), int(on_demand))


NOT_COVERED = (
    "the budget comes first, and what is left of it does not cover on-demand GPUs to the end, should spot go"
)
OUTRAN = "it reports nothing and is not done after the work of its file, so nobody knows what is left"


def _health(
    context: StepContext, ask: PendingDecision, lane: JobContext, order: Order, reason: Reason
) -> list[Event]:
    """Say so where the outlook of a job changes with what it is to hold."""
    hours = ask.begun.from_hours
    pace = context.belief(ask)
    terms = believed(lane.terms, pace)
    all_terms = tuple(believed(one, pace) for one in lane.all_terms) if lane.ground is not None else ()
    word, why = health(
        terms, pace, ask.state, hours, lane.slot_hours, order.spot_gpus, order.on_demand_gpus, all_terms,
        lane.here,
    )  # fmt: skip
    if (
        ask.track.progress.estimated
        and physics.work_hours(terms, ask.state.progress_gpu_hours, terms.fastest) <= 0.0
    ):
        word, why = "at-risk", OUTRAN
    if reason.rule == BUDGET_SHORT and word in ("measuring", "on-time"):
        word, why = "at-risk", NOT_COVERED
    if word == ask.track.progress.health:
        return []
    return [HealthChanged(job=ask.track.job, at_hours=hours, health=word, why=why)]
