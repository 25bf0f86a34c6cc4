"""What the allocator of a fleet on demand is shown: its machines, and all jobs at one moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from slacktide.allocators.view import FleetView, JobColumns
from slacktide.budget.cluster import Cluster
from slacktide.engine.fleet.fleets import LiveFleet
from slacktide.engine.pending_decisions import PendingDecision, Shown, columns, whole
from slacktide.engine.step_context import StepContext
from slacktide.journal.state.fleet_record import FleetRecord


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterView:
    """A fleet as its allocator is shown it."""

    context: StepContext
    fleet: FleetRecord
    run: LiveFleet
    pending: Sequence[PendingDecision]
    cluster: Cluster
    now_hours: float

    def view(self, ready_nodes: int, leaving_gpus: int = 0) -> FleetView:
        """Return the view in which this many nodes can be used, but for GPUs in use by workers that leave."""
        record, cluster, held = (
            self.fleet,
            self.cluster,
            sum(decision.state.gpus for decision in self.pending),
        )
        owns = self.run.owns_machines
        return FleetView(
            now_hours=self.now_hours - record.began_hours,
            fleet=self.run.fleet,
            jobs=self._columns(),
            due=range(len(self.pending)),
            ready_gpus=max(0, ready_nodes * cluster.node_gpus - leaving_gpus) if owns else held,
            rented_gpus=cluster.rented * cluster.node_gpus if owns else held,
            spent_gpu_hours=record.spent_gpu_hours + sum(map(_open_gpu_hours, self.pending)),
            spot=self.context.spot,
            shown=Shown(self.pending, self.context.job_context),
        )

    def _columns(self) -> JobColumns:
        jobs, plain = (
            [decision.record for decision in self.pending],
            columns(self.pending, self.context.job_context),
        )
        return plain._replace(
            ids=whole([job.number for job in jobs]),
            kind=whole([self.run.kind(job) for job in jobs]),
            number=whole([job.number_of_class for job in jobs]),
            phase=whole([self._phase(decision) for decision in self.pending]),
            submitted_hours=plain.submitted_hours - self.fleet.began_hours,
            work_gpu_hours=plain.work_gpu_hours if self.run.knows_sizes else None,
        )

    def _phase(self, decision: PendingDecision) -> int:
        terms = self.context.job_context(decision.record).terms
        return self.run.phase(decision.record, decision.state.progress_gpu_hours, terms)


def _open_gpu_hours(decision: PendingDecision) -> float:
    """Return what a job has been rented in a stretch that is not written yet."""
    if not decision.inside or decision.record.holding.begun is None or decision.record.holding.order is None:
        return 0.0
    return decision.record.holding.order.gpus * max(
        0.0, decision.begun.from_hours - decision.record.holding.begun.from_hours
    )


def being_let_go(context: StepContext, fleet: FleetRecord, now_hours: float) -> int:
    """Return the GPUs that are in use by workers on their way out, or that went only after this moment."""
    jobs = (context.state.jobs[name] for name in fleet.present)
    gone = [
        job.holding.order.on_demand_gpus
        for job in jobs
        if job.requests.ending is not None and job.holding.order is not None
    ]
    return sum(gone) + fleet.held_after(now_hours)
