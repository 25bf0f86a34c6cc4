"""Runs the jobs of a journal: `Engine.step` looks, decides, writes and acts; `live` calls it in a loop.

`Engine.step` neither sleeps nor reads a clock: its caller passes the time, so a test can go through a week
in milliseconds. What a step finds and decides is written to the journal before it is acted on; if the process
is killed in between, the next engine reads the same journal and does the rest. The steps themselves read a
`StepContext` and yield changes; only the engine appends events and acts on the back end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence

from slacktide.backends.base import Backend, Preemptable, RentsMachines
from slacktide.core.errors import BackendError, LeaseError
from slacktide.core.types import TIME_TOLERANCE_HOURS, Order
from slacktide.core.units import format_count
from slacktide.engine.changes import Change
from slacktide.engine.clock import Clock
from slacktide.engine.failures_and_ends import has_no_trace, vanished
from slacktide.engine.fleet.admission import check_admitted
from slacktide.engine.fleet.decide import FleetStep
from slacktide.engine.fleet.fleets import LiveFleet, class_of, open_fleet
from slacktide.engine.holding import note_held
from slacktide.engine.job.availability import SpotSeen
from slacktide.engine.job.blocked_jobs import error_text
from slacktide.engine.job.job_context import JobContext, context_of
from slacktide.engine.job.journal_market import digest_now
from slacktide.engine.job.launch_spec import launch_of
from slacktide.engine.step import take_step
from slacktide.engine.step_context import StepContext, claims
from slacktide.journal.events import ClockJumped, Event, FeedTroubled, Record, SiteOpened, Submitted
from slacktide.journal.state.fleet_record import key_of
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.state.snapshots import is_due, keep, known
from slacktide.journal.state.tickets import Fact, Tickets
from slacktide.journal.store.base import Store

STEPS_A_SLOT = 3  # a fast market clock waits for this many steps in each slot, so that none is missed


class Engine:
    """Runs the jobs of one journal on one back end."""

    def __init__(
        self,
        store: Store,
        backend: Backend,
        *,
        open_job: Callable[[Submitted], JobContext] = context_of,
        open_fleet: Callable[[Submitted], LiveFleet] = open_fleet,
        notice_s: float = 0.0,
        state: JournalState | None = None,
    ) -> None:
        """Read the journal, or go on from the `state` that was already read from it.

        `notice_s` is how long workers are warned before the market takes them.
        """
        self.state = known(store) if state is None else state
        self.store, self.backend = store, backend
        self.context = StepContext(self.state, store, backend, open_job, open_fleet)
        """What steps read."""
        self._notice_s = notice_s
        self._behind = False
        self._acted: set[str] = set()
        """The jobs whose order was carried out in this step."""
        self._stepped_hours = math.inf
        self._kept_seq = self.state.seq
        self._spot_seen: SpotSeen | None = None
        """What rented and refused machines showed about spot; None until a feed with prices only needs it."""
        self.read_on()

    # ---------------------------------------------------------------- what others may call

    def submit(self, submitted: Submitted) -> JobContext:
        """Accept a job, and write it to the journal if it can run here; the first one fixes all jobs' market.

        Raises InfeasibleError if the allocator of its fleet cannot promise what its file demands.
        """
        self._forget()
        jobs = self.context.jobs
        job_context = jobs.add(submitted)
        try:
            complete = _completed(submitted, job_context)
            if complete.fleet:
                check_admitted(self.context, complete)
            # The back end may still refuse it, so it gets the job before the journal does.
            self.backend.enter(launch_of(submitted.job, job_context.file))
            self.write([*self._opening(submitted, job_context), complete])
        except BaseException:
            jobs.drop(submitted.job)
            if submitted.fleet and key_of(submitted) not in self.state.fleets:
                self.context.fleets.forget(key_of(submitted))
            raise
        return job_context

    def recover(self) -> None:
        """Compare the journal with what the back end really runs: adopt what it explains, end the rest."""
        self.retry(all_jobs=True)
        self.backend.sweep(_orders(self.context.jobs.able()))
        self._restart_vanished()
        for order in _orders(self.context.jobs.able()):
            self.backend.hold(order)

    def retry(self, *, all_jobs: bool = False) -> None:
        """Try again to open the market and file of each blocked job and to prepare the start of its workers.

        With `all_jobs`, do so for all unended jobs. An error blocks only the job in which it happens.
        """
        troubles = self.context.troubles
        stuck = {*troubles.having("market"), *troubles.having("launch")}
        for record in self.state.active:
            if all_jobs or record.job in stuck:
                troubles.note(record.job, "market", _trouble_in(self.context.job_context, record))
                if record.job in self.context.jobs:
                    troubles.note(record.job, "launch", _trouble_in(self._enter, record))

    def step(self, now_hours: float) -> None:
        """Do everything that is due at this time of the market clock."""
        self.read_on()
        now, active = self._forward(now_hours), self.context.jobs.able()
        self._teach_feeds()
        self.context.gaps.append(now - min(self._stepped_hours, now))
        self._stepped_hours = now
        for order in _orders(active):
            # Orders may be repeated, so one that was written but not carried out is carried out here.
            self.backend.hold(order)
        self.context.facts = self.backend.look(self.state.unended)
        self.context.spot = self.context.spot_at(now)
        self._acted.clear()
        self.perform(take_step(self.context, active, now))
        self._see_what_came(now)
        self._note_troubles(now)
        if is_due(self.state, self._kept_seq):
            self.keep()

    def release(self) -> None:
        """Stop all workers from the next step on, but keep the jobs; `idle` says when that is done."""
        self.context.releasing = True

    def abandon(self) -> None:
        """Stop all workers without writing to the journal; the next controller will see them gone."""
        for order in _orders(self.state.active):
            self.backend.hold(order._replace(ending=True))

    @property
    def idle(self) -> bool:
        """Whether no machine is rented and all unended jobs are released, or blocked without workers."""
        if isinstance(self.backend, RentsMachines) and self.backend.rented:
            return False
        return all(
            self.context.status(record.job).gone
            if self.context.troubles.has(record.job, "market")
            else record.requests.released
            for record in self.state.active
        )

    @property
    def most_hours(self) -> float:
        """How many market hours may pass between two steps without missing a slot."""
        slots = (self.state.jobs[job].submitted.slot_hours for job in self.state.unended)
        return min(slots, default=math.inf) / STEPS_A_SLOT

    def close(self) -> None:
        """Give back the machines of fleets whose jobs have all ended."""
        for fleet in list(self.state.fleets.values()):
            if not fleet.present:
                now_hours = max(self.state.now_hours, fleet.accounted_hours)
                self.perform(FleetStep(self.context, fleet, (), now_hours).let_go())

    def read_on(self) -> None:
        """Read what other processes have appended to the journal."""
        self._take_in(self.store.read(after=self.state.seq))

    def write(self, events: Sequence[Event]) -> None:
        """Append events, all or none, and apply them to the state."""
        records = self.store.append(events)
        if records and records[0].seq == self.state.seq + 1:
            self._take_in(records)
        else:  # another process appended a request in between
            self.read_on()
        for job in {event.job for event in events} & self.state.jobs.keys():
            for claim in claims(self.state.jobs[job]):
                self.context.spot.hold(claim)

    def perform(self, changes: Iterable[Change]) -> None:
        """Append and carry out what a step yields, one change after the other.

        Each is written before it is acted on: after a crash in between, the next engine repeats its orders.
        """
        for change in changes:
            self.write(change.events)
            for record, spot_left, order in change.directives:
                if spot_left is not None and isinstance(self.backend, Preemptable):
                    self.backend.take(record.job, spot_left, self._notice_s)
                self.backend.hold(record.order if order is None else order)
                self._acted.add(record.job)

    def keep(self) -> None:
        """Leave a snapshot in the journal, so that the next reader need not read all events."""
        keep(self.store, self.state)
        self._kept_seq = self.state.seq

    # ---------------------------------------------------------------- its own

    def _forget(self) -> None:
        """Free the memory that jobs take which ended long ago, because a controller may run for months."""
        self.context.jobs.drop_ended()
        for job in self.context.reports.keys() - set(self.state.unended):
            del self.context.reports[job]

    def _enter(self, record: JobRecord) -> None:
        worked, file = record.progress.state.progress_gpu_hours > 0, self.context.job_context(record).file
        self.backend.enter(launch_of(record.job, file, worked=worked))

    def _restart_vanished(self) -> None:
        """Restart jobs whose workers were running by the journal, but of which the back end has no trace."""
        facts = self.backend.look(self.state.unended)
        for record in self.context.jobs.able():
            order, held = record.holding.order, record.holding.held
            if order is None or order.ending or held is None or not held.gpus:
                continue
            if record.holding.held_attempt == order.attempt and has_no_trace(order, facts[record.job]):
                self.write(vanished(record, order))

    def _teach_feeds(self) -> None:
        """Tell feeds that report only prices what rented and refused machines have shown about spot."""
        for feed in [feed for feed in self.context.jobs.feeds() if feed.is_uncounted]:
            if self._spot_seen is None:
                self._spot_seen = SpotSeen()
                for record in self.store.read(job=""):
                    self._spot_seen.apply(record)
            feed.learn(self._spot_seen.pools)

    def _note_troubles(self, now_hours: float) -> None:
        for record in self.state.active:
            self.context.troubles.note(record.job, "machine", self.context.status(record.job).trouble)
        news = self.context.troubles.news(self.state.active, now_hours)
        trouble = next((feed.trouble for feed in self.context.jobs.feeds()), "")
        if trouble != self.state.feed_trouble:
            news.append(FeedTroubled(at_hours=now_hours, why=trouble))
        if news:
            self.write(news)

    def _see_what_came(self, now_hours: float) -> None:
        """Note which of the GPUs ordered in this step are there already: they are paid for from now on."""
        acted = [record for record in self.state.active if record.job in self._acted]
        seen = [record for record in acted if record.holding.begun is not None]
        if seen:
            now = self.backend.look([record.job for record in seen])
            self.context.facts = {**self.context.facts, **now}
        for record in seen:
            self.perform(note_held(self.context, record, max(now_hours, record.begun.from_hours)))

    def _take_in(self, records: Iterable[Record]) -> None:
        for record in records:
            self.state.apply(record)
            self.context.fleets.apply(record)
            if self._spot_seen is not None:
                self._spot_seen.apply(record)

    def _opening(self, submitted: Submitted, job_context: JobContext) -> list[Event]:
        """Return the event that names the market of all jobs, unless the journal has one."""
        if self.state.site is not None:
            return []
        slot, market = job_context.start_slot, submitted.market
        start_utc, begins = job_context.market_pool.time(slot).isoformat(), job_context.begins(slot)
        digest = digest_now(market, start_utc) if market else ""
        return [SiteOpened(at_hours=begins, market=market, start_utc=start_utc, digest=digest)]

    def _forward(self, now_hours: float) -> float:
        """Return the market time, which never goes back; write an event when the clock does."""
        latest = self.state.now_hours
        if now_hours < latest - TIME_TOLERANCE_HOURS and self.state.active:
            why = "the clock went back; market time stops until the clock has caught up"
            if not self._behind:
                self.write([ClockJumped(at_hours=latest, from_hours=now_hours, why=why)])
            self._behind = True
            return latest
        self._behind = False
        return max(now_hours, latest)


def _orders(records: Iterable[JobRecord]) -> list[Order]:
    orders = (record.holding.order for record in records)
    return [order for order in orders if order is not None]


def _completed(submitted: Submitted, job_context: JobContext) -> Submitted:
    """Return a submission with the fields that lists of jobs show, so that lists need not read job files."""
    job = job_context.job
    complete = dataclasses.replace(
        submitted, work_gpu_hours=job.work_gpu_hours, deadline_hours=job.deadline_hours
    )
    return dataclasses.replace(complete, fleet_class=class_of(complete)) if complete.fleet else complete


def _trouble_in(try_it: Callable[[JobRecord], object], record: JobRecord) -> str:
    try:
        try_it(record)
    except Exception as error:
        return error_text(error)
    return ""


class EngineMachineLog:
    """Writes a back end's machine events through its engine, so that the journal has only one writer."""

    def __init__(self, engine: Callable[[], Engine]) -> None:
        """Name the engine, which is made after its back end."""
        self._engine = engine

    def note(self, *facts: Fact) -> None:
        """Append facts to the journal, all or none; raises BackendError when it cannot be written to."""
        self._engine().write(facts)

    def tickets(self) -> Tickets:
        """Return the tickets as the journal has them."""
        return self._engine().state.tickets


POLL_S = 0.05
PATIENCE_S = 30.0
"""A disk that is full or a machine that cannot start processes may recover; after this long we give up."""
LETTING_GO_S = 60.0
GIVING_BACK_S = 15.0  # how long giving machines back may take before a complaint


def live(
    engine: Engine,
    clock: Clock,
    *,
    between: Callable[[], None] = lambda: None,
    over: Callable[[], bool] = lambda: True,
    show: Callable[[float], None] = lambda now_hours: None,
    stopping: Callable[[], bool] = lambda: False,
    complain: Callable[[BackendError], None] = lambda error: None,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
    poll_s: float = POLL_S,
) -> None:
    """Step the engine until all jobs have ended and `over` is true, or `stopping` is and no worker is left.

    `between` is called after each step. When the journal or the machine fails, nothing is decided and the
    step is tried again; if that lasts longer than PATIENCE_S, or anything else goes wrong, the workers are
    stopped and the error is raised.
    """
    trouble: float | None = None
    giving_back = GivingBack(engine, complain, monotonic)
    try:
        while True:
            if stopping():
                engine.release()
            now = clock.step(engine.most_hours)
            try:
                engine.step(now)
                between()
                trouble = None
            except LeaseError:
                raise  # another process may be in charge, so waiting is useless
            except BackendError as error:
                if trouble is None:
                    trouble = monotonic()
                    complain(error)
                if monotonic() - trouble > PATIENCE_S:
                    raise
                sleep(1.0)
                continue
            show(now)
            giving_back.watch()
            if engine.idle and (stopping() or over()):
                return
            sleep(poll_s)
    except BaseException:
        _let_go(engine, sleep, monotonic)
        raise


class GivingBack:
    """Complains once if all jobs have ended and their machines cannot be given back."""

    def __init__(
        self, engine: Engine, complain: Callable[[BackendError], None], monotonic: Callable[[], float]
    ) -> None:
        self._engine, self._complain, self._monotonic = engine, complain, monotonic
        self._since: float | None = None

    def watch(self) -> None:
        """Complain if rented machines are all that has been left for longer than GIVING_BACK_S."""
        backend = self._engine.backend
        if self._engine.state.active or not isinstance(backend, RentsMachines) or not backend.rented:
            self._since = None
        elif self._since is None:
            self._since = self._monotonic()
        elif self._monotonic() - self._since > GIVING_BACK_S:
            self._since = math.inf
            rented = format_count(backend.rented, "machine")
            why = backend.renting_trouble or "their provider still lists them"
            self._complain(BackendError(f"{rented} must be given back before the end, got: {why}; waiting"))


def _let_go(engine: Engine, sleep: Callable[[float], None], monotonic: Callable[[], float]) -> None:
    """Stop all workers without writing to the journal, and wait until they are gone, at most LETTING_GO_S."""
    engine.abandon()
    jobs = [order.job for order in _orders(engine.state.active)]
    until = monotonic() + LETTING_GO_S
    while monotonic() < until:
        with contextlib.suppress(BackendError):  # what could not be ended now is tried again
            if all(facts.gone for facts in engine.backend.look(jobs).values()):
                return
        sleep(POLL_S)
