"""From a wish to what a job will hold: cut to what can be had, and written as a decision."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from slacktide.allocators.site.spot import Claim, Spot
from slacktide.allocators.view import BUDGET_SHORT
from slacktide.backends.base import PoolRoom
from slacktide.core.quotes import UNLIMITED_GPUS, Quote
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, JobState, Order, Reason, Wish
from slacktide.engine.changes import decided
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.pending_decisions import PendingDecision
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import Event, Health, HealthChanged, Held
from slacktide.journal.state.journal_state import JobRecord
from slacktide.market.tape import offer
from slacktide.physics import progress as physics
from slacktide.physics.pace import Pace, Z, believed, is_measured, margin_factor
from slacktide.policies.view import goes_where_it_may, stays_in


class Fulfilment(NamedTuple):
    """What a job is given of what it wants."""

    job_context: JobContext  # where
    spot_gpus: int
    on_demand_gpus: int
    missed: int = 0  # how many wishes before this one no pool had the GPUs for
    unstocked: tuple[int, ...] = ()  # which of those had the spot and not the on-demand GPUs


def fulfil(
    context: StepContext, decision: PendingDecision, wish: Allocation, known_missed: int = 0
) -> list[Event]:
    """Say what a job is to hold of what it wants, and take that out of what is left for others.

    A new set of workers begins where the holding changes, and where some were just taken. Raises InputError
    for a wish in a pool that the job may not use. The first `known_missed` wishes are known to be in vain.
    """
    record, state = decision.record, decision.state
    job_context, spot, on_demand, missed, unstocked = fulfilment(context, decision, wish, known_missed)
    pool, begun = job_context.market_pool.name, decision.begun
    if job_context.ground is not None:
        begun = begun._replace(quote=job_context.quote(begun.slot))
    before = record.holding.order or state  # what was ordered may not be there yet, and is not ordered again
    changed = decision.taken is not None or (spot, on_demand) != (before.spot_gpus, before.on_demand_gpus)
    changed |= record.holding.order is not None and record.holding.order.pool != pool and spot + on_demand > 0
    attempt = context.next_attempt(record) if changed else record.holding.attempt
    wanted = Order(record.job, attempt, pool, spot, on_demand)
    context.spot.hold(Claim(record.job, pool, wanted.spot_gpus, begun.from_hours, wanted.on_demand_gpus))
    order = context.lasting(record, state, begun, wanted)
    lost = physics.given_up(
        job_context.terms, state, spot, on_demand, job_context.here if job_context.ground else state.pool
    )
    event = decided(
        begun, state, order, wish, lost_gpu_hours=lost, wanted_pool=_first(job_context, state, wish)
    )
    event = dataclasses.replace(
        event,
        missed=missed,
        unstocked=unstocked,
        notice_hours=decision.notice_hours,
        **_journey(job_context, record, state, order),
    )
    events: list[Event] = [event]
    if context.status(record.job).finished is not None and record.holding.held is None:
        # The first order to a back end that says what is held: nothing is yet.
        nothing = Held(
            job=record.job,
            at_hours=begun.from_hours,
            attempt=attempt,
            spot_gpus=0,
            on_demand_gpus=0,
            pending_gpus=order.gpus,
        )
        events.append(nothing)
    return [*events, *_health(context, decision, job_context, order, wish.reason)]


def _journey(job_context: JobContext, record: JobRecord, state: JobState, order: Order) -> dict[str, Any]:
    """Say from where a job moves with an order, and what that costs; nothing where it does not."""
    ran = record.money.bill.gpu_hours > 0.0 or state.gpus > 0  # its first stretch may not be written yet
    if job_context.ground is None or job_context.here == state.pool or not order.gpus or not ran:
        return {}
    carries = state.progress_gpu_hours > 0.0
    hours = float(job_context.terms.move_hours[state.pool]) if carries else 0.0
    return {
        "moved_from": job_context.pool_names[state.pool],
        "move_usd": job_context.move_usd(state),
        "move_hours": hours,
    }


def _first(job_context: JobContext, state: JobState, wish: Allocation) -> str:
    """Return the pool of the first wish of a job that may move; empty for one that stays."""
    return "" if job_context.ground is None else wish.pool or job_context.pool_names[state.pool]


def fulfilment(
    context: StepContext, decision: PendingDecision, wish: Allocation, known_missed: int = 0
) -> Fulfilment:
    """Try wishes in order until a pool has what is wanted; a job that stays gets what there is.

    Where none is had whole and the last one lacks on-demand GPUs only, what there is of it is given. So it is
    of the one wish for a job of a fleet on a market: its allocator saw what every pool has.
    """
    job_context = context.job_context(decision.record)
    if job_context.ground is None:
        stays_in(wish, job_context.market_pool.name, decision.record.job)
        return _cut(
            context, decision, job_context, Wish(wish.spot_gpus, wish.on_demand_gpus), decision.begun.quote
        )
    goes_where_it_may(wish, job_context.pool_names, decision.record.job)
    here = job_context.at(decision.state.pool)
    unstocked: tuple[int, ...] = ()
    for missed, each in list(enumerate(wish.wishes))[known_missed:]:
        there = here if each.pool is None else here.named(each.pool)
        quote = there.quote(decision.begun.slot)
        left = _left(context, decision, there, quote)
        if each.spot_gpus > left.spot_gpus and not decision.record.fleet:
            continue
        stocked = physics.is_stocked(there.terms, left, each.spot_gpus, each.on_demand_gpus)
        if stocked or missed == len(wish.instead):
            found = _cut(context, decision, there, each, quote)
            nothing = found.spot_gpus + found.on_demand_gpus == 0
            return found._replace(missed=missed, job_context=here if nothing else there, unstocked=unstocked)
        unstocked = (*unstocked, missed)
    return Fulfilment(here, 0, 0, len(wish.wishes), unstocked)


def _left(context: StepContext, decision: PendingDecision, job_context: JobContext, quote: Quote) -> Quote:
    """Return what others leave of what a pool offers, and of what the job's fleet may hold on demand."""
    left = _left_in_pool(context, decision, job_context, quote)
    quota = context.fleets.quota_left(decision.record, context.spot)
    return left._replace(on_demand_gpus=min(left.on_demand_gpus, quota))


def _left_in_pool(
    context: StepContext, decision: PendingDecision, job_context: JobContext, quote: Quote
) -> Quote:
    """Return what others leave of what a pool offers, what the job holds or has ordered there included.

    Jobs of a fleet that rents all on demand, at one price, are not limited by a stock.
    """
    record, pool = decision.record, job_context.market_pool.name
    by_others = context.spot.by_others(record.job).get(pool, 0)
    if quote.on_demand_gpus >= UNLIMITED_GPUS or context.fleets.is_unlimited(record):
        return offer(quote._replace(on_demand_gpus=UNLIMITED_GPUS), by_others)
    left = offer(quote, by_others, context.spot.on_demand_by_others(record.job).get(pool, 0))
    is_there = job_context.ground is None or job_context.here == decision.state.pool
    ordered = (
        record.holding.order.on_demand_gpus
        if record.holding.order is not None and record.holding.order.pool == pool
        else 0
    )
    return left.keeping(max(decision.state.on_demand_gpus if is_there else 0, ordered))


def _cut(
    context: StepContext, decision: PendingDecision, job_context: JobContext, wish: Wish, quote: Quote
) -> Fulfilment:
    """Cut a wish to what can be had in a pool."""
    left = _left(context, decision, job_context, quote)
    spot, on_demand = physics.cut(job_context.terms, left, wish.spot_gpus, wish.on_demand_gpus)
    room = context.capacity(job_context.market_pool.name)
    spot, on_demand = cut_to_capacity(
        context.spot, room, decision.record.job, job_context, left, spot, on_demand
    )
    return Fulfilment(job_context, int(spot), int(on_demand))


NOT_COVERED = (
    "the budget comes first, and what is left of it does not cover on-demand GPUs to the end, should spot go"
)
OUTRAN = "it reports nothing and is not done after the work of its file, so what is left is unknown"


def _health(
    context: StepContext, decision: PendingDecision, job_context: JobContext, order: Order, reason: Reason
) -> list[Event]:
    """Say so where the outlook of a job changes with what it is to hold."""
    hours = decision.begun.from_hours
    pace = context.belief(decision)
    terms = believed(job_context.terms, pace)
    all_terms = (
        tuple(believed(one, pace) for one in job_context.all_terms) if job_context.ground is not None else ()
    )
    word, why = health(
        terms, pace, decision.state, hours, job_context.slot_hours, order.spot_gpus, order.on_demand_gpus,
        all_terms, job_context.here,
    )  # fmt: skip
    if (
        decision.record.progress.estimated
        and physics.work_hours(terms, decision.state.progress_gpu_hours, terms.fastest) <= 0.0
    ):
        word, why = "at-risk", OUTRAN
    if reason.rule == BUDGET_SHORT and word in ("measuring", "on-time"):
        word, why = "at-risk", NOT_COVERED
    if word == decision.record.progress.health:
        return []
    return [HealthChanged(job=decision.record.job, at_hours=hours, health=word, why=why)]


def cut_to_capacity(
    spot_of_all: Spot, room: PoolRoom, job: str, context: JobContext, left: Quote, spot: int, on_demand: int
) -> tuple[int, int]:
    """Cut on-demand GPUs to those that machines can give; spot makes up for the rest as far as it is left."""
    if math.isinf(room.on_demand_gpus):
        return spot, on_demand
    # By claims: those of a fleet are decided about together, so what others were given is not written yet.
    by_others = spot_of_all.on_demand_by_others(job).get(context.market_pool.name, 0)
    most = max(0, int(room.on_demand_gpus) - by_others)
    if on_demand <= most:
        return spot, on_demand
    return physics.cut(context.terms, left, spot + on_demand - most, most)


def health(
    terms: physics.Terms,
    pace: Pace,
    state: JobState,
    now_hours: float,
    slot_hours: float,
    spot: int,
    on_demand: int,
    all_terms: Sequence[physics.Terms] = (),
    pool: int = 0,
) -> tuple[Health, str]:
    """Return the outlook of a job that is to hold these GPUs from now on, and why.

    Late: not even the fastest on-demand width from now on would meet the deadline, at a pace as fast as the
    evidence leaves possible. Late expected: it would not at the pace that is believed. Measuring: it would,
    and the pace is not measured yet. At risk: it would, but what is held would not, and less than a slot and
    a restart are left until on demand must begin, at a pace as slow as the evidence leaves possible. `terms`
    are those at the pace that is believed. A job that may move has `all_terms`, those of each pool, and is to
    hold the GPUs in one of them.
    """
    limit, began = terms.deadline_hours + TIME_TOLERANCE_HOURS, terms.submitted_hours
    as_held, earliest = _ends(terms, state, now_hours, spot, on_demand)
    if all_terms:
        as_held, earliest = _ends_in(all_terms, state, now_hours, spot, on_demand, pool)
    left = physics.work_hours(terms, state.progress_gpu_hours, terms.fastest)
    slow = margin_factor(pace, terms.fastest, left, slot_hours, Z)
    if earliest > limit:
        why = f"the earliest finish is hour {earliest - began:.2f}, the deadline {limit - began:.2f}"
        fast = now_hours + (earliest - now_hours) * slow
        return ("late", why) if fast > limit else ("late-expected", why)
    if not is_measured(pace):
        return "measuring", f"at the pace of its file the earliest finish is hour {earliest - began:.2f}"
    if as_held <= limit:
        return "on-time", f"with what it holds it would finish at hour {as_held - began:.2f}"
    spare = physics.latest_start(terms, state.checkpointed_gpu_hours, slow) - now_hours
    if spare > slot_hours + terms.restart_hours:
        return "on-time", f"on demand can wait another {spare:.2f} h"
    return "at-risk", f"on demand must start within {max(spare, 0.0):.2f} h"


def _ends(
    terms: physics.Terms, state: JobState, now_hours: float, spot: int, on_demand: int
) -> tuple[float, float]:
    """Return when a job would be done with what it is to hold, and at the earliest."""
    width = physics.rescue_width(terms, state, now_hours)
    rescue = float(physics.on_demand_finish(terms, state, now_hours, width))
    as_held = float(physics.finish_in(terms, state, now_hours, state.pool, on_demand, spot))
    return as_held, min(rescue, as_held)


def _ends_in(
    terms: Sequence[physics.Terms], state: JobState, now_hours: float, spot: int, on_demand: int, pool: int
) -> tuple[float, float]:
    """Return the same for a job that may move and is to hold this in one of its pools."""
    as_held = math.inf
    if spot + on_demand:
        there, changed = terms[pool], (spot, on_demand, pool) != state[:3]
        done, _, _ = physics.carried(there, state, changed)
        pause = physics.pause_after(there, state, spot, on_demand, pool)
        as_held = float(now_hours + pause + physics.work_hours(there, done, spot + on_demand))
    rescues = (physics.finish_in(one, state, now_hours, at, int(one.fastest)) for at, one in enumerate(terms))
    return as_held, min(as_held, *map(float, rescues))
