"""A fleet on a market: the view of pools, money and jobs from which its allocator decides."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from slacktide.allocators.site.job_tables import JobTables, Kinds, work_of
from slacktide.allocators.site.spot import Spot
from slacktide.allocators.view import FleetView, Money, SiteView
from slacktide.budget.classes import JobTemplate
from slacktide.core.arrays import Floats, Ints
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job, JobState
from slacktide.engine.fleet.fleets import KindTables
from slacktide.engine.job.account import has_all
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.pending_decisions import PendingDecision, view_of_all, whole
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import Lived
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.journal.state.journal_state import JobRecord, without_gpus
from slacktide.market.tape import offer
from slacktide.physics.ledger import Priced
from slacktide.physics.pace import KNOWN, Pace, Z, believed, is_measured, mean_restart, safe
from slacktide.physics.progress import Terms
from slacktide.policies.deadline_guard import measuring_width


def site_view(
    context: StepContext, fleet: FleetRecord, pending: Sequence[PendingDecision], spot: Spot, now_hours: float
) -> FleetView:
    """Return what a fleet's allocator may know at a moment; `spot` says what all jobs hold."""
    run = context.fleets.run(fleet)
    market, job_contexts = run.market, [context.job_context(decision.record) for decision in pending]
    assert market is not None
    others, on_demand = spot.outside([decision.record.job for decision in pending])
    paces = [context.belief(decision) for decision in pending]
    kinds, jobs = lives_of(pending, job_contexts, paces, market.tables, fleet.origin_hours, run.templates)
    hours = market.hours(now_hours, fleet.origin_hours)
    slot = market.slot(hours)
    moment, gpus = market.at(slot), int(jobs.gpus.sum())
    site = SiteView(
        slot=slot,
        slot_hours=market.slot_hours,
        next_hours=(slot + 1) * market.slot_hours,
        # What pools offer to all these jobs together, without what other jobs hold.
        pools=tuple(
            pool._replace(quote=offer(pool.quote, others.get(pool.name, 0), on_demand.get(pool.name, 0)))
            for pool in moment
        ),
        kinds=kinds,
        jobs=jobs,
        money=money(context, fleet, pending, now_hours),
        known=moment,
        on_demand_gpus=run.on_demand_gpus,
    )
    view = view_of_all(pending, hours, spot, context.job_context)
    return view._replace(
        fleet=run.fleet,
        jobs=view.jobs._replace(
            ids=whole([decision.record.number for decision in pending]),
            kind=jobs.said_kind,
            number=whole([decision.record.number_of_class for decision in pending]),
            submitted_hours=jobs.submitted_hours,
            spot_gpus=jobs.spot_gpus,
            on_demand_gpus=jobs.on_demand_gpus,
            pause_hours=jobs.pause_hours,
            work_gpu_hours=work_of(kinds, jobs),
        ),
        ready_gpus=gpus,
        rented_gpus=gpus,
        spent_gpu_hours=fleet.spent_gpu_hours,
        site=site,
    )


def money(
    context: StepContext, fleet: FleetRecord, pending: Sequence[PendingDecision], now_hours: float
) -> Money:
    """Return what a fleet may spend in the present period, and what it has spent up to this moment.

    Spending under other versions of the same fleet file counts, too. Fixed periods start again with each
    version, so for them it counts over the last period's length.
    """
    allowance = context.fleets.run(fleet).allowance
    period = allowance.period(now_hours - fleet.origin_hours)
    since = period.since_hours + fleet.origin_hours
    running = list(_running(context, fleet, pending, now_hours))
    after = (priced for priced in running if priced.stretch.to_hours > since + TIME_TOLERANCE_HOURS)
    earlier = now_hours - allowance.period_hours if allowance.renewal == "fixed" else since
    return Money(
        budget_usd=period.budget_usd,
        spent_usd=fleet.spending.since(since)
        + sum(priced.charge.usd for priced in after)
        + _spent_before(context, fleet, earlier, now_hours),
        usd_per_hour=allowance.usd_per_hour,
        since_hours=period.since_hours,
        until_hours=period.until_hours,
        ever_usd=fleet.spending.total_usd + sum(priced.charge.usd for priced in running),
    )


def _spent_before(context: StepContext, fleet: FleetRecord, since_hours: float, now_hours: float) -> float:
    """Return what the fleets of earlier and later versions of the same file have spent since then."""
    path, spent = fleet.first.fleet_path, 0.0
    for other in context.state.fleets.values():
        if path and other.key != fleet.key and other.first.fleet_path == path:
            running = _running(context, other, (), now_hours)
            spent += other.spending.since(since_hours)
            spent += sum(priced.charge.usd for priced in running if priced.stretch.to_hours > since_hours)
    return spent


def _running(
    context: StepContext, fleet: FleetRecord, pending: Sequence[PendingDecision], now_hours: float
) -> Iterator[Priced]:
    """Yield stretches up to now that are not written yet, also those of jobs that are being stopped."""
    for event in (event for decision in pending for event in decision.before):
        if isinstance(event, Lived):
            yield event.priced
    pending_jobs = {decision.record.job for decision in pending}
    others = (job for job in context.members(fleet) if job.job not in pending_jobs)
    for account in (context.account(job, now_hours) for job in others):
        if account is not None:
            yield account.priced


def _without_gpus(decision: PendingDecision) -> tuple[float, float]:
    """Return since when a job has held nothing and until when it held spot, at the moment of a decision."""
    record = decision.record
    found = record.holding.idle_since_hours, record.holding.spot_until_hours
    for event in decision.before:
        if isinstance(event, Lived):
            found = without_gpus(record, event.priced.stretch)
    return found


def ordered(decision: PendingDecision, context: JobContext, pace: Pace = KNOWN) -> JobState:
    """Return a job's state as if everything ordered for it had come; what the market took is gone.

    Workers that have not come yet count as pausing.
    """
    record, state = decision.record, decision.state
    order = record.holding.order
    if order is None or not order.gpus or decision.taken is not None or has_all(record):
        return state
    there = context.named(order.pool)
    pause_hours = mean_restart(pace, there.terms.restart_hours)
    if there.here != state.pool and state.progress_gpu_hours > 0.0:
        pause_hours += float(there.terms.move_hours[state.pool])
    return state._replace(
        spot_gpus=order.spot_gpus,
        on_demand_gpus=order.on_demand_gpus,
        pool=there.here,
        pause_hours=pause_hours,
    )


def lives_of(
    pending: Sequence[PendingDecision],
    contexts: Sequence[JobContext],
    paces: Sequence[Pace],
    tables: KindTables,
    origin_hours: float,
    templates: Mapping[str, JobTemplate],
) -> tuple[Kinds, JobTables]:
    """Return jobs as columns, on the clock of their fleet, with the pace that decisions assume for each.

    A job whose file gives no priority or patience has that of its class.
    """
    classes = [templates.get(decision.record.submitted.fleet_class) for decision in pending]
    kinds, said = tables.of(
        [(decision.record.job, context) for decision, context in zip(pending, contexts, strict=True)]
    )
    states = [ordered(*one) for one in zip(pending, contexts, paces, strict=True)]
    idle_since, spot_until = zip(*map(_without_gpus, pending), strict=True)
    spot_added = [decision.record.holding.spot_added_hours for decision in pending]
    held = {name: np.array([getattr(state, name) for state in states]) for name in HELD}
    where = [tables.where(context) for context in contexts]
    speeds = [
        speed_of(context, pace, state.progress_gpu_hours, hard=is_hard(context.job))
        for context, pace, state in zip(contexts, paces, states, strict=True)
    ]
    paced, kind, safe_kind = with_speeds(kinds, said, speeds, where)
    submitted = _since([decision.record.began_hours for decision in pending], origin_hours)
    jobs = [context.job for context in contexts]
    pools = [there[state.pool] for there, state in zip(where, states, strict=True)]
    return paced, JobTables(
        kind=kind,
        safe_kind=safe_kind,
        said_kind=whole(said),
        measure_gpus=_measure_gpus(speeds, where, kinds.fastest.shape[1]),
        ends_gpu_hours=_ends(contexts, kinds.phase_share.shape[1]),
        submitted_hours=submitted,
        deadline_hours=submitted + np.array([job.deadline_hours for job in jobs]),
        worthless_hours=submitted + np.array([_worthless_hours(job) for job in jobs]),
        value_usd=np.array([job.value_usd for job in jobs]),
        weight=np.array([_weight(*one) for one in zip(contexts, classes, strict=True)]),
        patience_hours=np.array([_patience_hours(*one) for one in zip(contexts, classes, strict=True)]),
        pool=whole(pools),
        added_hours=np.maximum(_since(spot_added, origin_hours), 0.0),
        idle_since_hours=_since(idle_since, origin_hours),
        spot_until_hours=_since(spot_until, origin_hours),
        **held,
    )


def _since(hours: Sequence[float], origin_hours: float) -> Floats:
    since: Floats = np.array(hours, dtype=np.float64) - origin_hours
    return since


def _ends(contexts: Sequence[JobContext], phases: int) -> Floats:
    ends = np.empty((len(contexts), phases))
    for row, context in zip(ends, contexts, strict=True):
        own = context.terms.phase_ends_gpu_hours
        row[:] = own[-1]
        row[: len(own)] = own
    return ends


def _measure_gpus(speeds: Sequence[Speed | None], where: Sequence[Sequence[int]], pools: int) -> Ints:
    """Return how many GPUs each job must hold at least in each pool until its pace is measured."""
    least = np.zeros((len(speeds), pools), dtype=np.int64)
    for row, speed, there in zip(least, speeds, where, strict=True):
        if speed is not None:
            row[there] = speed.measure_gpus
    return least


def _worthless_hours(job: Job) -> float:
    late = job.worthless_after_hours
    return job.deadline_hours if late is None else late


def is_hard(job: Job) -> bool:
    """Whether a job must be done by its deadline."""
    return job.deadline_hours < math.inf and _worthless_hours(job) <= job.deadline_hours


def _weight(context: JobContext, template: JobTemplate | None) -> float:
    if context.file is not None and context.file.priority is not None:
        return context.file.priority
    return 1.0 if template is None else template.weight


def _patience_hours(context: JobContext, template: JobTemplate | None) -> float:
    """Return how long a job may wait before it rents on demand; NaN leaves that to the allocator."""
    if context.file is not None and context.file.patience_hours is not None:
        return context.file.patience_hours
    return math.nan if template is None else template.patience_hours


def kept_in(decision: PendingDecision, context: JobContext, pool: str) -> tuple[int, int]:
    """Return how many spot and on-demand GPUs a job has, or has ordered, in a pool."""
    state = ordered(decision, context)
    return (state.spot_gpus, state.on_demand_gpus) if context.pool_names[state.pool] == pool else (0, 0)


def leaving(record: JobRecord, pool: str) -> tuple[int, int]:
    """Return how many spot and on-demand GPUs real workers still hold in a pool, whatever is ordered."""
    held = record.holding.held
    return (0, 0) if held is None or not held.gpus or record.held_pool != pool else (held[0], held[1])


HELD = (
    "spot_gpus", "on_demand_gpus", "pause_hours", "progress_gpu_hours", "checkpointed_gpu_hours",
    "since_checkpoint_hours", "cost_usd",
)  # fmt: skip  # the parts of a job's state that are columns


class Speed(NamedTuple):
    """How fast a job is in each of its pools."""

    mean: tuple[Terms, ...]  # as it is believed to be
    safe: tuple[Terms, ...]  # as slow as it may turn out to be; the same before enough was measured
    measure_gpus: tuple[int, ...]
    """The least that it must hold in each pool until enough was measured; 0 for no minimum."""


def speed_of(context: JobContext, pace: Pace, progress_gpu_hours: float, *, hard: bool) -> Speed | None:
    """Return how fast a job is at a pace; None where its file counts as exact."""
    if pace.hours == np.inf:
        return None
    slot_hours = context.slot_hours
    mean = tuple(believed(terms, pace) for terms in context.all_terms)
    if is_measured(pace):
        slow = tuple(safe(terms, pace, progress_gpu_hours, slot_hours, Z) for terms in mean)
        return Speed(mean, slow, (0,) * len(mean))
    least = tuple(measuring_width(terms, slot_hours) if hard else 0 for terms in mean)
    return Speed(mean, mean, least)


def with_speeds(
    kinds: Kinds, said: Sequence[int], speeds: Sequence[Speed | None], where: Sequence[Sequence[int]]
) -> tuple[Kinds, Ints, Ints]:
    """Add rows for jobs whose pace is not that of their file; return each job's rows at mean and safe pace.

    `where` says which of the fleet's pools those of each job are.
    """
    kind, safe_kind = whole(said), whole(said)
    rows: list[tuple[int, tuple[Terms, ...], Sequence[int]]] = []
    first = len(kinds.restart_hours)
    for job, speed in enumerate(speeds):
        if speed is not None:
            kind[job] = safe_kind[job] = first + len(rows)
            rows.append((said[job], speed.mean, where[job]))
            if speed.safe is not speed.mean:
                safe_kind[job] = first + len(rows)
                rows.append((said[job], speed.safe, where[job]))
    return _more(kinds, rows) if rows else kinds, kind, safe_kind


def _more(kinds: Kinds, rows: Sequence[tuple[int, tuple[Terms, ...], Sequence[int]]]) -> Kinds:
    """Copy rows, and set in them how fast a job is in each pool and how long its starts and saves take."""
    first = len(kinds.restart_hours)
    copied = [kind for kind, _, _ in rows]
    found = Kinds._make(np.concatenate([table, table[copied]]) for table in kinds)
    for row, (_, all_terms, pools) in enumerate(rows, start=first):
        for terms, pool in zip(all_terms, pools, strict=True):
            phases, widths = terms.rate.shape
            there = found.rate[row, pool, :phases, :widths]
            there[...] = np.where(there > 0.0, terms.rate, 0.0)
            found.restart_hours[row], found.shrink_hours[row] = terms.restart_hours, terms.shrink_hours
            found.checkpoint_hours[row] = terms.checkpoint_hours
    return found
