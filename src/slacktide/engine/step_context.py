"""What a step may read: the journal's state, what the back end reported, and what each job and pool has.

A step changes nothing in the journal and orders nothing: it yields changes, which the engine appends and
carries out. What it notes here (claims on spot, troubles, reports) is lost when the process ends.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median_low

from slacktide.allocators.site.spot import Claim, Spot
from slacktide.backends.base import Backend, BackendStatus, Bounded, PoolRoom
from slacktide.core.types import JobState, Order
from slacktide.engine.fleet.fleets import LiveFleet, LiveFleets
from slacktide.engine.job.account import StretchAccount, account
from slacktide.engine.job.blocked_jobs import Troubles
from slacktide.engine.job.job_context import JobContext, JobContexts
from slacktide.engine.pending_decisions import PendingDecision, believed_of
from slacktide.journal.events import Submitted
from slacktide.journal.state.fleet_record import FleetRecord
from slacktide.journal.state.journal_state import NOTHING, Begun, Holding, JobRecord, JournalState
from slacktide.journal.store.base import Store
from slacktide.physics.pace import Pace, prior
from slacktide.physics.tariff import lasts_hours

STEPS_IN_RESERVE = 2  # the end of a job may be noticed one or two steps late
GAPS_KEPT = 5
NO_STATUS = BackendStatus()


@dataclass(slots=True)
class WorkerReports:
    """What one set of workers has reported."""

    attempt: int
    ordered_hours: float
    """When it was ordered; infinite if it had reported before this process looked: no start is measured."""
    at_hours: float = -math.inf
    """The last report that its pace was measured up to; minus infinity before its first report."""
    done_gpu_hours: float = 0.0
    saved_share: float = 0.0
    saved_hours: float = math.inf  # when it saved last; infinite before it did
    intervals: list[float] = field(default_factory=list)
    """Hours between checkpoints from which the job's pace was not updated yet."""


class StepContext:
    """Everything that a step reads."""

    def __init__(
        self,
        state: JournalState,
        store: Store,
        backend: Backend,
        open_job: Callable[[Submitted], JobContext],
        open_fleet: Callable[[Submitted], LiveFleet],
    ) -> None:
        self.state = state
        self.facts: Mapping[str, BackendStatus] = {}
        """What the back end reported at the last step."""
        self.spot = Spot()
        """Who holds spot now."""
        self.troubles = Troubles()
        """What blocks single jobs."""
        self.reports: dict[str, WorkerReports] = {}
        """What the present workers of each job have reported."""
        self.releasing = False
        """Whether all workers are to be stopped, because the controller stops."""
        self.gaps: deque[float] = deque([0.0], maxlen=GAPS_KEPT)
        """The times between the last steps, on the market's clock."""
        self.jobs = JobContexts(state, open_job, self.troubles)
        self.fleets = LiveFleets(store, state, lambda record: self.job_context(record).terms, open_fleet)
        self._backend = backend

    def job_context(self, record: JobRecord) -> JobContext:
        """Return a job's context in the pool to which its workers were ordered, or where it was last."""
        return self.jobs.of(record)

    def members(self, fleet: FleetRecord) -> list[JobRecord]:
        """Return the jobs of a fleet that have not ended."""
        return [self.state.jobs[name] for name in fleet.present]

    def status(self, job: str) -> BackendStatus:
        """Return what the back end reported of a job; an empty status where it reported nothing."""
        return self.facts.get(job, NO_STATUS)

    def stop_hours(self, job: str) -> float:
        """Return how long it may take until the workers of a job have ended."""
        return self._backend.stop_hours(job)

    def capacity(self, pool: str) -> PoolRoom:
        """Return how much the machines of a pool can give, whatever its market offers."""
        return self._backend.room(pool) if isinstance(self._backend, Bounded) else PoolRoom()

    def spot_at(self, now_hours: float) -> Spot:
        """Return which job holds which spot at this market time, by what was ordered and what has come."""
        able = self.jobs.able()
        contexts = map(self.job_context, able) if isinstance(self._backend, Bounded) else ()
        return Spot(
            (claim for record in able for claim in claims(record)),
            scarce_spot(contexts, self.capacity, now_hours),
        )

    def account(self, record: JobRecord, now_hours: float) -> StretchAccount | None:
        """Return what a job's open stretch has done and cost so far; None if it has none or no market."""
        if record.holding.begun is None or self.troubles.has(record.job, "market"):
            return None
        until = min(now_hours, self.job_context(record).begins(record.begun.slot + 1))
        return self.account_at(record, max(until, record.begun.from_hours))

    def account_at(self, record: JobRecord, to_hours: float) -> StretchAccount:
        """Return what a job's open stretch has done and cost until a moment of its slot."""
        return account(self.job_context(record), record, self.status(record.job), to_hours)

    def lasting(self, record: JobRecord, state: JobState, begun: Begun, order: Order) -> Order:
        """Return an order that ends early enough for all workers to be gone before the job's money is spent.

        The reserve pays for the time that stopping may take, for everything that is or will be held, at the
        highest prices so far. The order of a job that stops at its deadline ends there at the latest.
        """
        context = self.job_context(record).named(order.pool)
        if math.isinf(context.job.money_usd):
            return order._replace(until_hours=context.stops_hours)
        stop_hours = self.stop_hours(record.job)
        if self.status(record.job).finished is not None:
            # The median, because a machine that slept once is no measure of the steps to come.
            stop_hours += STEPS_IN_RESERVE * median_low(self.gaps)
        spot, on_demand = record.most(order)
        rest_hours = context.begins(begun.slot + 1) - begun.from_hours
        left_usd = context.job.money_usd - state.cost_usd - (context.move_usd(state) if order.gpus else 0.0)
        lasts = lasts_hours(
            context.tariff, record.money.meter, begun.slot, context.here, begun.quote, spot, on_demand,
            left_usd, rest_hours, stop_hours, context.worst_quote(begun.slot),
        )  # fmt: skip
        return order._replace(until_hours=min(begun.from_hours + lasts, context.stops_hours))

    def next_attempt(self, record: JobRecord) -> int:
        """Return a number that no set of workers of a job has ever had."""
        return max(record.holding.attempt, self.status(record.job).newest_attempt) + 1

    def belief(self, decision: PendingDecision) -> Pace:
        """Return the pace that decisions assume for a job.

        A job of a fleet in a dry run has the pace of its file, as it has in a simulation.
        """
        context, record = self.job_context(decision.record), decision.record
        unmeasured = record.fleet and decision.pace is None and record.progress.pace is None
        real = self.status(record.job).finished is not None
        if unmeasured and real and self.fleets.shares_market(record):
            return prior(context.job.work_spread)
        return believed_of(context, decision)


def claims(record: JobRecord) -> list[Claim]:
    """Return a job's claims: what it holds or has ordered, and what is not gone yet in a pool it left."""
    order, added = record.holding.order, record.holding.spot_added_hours
    held, left = record.holding.held or NOTHING, NOTHING  # it is still there, though less was ordered
    if order is None:
        own = Claim(record.job, "", 0, added)
    else:
        most = record.most(order)
        if held.gpus and record.held_pool != order.pool:
            most, left = Holding(order.spot_gpus, order.on_demand_gpus), held
        own = Claim(record.job, order.pool, most.spot_gpus, added, most.on_demand_gpus)
    if not record.submitted.pools:
        return [own]
    gone = Claim(f"{record.job} left", record.held_pool, left.spot_gpus, added, left.on_demand_gpus)
    return [own, gone]


def scarce_spot(
    contexts: Iterable[JobContext], capacity: Callable[[str], PoolRoom], now_hours: float
) -> dict[str, int]:
    """Return, by pool, how many of the spot GPUs that the market offers now no machine can give."""
    found: dict[str, int] = {}
    for context in contexts:
        for pool in context.pool_names:
            room = math.inf if pool in found else capacity(pool).spot_gpus
            if math.isfinite(room):
                offered = context.named(pool).quote(context.slot(now_hours)).spot_gpus
                found[pool] = max(0, offered - int(room))
    return found
