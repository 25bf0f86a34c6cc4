"""One step of a fleet: its allocator decides when something happened that may change what it wants.

Before that all that has passed is written: the stretches of jobs whose phase ended, those of all jobs when
the allocator set itself a wake-up time, and what the machines cost meanwhile. So an allocator that learns
knows all of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from slacktide.budget.cluster import Cluster
from slacktide.core.types import TIME_TOLERANCE_HOURS, JobState
from slacktide.engine.changes import Change, Changes, Changing
from slacktide.engine.event_builders import lived
from slacktide.engine.fleet.decide import FleetDecision, orders_of
from slacktide.engine.fleet.fleets import LiveFleet
from slacktide.engine.fleet.machines import kept_until, sized
from slacktide.engine.job.account import StretchAccount
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.pending_decisions import PendingDecision
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import Event
from slacktide.journal.state.fleet_record import FleetRecord, HeldSpan
from slacktide.journal.state.journal_state import JobRecord


class Inside(NamedTuple):
    """A job in the middle of a stretch, and the stretch so far."""

    record: JobRecord
    one: StretchAccount
    phase: int


@dataclass(slots=True)
class FleetStep:
    """A fleet at one moment."""

    context: StepContext
    fleet: FleetRecord
    run: LiveFleet
    given: Sequence[PendingDecision]  # its jobs that must be decided about: they wait, or a slot began
    now_hours: float
    inside: list[Inside] = field(init=False)  # its other jobs
    cluster: Cluster = field(init=False)  # its machines as they are now

    def __post_init__(self) -> None:
        given = {decision.record.job for decision in self.given}
        jobs = [self.context.state.jobs[name] for name in self.fleet.present if name not in given]
        self.inside = [each for each in map(self._inside, jobs) if each is not None]
        self.cluster = dataclasses.replace(self.fleet.cluster)
        self.cluster.arrive(self.now_hours)

    def take(self) -> Changes:
        """Decide if there is reason to; see that the machines are accounted for."""
        if self.run.market is not None:
            yield from self._take_on_market()
            return
        wake_hours = self.fleet.began_hours + self.run.wake_hours
        woken = self.run.decided_hours < wake_hours <= self.now_hours
        over = [
            each for each in self.inside if each.phase != self._phase(each.record, each.record.progress.state)
        ]
        others = self.run.decided_about != self.fleet.present
        came = self.cluster.coming < self.fleet.cluster.coming
        if self.given or woken or over or others or came:
            written = yield from self._pass(self.inside if woken else over)
            fleet = self.run.fleet
            assert fleet is not None
            self.cluster.take_form(fleet.node_gpus, fleet.provisioning_hours, fleet.idle_grace_hours)
            inner = [_inner(each, each.record.job in written) for each in self.inside]
            given = [decision._replace(before=()) for decision in self.given]  # by now it is written
            yield from self._decision([*given, *inner], self.cluster).take()
        elif self._account_is_due():
            yield Change.of(self._kept(self.inside))

    def _take_on_market(self) -> Changes:
        """Decide when a job came or went, or holds something else; when a slot began; when money is renewed.

        At a renewal all stretches end, so that what they cost is known to be of the period that is over.
        """
        run, orders = self.run, orders_of(self.context, self.fleet)
        since = run.renewed_hours(self.fleet, self.now_hours)
        renewed = run.decided_hours < since - TIME_TOLERANCE_HOURS
        others = run.decided_about != self.fleet.present or run.decided_orders not in (None, orders)
        if not (self.given or self.inside) or not (self.given or others or renewed):
            return
        rolling = run.allowance.renewal == "rolling"  # when which part was spent matters to the minute
        pending = [*self.given, *(_inner(each, written=False) for each in self.inside)]
        yield from self._decision(pending, None).take(cut=renewed or rolling)

    def _decision(self, pending: Iterable[PendingDecision], cluster: Cluster | None) -> FleetDecision:
        in_order = sorted(pending, key=lambda decision: decision.record.number)
        return FleetDecision(self.context, self.fleet, self.run, in_order, self.now_hours, cluster)

    def let_go(self) -> Changes:
        """Give all machines back once no job holds any of them: no step will look after them."""
        if self.inside or self._letting_go():
            return
        events = list(self._kept(()))
        if self.cluster.rented:
            without_grace = dataclasses.replace(self.cluster, grace_hours=0.0)
            nothing = sized(self.fleet, self.now_hours, 0, without_grace)
            events += [] if nothing is None else [nothing]
        yield Change.of(events)

    # ---------------------------------------------------------------- what has passed

    def _inside(self, job: JobRecord) -> Inside | None:
        """Return a job in the middle of its stretch; None where it is in none, or is being let go."""
        one = self.context.account(job, self.now_hours)
        if one is None or job.requests.ending is not None:
            return None
        return Inside(job, one, self._phase(job, one.state))

    def _phase(self, job: JobRecord, state: JobState) -> int:
        """Return the phase of a job; its stretches are cut where one ends, so they are of one phase."""
        return self.run.phase(job, state.progress_gpu_hours, self.context.job_context(job).terms)

    def _pass(self, cut: Sequence[Inside]) -> Changing[set[str]]:
        """Write what has passed, so that the allocator knows it; return whose stretch is over."""
        events: list[Event] = [event for decision in self.given for event in decision.before]
        working = [each for each in cut if each.one.hours > 0 and each.one.priced.stretch.gpus > 0]
        yield Change.of([*events, *(lived(each.record, each.one) for each in working)])
        jobs = {each.record.job for each in working}
        yield Change.of(self._kept([each for each in self.inside if each.record.job not in jobs]))
        return jobs

    def _kept(self, going_on: Sequence[Inside]) -> Sequence[Event]:
        """Account for the machines up to now, next to the jobs whose stretches are not over."""
        if not self.run.owns_machines:
            return ()
        held = [_span(each.one) for each in going_on] + [_span(one) for one in self._letting_go()]
        return kept_until(self.fleet, held, self._job_context, self.now_hours)

    def _letting_go(self) -> list[StretchAccount]:
        """Return the stretches of jobs that are being let go, and hold what they hold until it is gone."""
        jobs = (self.context.state.jobs[name] for name in self.fleet.present)
        found = (self.context.account(job, self.now_hours) for job in jobs if job.requests.ending is not None)
        return [one for one in found if one is not None]

    @property
    def _job_context(self) -> JobContext:
        return self.context.jobs.named(self.fleet.first.job)

    def _account_is_due(self) -> bool:
        """Whether a slot is over since machines were accounted for, or the last of them is gone."""
        if not self.fleet.cluster.rented:
            return False
        slot = self._job_context.slot
        return not self.cluster.rented or slot(self.now_hours) > slot(self.fleet.accounted_hours)


def _inner(each: Inside, written: bool) -> PendingDecision:
    """Say where a job stands in the middle of a stretch, which is cut here only if something changes."""
    begun, one = each.record.holding.begun, each.one
    assert begun is not None
    before = () if written or one.hours <= 0 else (lived(each.record, one),)
    return PendingDecision(
        each.record, one.state, begun._replace(from_hours=one.to_hours), before, inside=True
    )


def _span(one: StretchAccount) -> HeldSpan:
    stretch = one.priced.stretch
    return HeldSpan(stretch.from_hours, stretch.to_hours, stretch.on_demand_gpus)
