"""One step of a fleet: its allocator decides when something happened that may change what it wants.

First everything that has passed is written: the stretches of jobs whose phase ended, those of all jobs when
the allocator's wake-up time has come, and what the machines cost meanwhile. So an allocator that learns
knows all of it.

Of what the allocator wants, first all jobs give up what they no longer want; then they are given what is
added, those with a hard deadline first. So what one job gives up another can have in the same decision, and
nothing is sold twice. Where workers are real, what they still hold is free only when they have gone: then the
allocator decides again.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from slacktide.allocators.site.spot import Claim
from slacktide.allocators.view import Decision, Pricing, Remembering, Sizing, Standing, Wanted
from slacktide.budget.cluster import Cluster, granted
from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, Reason
from slacktide.engine.changes import Change, Changes, Changing, Directive, lived
from slacktide.engine.fleet.cluster import being_let_go, cluster_view, kept_until, sized
from slacktide.engine.fleet.fleets import LiveFleet
from slacktide.engine.fleet.site import is_hard, kept_in, leaving, ordered, site_view
from slacktide.engine.fulfil import fulfil, fulfilment
from slacktide.engine.job.account import StretchAccount
from slacktide.engine.job.blocked_jobs import error_text
from slacktide.engine.job.job_context import JobContext
from slacktide.engine.pending_decisions import PendingDecision, whole
from slacktide.engine.step_context import StepContext
from slacktide.journal.events import ClusterSized, Event, Remembered
from slacktide.journal.state.fleet_record import FleetRecord, HeldSpan
from slacktide.journal.state.journal_state import JobRecord
from slacktide.policies.view import goes_where_it_may, stays_in


@dataclass(slots=True)
class FleetStep:
    """A fleet at one moment."""

    context: StepContext
    fleet: FleetRecord
    given: Sequence[PendingDecision]  # its jobs that must be decided about: they wait, or a slot began
    now_hours: float
    run: LiveFleet = field(init=False)
    inside: list[tuple[JobRecord, StretchAccount]] = field(init=False)
    """Its other jobs, which are inside a stretch and not being stopped, with the stretch so far."""
    leaving: list[StretchAccount] = field(init=False)
    """The stretches of jobs that are being stopped, and hold their GPUs until their workers have gone."""
    cluster: Cluster = field(init=False)  # its machines as they are now

    def __post_init__(self) -> None:
        self.run = self.context.fleets.run(self.fleet)
        given = {decision.record.job for decision in self.given}
        jobs = [job for job in self.context.members(self.fleet) if job.job not in given]
        accounts = [(job, self.context.account(job, self.now_hours)) for job in jobs]
        open_now = [(job, account) for job, account in accounts if account is not None]
        self.inside = [(job, account) for job, account in open_now if job.requests.ending is None]
        self.leaving = [account for job, account in open_now if job.requests.ending is not None]
        self.cluster = dataclasses.replace(self.fleet.cluster)
        self.cluster.arrive(self.now_hours)

    def take(self) -> Changes:
        """Decide if there is a reason to, and account for the machines."""
        if self.run.market is not None:
            yield from self._take_on_market()
            return
        wake_hours = self.fleet.began_hours + self.run.wake_hours
        woken = self.run.decided_hours < wake_hours <= self.now_hours
        over = [(job, account) for job, account in self.inside if self._enters_phase(job, account)]
        others = self.run.decided_about != self.fleet.present
        came = self.cluster.coming < self.fleet.cluster.coming
        if self.given or woken or over or others or came:
            written = yield from self._pass(self.inside if woken else over)
            fleet = self.run.fleet
            assert fleet is not None
            self.cluster.take_form(fleet.node_gpus, fleet.provisioning_hours, fleet.idle_grace_hours)
            inner = [_inner(job, account, written=job.job in written) for job, account in self.inside]
            given = [decision._replace(before=()) for decision in self.given]  # by now it is written
            yield from self._decision([*given, *inner], self.cluster).take()
        elif self._account_is_due():
            yield Change(self._kept([account for _, account in self.inside]))

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
        pending = [*self.given, *(_inner(job, account, written=False) for job, account in self.inside)]
        yield from self._decision(pending, None).take(cut=renewed or rolling)

    def _decision(self, pending: Iterable[PendingDecision], cluster: Cluster | None) -> FleetDecision:
        in_order = sorted(pending, key=lambda decision: decision.record.number)
        return FleetDecision(self.context, self.fleet, self.run, in_order, self.now_hours, cluster)

    def let_go(self) -> Changes:
        """Give all machines back once no job holds any of them: no step will look after them."""
        if self.inside or self.leaving:
            return
        events = list(self._kept(()))
        if self.cluster.rented:
            without_grace = dataclasses.replace(self.cluster, grace_hours=0.0)
            nothing = sized(self.fleet, self.now_hours, 0, without_grace)
            events += [] if nothing is None else [nothing]
        yield Change(events)

    # ---------------------------------------------------------------- what has passed

    def _enters_phase(self, job: JobRecord, account: StretchAccount) -> bool:
        """Whether a job is in another phase by now: its stretch is cut there, so each is of one phase."""
        terms, began = self.context.job_context(job).terms, job.progress.state.progress_gpu_hours
        done = account.state.progress_gpu_hours
        return self.run.phase(job, began, terms) != self.run.phase(job, done, terms)

    def _pass(self, cut: Sequence[tuple[JobRecord, StretchAccount]]) -> Changing[set[str]]:
        """Write what has passed, so that the allocator knows it; return whose stretch is over."""
        events: list[Event] = [event for decision in self.given for event in decision.before]
        working = [(job, one) for job, one in cut if one.hours > 0 and one.priced.stretch.gpus > 0]
        yield Change([*events, *(lived(job, account) for job, account in working)])
        jobs = {job.job for job, _ in working}
        yield Change(self._kept([account for job, account in self.inside if job.job not in jobs]))
        return jobs

    def _kept(self, going_on: Sequence[StretchAccount]) -> Sequence[Event]:
        """Return the events that account for the machines up to now; `going_on` are open stretches."""
        if not self.run.owns_machines:
            return ()
        spans = (account.priced.stretch for account in (*going_on, *self.leaving))
        held = [HeldSpan(span.from_hours, span.to_hours, span.on_demand_gpus) for span in spans]
        return kept_until(self.fleet, held, self._job_context, self.now_hours)

    @property
    def _job_context(self) -> JobContext:
        return self.context.jobs.named(self.fleet.first.job)

    def _account_is_due(self) -> bool:
        """Whether a slot is over since machines were accounted for, or the last of them is gone."""
        if not self.fleet.cluster.rented:
            return False
        slot = self._job_context.slot
        return not self.cluster.rented or slot(self.now_hours) > slot(self.fleet.accounted_hours)


def _inner(job: JobRecord, account: StretchAccount, *, written: bool) -> PendingDecision:
    """Return the decision about a job inside a stretch, which is cut here only if something changes."""
    before = () if written or account.hours <= 0 else (lived(job, account),)
    begun = job.begun._replace(from_hours=account.to_hours)
    return PendingDecision(job, account.state, begun, before, inside=True)


UNLIMITED_GPUS = 1 << 30


class _Given(NamedTuple):
    events: list[Event]  # empty if the job goes on unchanged
    lacks: bool = False  # whether it is less than was wanted
    gives_back: bool = False  # whether its departing workers still hold more than it is to have


@dataclass(frozen=True, slots=True)
class FleetDecision:
    """All jobs of one fleet at the moment at which they are decided about, in the order they came."""

    context: StepContext
    fleet: FleetRecord
    run: LiveFleet
    pending: Sequence[PendingDecision]
    now_hours: float
    cluster: Cluster | None
    """The machines of the fleet as they are now; None on a market, where each job rents its own."""

    def take(self, *, cut: bool = False) -> Changes:
        """Decide, and write all of it as one batch.

        With `cut`, stretches end here also of jobs that go on as they are.
        """
        fleet, run = self.fleet, self.run
        # Machines of a fleet's own stay with it when workers go, so only a market has to be held back.
        gone = fleet.spans_after(self.now_hours) if self.cluster is None else []
        with _held_back(self.context, fleet.key, gone):
            wishes, machines = self._decided_or_as_it_is()
            given = self._given_on_market(wishes) if self.cluster is None else self._given_by_cluster(wishes)
            written = [(decision, own.events) for decision, own in zip(self.pending, given, strict=True)]
            written = [(decision, events) for decision, events in written if cut or events]
            batch: list[Event] = [*remembered(fleet, run, self.now_hours), *machines]
            for decision, events in written:
                batch += [*decision.before, *events]
            orders = [Directive(decision.record, decision.taken) for decision, events in written if events]
            yield Change(batch, orders)
        run.decided_hours, run.decided_orders = self.now_hours, orders_of(self.context, fleet)
        # A fleet that forgets whom it decided about decides again: what is being given back is free then.
        short = any(gift.lacks for gift in given) and any(gift.gives_back for gift in given)
        run.decided_about = None if short else fleet.settled_at(self.now_hours)

    # ---------------------------------------------------------------- what is wanted

    def _decided_or_as_it_is(self) -> tuple[list[Allocation], list[ClusterSized]]:
        """Return what each job is to have; where the allocator fails, its jobs keep what they hold."""
        try:
            decided, why = self._decided(), ""
            for decision, wish in zip(self.pending, decided[0], strict=True):
                self._check_pool(decision, wish)
        except Exception as error:
            decided = [self._as_it_is(decision) for decision in self.pending], []
            why = f"its fleet's allocator failed: {error_text(error)}"
        for decision in self.pending:
            self.context.troubles.note(decision.record.job, "policy", why)
        return decided

    def _check_pool(self, decision: PendingDecision, wish: Allocation) -> None:
        """Raise InputError unless a wish is for pools that the job may use: without a market, its own."""
        job_context = self.context.job_context(decision.record)
        if self.cluster is None:
            goes_where_it_may(wish, job_context.pool_names, decision.record.job)
        else:
            stays_in(wish, job_context.market_pool.name, decision.record.job)

    def _decided(self) -> tuple[list[Allocation], list[ClusterSized]]:
        """Return what each job is to have, and the size of the cluster where that changes."""
        allocator, cluster = self.run.allocator, self.cluster
        if cluster is None:
            view = site_view(self.context, self.fleet, self.pending, self.context.spot, self.now_hours)
            assert view.site is not None
            pools = [pool.name for pool in view.site.pools]
            return self._wishes(allocator.decide(view), pools, view.site.jobs.pool.tolist()), []
        shown = partial(cluster_view, self.context, self.fleet, self.pending, cluster, self.now_hours)
        # Machines of jobs that are being stopped are in use until their workers have gone.
        leaving_gpus = being_let_go(self.context, self.fleet, self.now_hours)
        if isinstance(allocator, Sizing):
            wanted_gpus = allocator.rent_gpus(shown(cluster.ready))
            # They are kept in addition to those that are wanted, but none is rented for their sake.
            kept = min(cluster.nodes_for(wanted_gpus + leaving_gpus), cluster.rented)
            nodes = max(cluster.nodes_for(wanted_gpus), kept)
            machines = self._sized(cluster, nodes)
            answer = allocator.decide(shown(min(cluster.ready, nodes), leaving_gpus))
            return self._wishes(answer), machines
        wanted = self._wishes(allocator.decide(shown(cluster.ready)))
        nodes = cluster.nodes_for(sum(wish.on_demand_gpus for wish in wanted) + leaving_gpus)
        return wanted, self._sized(cluster, nodes)

    def _sized(self, cluster: Cluster, nodes: int) -> list[ClusterSized]:
        if not self.run.owns_machines:
            return []
        event = sized(self.fleet, self.now_hours, nodes, cluster)
        cluster.resize(nodes, self.now_hours)
        return [] if event is None else [event]

    def _as_it_is(self, decision: PendingDecision) -> Allocation:
        job_context = self.context.job_context(decision.record)
        # Without a market an allocator is shown what jobs hold, so that is what they keep.
        state = decision.state if self.cluster is not None else ordered(decision, job_context)
        pool = job_context.at(state.pool).market_pool.name if state.gpus else None
        return Allocation(state.spot_gpus, state.on_demand_gpus, pool, Reason("as-it-is"))

    def _wishes(
        self, answer: Decision, names: Sequence[str] = (), present: Sequence[int] = ()
    ) -> list[Allocation]:
        """Return what is wanted for each job; one that is not named keeps what it holds.

        On a market `names` are its pools, and `present` the index of each job's pool in them.
        """
        if not isinstance(answer, Wanted):
            return [answer.get(decision.record.job, self._as_it_is(decision)) for decision in self.pending]
        count, on_demand = len(self.pending), answer.on_demand_gpus
        spot = np.zeros_like(on_demand) if answer.spot_gpus is None else answer.spot_gpus
        pools = present if answer.pool is None else answer.pool.tolist()
        for column in (spot, on_demand, *([pools] if names else [])):
            if len(column) != count:
                raise InputError(
                    f"an allocator must decide about each of {count} jobs, got {len(column)} entries"
                )
        signals = {"jobs": float(count), "gpus_of_all": float(on_demand.sum() + spot.sum())}
        usual = Reason(answer.rule or self.run.name, signals)
        where = [names[pool] for pool in pools] if names else [None] * count
        rows = zip(spot.tolist(), on_demand.tolist(), where, strict=True)
        return [
            Allocation(
                gpus,
                more,
                pool if gpus + more else None,
                usual if answer.why is None else answer.why(place),
            )
            for place, (gpus, more, pool) in enumerate(rows)
        ]

    # ---------------------------------------------------------------- what is given

    def _given_by_cluster(self, wishes: Sequence[Allocation]) -> list[_Given]:
        """Give jobs what the machines of the fleet have room for."""
        assert self.cluster is not None
        leaving_gpus = being_let_go(self.context, self.fleet, self.now_hours)
        gpus = self.cluster.ready * self.cluster.node_gpus - leaving_gpus
        held = whole([decision.state.on_demand_gpus for decision in self.pending])
        wanted = whole([wish.on_demand_gpus for wish in wishes])
        widths = granted(held, wanted, gpus if self.run.owns_machines else UNLIMITED_GPUS).tolist()
        found = []
        for decision, wish, width in zip(self.pending, wishes, widths, strict=True):
            same = (wish.spot_gpus, width) == (decision.state.spot_gpus, decision.state.on_demand_gpus)
            cut = wish._replace(on_demand_gpus=width)
            found.append(_Given([] if decision.inside and same else fulfil(self.context, decision, cut)))
        return found

    def _given_on_market(self, wishes: Sequence[Allocation]) -> list[_Given]:
        """Give jobs what their pools have, those with a hard deadline before others."""
        for decision, wish in zip(self.pending, wishes, strict=True):
            _give_up(self.context, decision, wish)
        hard = [is_hard(self.context.job_context(decision.record).job) for decision in self.pending]
        order = sorted(range(len(self.pending)), key=lambda place: not hard[place])
        found = {place: _given(self.context, self.pending[place], wishes[place]) for place in order}
        return [found[place] for place in range(len(self.pending))]


def orders_of(context: StepContext, fleet: FleetRecord) -> dict[str, tuple[int, int]]:
    """Return what each job of a fleet is to hold: if that has changed, something happened to a job."""
    jobs = [job for job in context.members(fleet) if job.requests.ending is None]
    orders = (job.holding.order for job in jobs)
    return {order.job: (order.spot_gpus, order.on_demand_gpus) for order in orders if order is not None}


@contextmanager
def _held_back(context: StepContext, fleet: str, gone: Sequence[HeldSpan]) -> Iterator[None]:
    """Hold back GPUs that became free between a slot's border and this step: at the border they were used."""
    claims = [
        Claim(f"{fleet} gone {number}", span.pool, span.spot_gpus, 0.0, span.gpus)
        for number, span in enumerate(gone)
    ]
    for claim in claims:
        context.spot.hold(claim)
    yield
    for claim in claims:
        context.spot.hold(claim._replace(spot_gpus=0, on_demand_gpus=0))


def _give_up(context: StepContext, decision: PendingDecision, wish: Allocation) -> None:
    """Reduce a job's claim to what it has and still wants: the rest is there for others."""
    record, job_context = decision.record, context.job_context(decision.record)
    pool = wish.pool or job_context.at(decision.state.pool).market_pool.name
    spot, on_demand = kept_in(decision, job_context, pool)
    _claim(context, record, pool, min(spot, wish.spot_gpus), min(on_demand, wish.on_demand_gpus))
    if pool != record.held_pool:
        spot, on_demand = leaving(record, record.held_pool)
        left = Claim(f"{record.job} left", record.held_pool, spot, record.holding.spot_added_hours, on_demand)
        context.spot.hold(left)


def _claim(context: StepContext, record: JobRecord, pool: str, spot: int, on_demand: int) -> None:
    """Claim this for a job in a pool, or what its workers there still hold if that is more."""
    held = leaving(record, pool)
    context.spot.hold(
        Claim(record.job, pool, max(spot, held[0]), record.holding.spot_added_hours, max(on_demand, held[1]))
    )


def _given(context: StepContext, decision: PendingDecision, wish: Allocation) -> _Given:
    """Give a job what is available of what it wants; without events if it goes on unchanged."""
    found, record = fulfilment(context, decision, wish), decision.record
    pool, now = found.job_context.market_pool.name, (found.spot_gpus, found.on_demand_gpus)
    same = kept_in(decision, context.job_context(record), pool) == now
    events = [] if decision.inside and decision.taken is None and same else fulfil(context, decision, wish)
    _claim(context, record, pool, *now)
    held = leaving(record, record.held_pool)
    gives_back = held > (0, 0) and (record.held_pool != pool or held[0] > now[0] or held[1] > now[1])
    return _Given(events, now != (wish.spot_gpus, wish.on_demand_gpus), gives_back)


def remembered(fleet: FleetRecord, run: LiveFleet, now_hours: float) -> list[Remembered]:
    """Return the event with what an allocator knows, if it can say; on a market also when it decided."""
    allocator = run.allocator
    if not isinstance(allocator, Remembering):
        return [] if run.market is None else [Remembered(at_hours=now_hours, fleet=fleet.key, memory="")]
    memory = json.dumps(allocator.remember(), allow_nan=False)
    news = "" if memory == fleet.memory else memory
    reserved, hour = (None, None) if not isinstance(allocator, Pricing) else _prices(allocator.standing)
    return [
        Remembered(
            at_hours=now_hours, fleet=fleet.key, memory=news, reserved_usd=reserved, usd_per_job_hour=hour
        )
    ]


def _prices(standing: Standing) -> tuple[float, float | None]:
    hour = standing.usd_per_job_hour
    return standing.reserved_usd, float(hour) if np.isfinite(hour) else None
