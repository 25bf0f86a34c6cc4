"""Turns what a job wants into what it will hold: cut to what is available, and written as a decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from slacktide.allocators.site.spot import Claim
from slacktide.allocators.view import BUDGET_SHORT
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
    """Return the events that give a job as much of its wish as is available, and claim that for it.

    A new set of workers begins if the holding changes or some were just taken. Raises InputError for a pool
    that the job may not use. The first `known_missed` wishes were tried already.
    """
    record, state = decision.record, decision.state
    job_context, spot, on_demand, missed, unstocked = fulfilment(context, decision, wish, known_missed)
    pool, begun = job_context.market_pool.name, decision.begun
    if job_context.may_move:
        begun = begun._replace(quote=job_context.quote(begun.slot))
    before = record.holding.order or state  # what was ordered may not be there yet, and is not ordered again
    changed = decision.taken is not None or (spot, on_demand) != (before.spot_gpus, before.on_demand_gpus)
    changed |= record.holding.order is not None and record.holding.order.pool != pool and spot + on_demand > 0
    attempt = context.next_attempt(record) if changed else record.holding.attempt
    wanted = Order(record.job, attempt, pool, spot, on_demand)
    context.spot.hold(Claim(record.job, pool, wanted.spot_gpus, begun.from_hours, wanted.on_demand_gpus))
    order = context.lasting(record, state, begun, wanted)
    lost = physics.given_up(job_context.terms, state, spot, on_demand, job_context.here)
    first = wish.pool or job_context.pool_names[state.pool]
    event = decided(
        begun, state, order, wish,
        lost_gpu_hours=float(lost), wanted_pool=first if job_context.may_move else "", missed=missed,
        unstocked=unstocked, notice_hours=decision.notice_hours,
        **_journey(job_context, record, state, order),
    )  # fmt: skip
    events: list[Event] = [event]
    if context.status(record.job).finished is not None and record.holding.held is None:
        # The first order to a back end that says what is held: nothing is yet.
        nothing_yet = Held(
            job=record.job, at_hours=begun.from_hours, attempt=attempt, spot_gpus=0, on_demand_gpus=0,
            pending_gpus=order.gpus,
        )  # fmt: skip
        events.append(nothing_yet)
    return [*events, *_health(context, decision, job_context, order, wish.reason)]


def _journey(job_context: JobContext, record: JobRecord, state: JobState, order: Order) -> dict[str, Any]:
    """Return the fields of a decision that describe a move and its cost; none if the job stays."""
    ran = record.money.bill.gpu_hours > 0.0 or state.gpus > 0  # its first stretch may not be written yet
    if job_context.here == state.pool or not order.gpus or not ran:
        return {}
    carries = state.progress_gpu_hours > 0.0
    hours = float(job_context.terms.move_hours[state.pool]) if carries else 0.0
    return {
        "moved_from": job_context.pool_names[state.pool],
        "move_usd": job_context.move_usd(state),
        "move_hours": hours,
    }


def fulfilment(
    context: StepContext, decision: PendingDecision, wish: Allocation, known_missed: int = 0
) -> Fulfilment:
    """Try wishes in order until a pool has what one needs; a job that cannot move gets what its pool has.

    If the last wish lacks only on-demand GPUs, the job gets what there is of it. So does a job of a fleet on
    a market, of its only wish: its allocator saw what every pool has.
    """
    job_context = context.job_context(decision.record)
    if not job_context.may_move:
        stays_in(wish, job_context.market_pool.name, decision.record.job)
        return _cut(
            context, decision, job_context, Wish(wish.spot_gpus, wish.on_demand_gpus), decision.begun.quote
        )
    goes_where_it_may(wish, job_context.pool_names, decision.record.job)
    here = job_context.at(decision.state.pool)
    unstocked: tuple[int, ...] = ()
    for missed, option in list(enumerate(wish.wishes))[known_missed:]:
        target = here if option.pool is None else here.named(option.pool)
        quote = target.quote(decision.begun.slot)
        left = _left(context, decision, target, quote)
        if option.spot_gpus > left.spot_gpus and not decision.record.fleet:
            continue
        stocked = physics.is_stocked(target.terms, left, option.spot_gpus, option.on_demand_gpus)
        if stocked or missed == len(wish.instead):
            cut = _cut(context, decision, target, option, quote)
            nothing = cut.spot_gpus + cut.on_demand_gpus == 0
            return cut._replace(missed=missed, job_context=here if nothing else target, unstocked=unstocked)
        unstocked = (*unstocked, missed)
    return Fulfilment(here, 0, 0, len(wish.wishes), unstocked)


def _left(context: StepContext, decision: PendingDecision, job_context: JobContext, quote: Quote) -> Quote:
    """Return what a pool offers minus what other jobs hold; on-demand GPUs also by the quota of the fleet.

    What the job holds or has ordered there counts as its own. Jobs of a fleet that is not on a market are
    not limited by the stock of on-demand GPUs.
    """
    record, pool = decision.record, job_context.market_pool.name
    run = context.fleets.of(record)
    by_others = context.spot.by_others(record.job).get(pool, 0)
    if quote.on_demand_gpus >= UNLIMITED_GPUS or (run is not None and run.market is None):
        left = offer(quote._replace(on_demand_gpus=UNLIMITED_GPUS), by_others)
    else:
        order, own = record.holding.order, 0
        if job_context.here == decision.state.pool:
            own = decision.state.on_demand_gpus
        if order is not None and order.pool == pool:
            own = max(own, order.on_demand_gpus)
        on_demand = context.spot.on_demand_by_others(record.job).get(pool, 0)
        left = offer(quote, by_others, on_demand).keeping(own)
    quota = context.fleets.quota_left(record, context.spot)
    return left._replace(on_demand_gpus=min(left.on_demand_gpus, quota))


def _cut(
    context: StepContext, decision: PendingDecision, job_context: JobContext, wish: Wish, quote: Quote
) -> Fulfilment:
    """Cut a wish to what is available in a pool.

    On-demand GPUs are cut to those that machines can give; spot replaces the rest as far as there is any.
    """
    terms, pool = job_context.terms, job_context.market_pool.name
    left = _left(context, decision, job_context, quote)
    spot, on_demand = physics.cut(terms, left, wish.spot_gpus, wish.on_demand_gpus)
    room = context.capacity(pool).on_demand_gpus
    if math.isfinite(room):
        # By claims: jobs of a fleet are decided about together, and what others just got is not written yet.
        by_others = context.spot.on_demand_by_others(decision.record.job).get(pool, 0)
        most = max(0, int(room) - by_others)
        if on_demand > most:
            spot, on_demand = physics.cut(terms, left, spot + on_demand - most, most)
    return Fulfilment(job_context, int(spot), int(on_demand))


NOT_COVERED = (
    "the budget comes first, and what is left of it does not cover on-demand GPUs to the end, should spot go"
)
OUTRAN = "it reports nothing and is not done after the work of its file, so what is left is unknown"


def _health(
    context: StepContext, decision: PendingDecision, job_context: JobContext, order: Order, reason: Reason
) -> list[Event]:
    """Return an event where the outlook of a job changes with what it is to hold."""
    pace, progress = context.belief(decision), decision.record.progress
    all_terms = tuple(believed(one, pace) for one in job_context.all_terms)
    terms = all_terms[job_context.here]
    word, why = _outlook(job_context, all_terms, pace, decision, order)
    if (
        progress.estimated
        and physics.work_hours(terms, decision.state.progress_gpu_hours, terms.fastest) <= 0.0
    ):
        word, why = "at-risk", OUTRAN
    if reason.rule == BUDGET_SHORT and word in ("measuring", "on-time"):
        word, why = "at-risk", NOT_COVERED
    if word == progress.health:
        return []
    return [HealthChanged(job=decision.record.job, at_hours=decision.begun.from_hours, health=word, why=why)]


def _outlook(
    job_context: JobContext,
    all_terms: Sequence[physics.Terms],
    pace: Pace,
    decision: PendingDecision,
    order: Order,
) -> tuple[Health, str]:
    """Return the outlook of a job that is to hold these GPUs from now on, and why.

    Late: not even the fastest on-demand width from now on would meet the deadline, at a pace as fast as the
    evidence leaves possible. Late expected: it would not at the pace that is believed. Measuring: it would,
    and the pace is not measured yet. At risk: it would, but what is held would not, and less than a slot and
    a restart are left until on demand must begin, at a pace as slow as the evidence leaves possible.
    `all_terms` are those at the pace that is believed, in each pool that the job may use.
    """
    here, slot_hours, terms = job_context.here, job_context.slot_hours, all_terms[job_context.here]
    state, now_hours = decision.state, decision.begun.from_hours
    limit, began = terms.deadline_hours + TIME_TOLERANCE_HOURS, terms.submitted_hours
    if job_context.may_move:
        widths = [int(one.fastest) for one in all_terms]
    else:
        widths = [physics.rescue_width(terms, state, now_hours)]
    ends = [
        float(physics.finish_in(one, state, now_hours, at, width))
        for at, (one, width) in enumerate(zip(all_terms, widths, strict=True))
    ]
    as_held = float(physics.finish_in(terms, state, now_hours, here, order.on_demand_gpus, order.spot_gpus))
    earliest = min(as_held, *ends)
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
