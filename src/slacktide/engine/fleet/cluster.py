"""The machines that a fleet rents for itself: the view of its allocator, and the cost of unused machines."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

from slacktide.allocators.view import FleetView, needs_sizes
from slacktide.budget.cluster import UNUSED, Cluster
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.pending_decisions import PendingDecision, view_of_all, whole
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import ClusterSized, Kept
from slacktide.journal.state.fleet_record import FleetRecord, HeldSpan
from slacktide.physics.ledger import Priced, Stretch, Use
from slacktide.physics.tariff import BY_THE_SECOND, Meter, price


def cluster_view(
    context: StepContext,
    fleet: FleetRecord,
    pending: Sequence[PendingDecision],
    cluster: Cluster,
    now_hours: float,
    ready_nodes: int,
    leaving_gpus: int = 0,
) -> FleetView:
    """Return the view of a fleet with `ready_nodes`, minus the GPUs that departing workers still use."""
    run, jobs = context.fleets.run(fleet), [decision.record for decision in pending]
    plain = view_of_all(pending, now_hours - fleet.began_hours, context.spot, context.job_context)
    phases = [
        run.phase(
            decision.record, decision.state.progress_gpu_hours, context.job_context(decision.record).terms
        )
        for decision in pending
    ]
    view = plain._replace(
        fleet=run.fleet,
        jobs=plain.jobs._replace(
            ids=whole([job.number for job in jobs]),
            kind=whole([run.kind(job) for job in jobs]),
            number=whole([job.number_of_class for job in jobs]),
            phase=whole(phases),
            submitted_hours=plain.jobs.submitted_hours - fleet.began_hours,
            work_gpu_hours=plain.jobs.work_gpu_hours if needs_sizes(run.allocator) else None,
        ),
        spent_gpu_hours=fleet.spent_gpu_hours + sum(map(_open_gpu_hours, pending)),
    )
    if not run.owns_machines:
        return view
    ready_gpus = max(0, ready_nodes * cluster.node_gpus - leaving_gpus)
    return view._replace(ready_gpus=ready_gpus, rented_gpus=cluster.rented * cluster.node_gpus)


def _open_gpu_hours(decision: PendingDecision) -> float:
    """Return the GPU-hours of a job's open stretch, which is not written yet."""
    begun, order = decision.record.holding.begun, decision.record.holding.order
    if not decision.inside or begun is None or order is None:
        return 0.0
    return order.gpus * max(0.0, decision.begun.from_hours - begun.from_hours)


def being_let_go(context: StepContext, fleet: FleetRecord, now_hours: float) -> int:
    """Return the GPUs that are in use by workers that are being stopped, or were until after this moment."""
    orders = [job.holding.order for job in context.members(fleet) if job.requests.ending is not None]
    return sum(order.on_demand_gpus for order in orders if order is not None) + fleet.held_after(now_hours)


def kept_until(
    fleet: FleetRecord, held: Sequence[HeldSpan], context: JobContext, until_hours: float
) -> list[Kept]:
    """Return the events that charge a fleet for machines that its jobs have not used since the last account.

    `held` is what its jobs hold in open stretches.
    """
    if until_hours <= fleet.accounted_hours + TIME_TOLERANCE_HOURS:
        return []
    spans = (*fleet.recent, *held)
    cluster = dataclasses.replace(fleet.cluster)
    moments = _moments(fleet.accounted_hours, until_hours, spans, cluster, context)
    found: list[Kept] = []
    for begin, end in itertools.pairwise(moments):
        cluster.arrive(begin)
        used = sum(span.gpus for span in spans if span.from_hours <= begin and end <= span.to_hours)
        unused = zip(UNUSED, cluster.unused(used), strict=True)
        found += [_kept(fleet, context, begin, end, use, gpus) for use, gpus in unused if gpus > 0]
    return found


def sized(fleet: FleetRecord, now_hours: float, nodes: int, like: Cluster) -> ClusterSized | None:
    """Return the event that requests this many nodes; None if that changes nothing."""
    after = dataclasses.replace(fleet.cluster)
    after.arrive(now_hours)
    before = dataclasses.replace(after)
    after.take_form(like.node_gpus, like.provisioning_hours, like.grace_hours)
    after.resize(nodes, now_hours)
    if after == before:
        return None
    return ClusterSized(
        at_hours=now_hours,
        fleet=fleet.key,
        nodes=nodes,
        node_gpus=like.node_gpus,
        provisioning_hours=like.provisioning_hours,
        idle_grace_hours=like.grace_hours,
    )


def _moments(
    begin: float, end: float, spans: Sequence[HeldSpan], cluster: Cluster, context: JobContext
) -> list[float]:
    """Return the moments at which anything changes between two, both included."""
    changes = {each for span in spans for each in (span.from_hours, span.to_hours)}
    changes |= set(_transitions(dataclasses.replace(cluster), end))
    first, last = context.slot(begin), context.slot(end)
    changes |= {context.begins(slot) for slot in range(first + 1, last + 1)}
    return [begin, *sorted(each for each in changes if begin < each < end), end]


def _transitions(cluster: Cluster, until_hours: float) -> Iterator[float]:
    while (hours := cluster.next_hours) < until_hours:
        yield hours
        cluster.arrive(hours)


def _kept(fleet: FleetRecord, context: JobContext, begin: float, end: float, use: Use, gpus: int) -> Kept:
    slot = context.slot(begin)
    hours = end - begin
    quote = context.quote(slot)
    charge, _ = price(BY_THE_SECOND, Meter(), slot, 0, quote, 0, gpus, hours, 0.0)
    stretch = Stretch(
        payer=f"fleet:{fleet.key}",
        use=use,
        slot=slot,
        from_hours=begin,
        to_hours=end,
        held_hours=hours,
        pool=context.market_pool.name,
        spot_gpus=0,
        on_demand_gpus=gpus,
        quote=quote,
    )
    return Kept(at_hours=end, fleet=fleet.key, priced=Priced(stretch, charge))
