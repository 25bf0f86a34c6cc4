"""The controller of a journal: takes its lease, runs its jobs with the engine, and answers requests."""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from slacktide.app.jobs.accept_submissions import FilesRead, Intake, active_of
from slacktide.app.jobs.submission import Defaults, Submission
from slacktide.app.journal.journal import Journal
from slacktide.backends.base import BackendPlace, backends
from slacktide.backends.base import RentsMachines as RentingBackend
from slacktide.core.errors import BackendError, InputError
from slacktide.engine.clock import Clock, jumped_wall, resumed_hours, slowed_down
from slacktide.engine.engine import STEPS_A_SLOT, Engine
from slacktide.engine.job.journal_market import check_resumable, make_journal
from slacktide.engine.job.launch_spec import secrets_of
from slacktide.engine.job.machine_log import EngineMachineLog
from slacktide.engine.loop import POLL_S, live
from slacktide.journal.events import ClockSet, Closed, Event, JournalMade, Opened, Record
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.base import Store
from slacktide.journal.store.env_values import job_values, values_of
from slacktide.journal.store.lease import JournalLease
from slacktide.journal.store.real_path import machine_files_of, real_path, runs_of
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.policies.selection.policy_set import fresh
from slacktide.policies.selection.state_file import LearnedStateFile, default_path

if TYPE_CHECKING:
    from slacktide.app.alerts.alerting import Alerting
    from slacktide.app.alerts.hook import AlertsFile
    from slacktide.app.alerts.outbox import HookStatus
    from slacktide.providers.renting import Renting

DEFAULT_BACKEND = "local"
RENTING_BACKEND = "ray"
RETRY_S = 2.0  # how often to retry what keeps a job from going on


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How a controller is to run jobs."""

    speed: float | None = None
    """How many times as fast as the wall's the market's clock runs; None: 1, or as before."""
    notice_s: float = 0.0  # how long before a loss of spot GPUs their workers are notified
    backend: str | None = None
    """None: the one that unfinished jobs run on, or `local`, or `ray` where machines are rented."""
    machines: Path | None = None
    """The machines file to rent by; None: the one by which machines are rented already, or none."""
    learned: Path | None = None  # where the learner keeps what it knows; None: in the user's folder
    defaults: Defaults = field(default_factory=Defaults)  # what requests leave open
    alerts: AlertsFile | None = None  # the hooks that receive alerts; None: there are none
    dashboard: str = ""  # where browsers find the server, for links in alerts; empty: there is none


class Controller:
    """Runs the jobs of a journal, those of its own process and those that other processes submit.

    Raises LeaseError when the journal has a controller already.
    """

    def __init__(self, journal: Path, setup: Setup | None = None) -> None:
        """Name the journal; its lease is taken when the block begins."""
        self.path = real_path(journal)
        self._setup = setup or Setup()
        self._learned = LearnedStateFile(self._setup.learned or default_path(), fresh)
        self._values = values_of(self.path)
        self._seen_seq, self._learned_seq = 0, 0
        self._lessons: frozenset[str] = frozenset()
        """Jobs that had nothing to teach: those that were cancelled, failed, or outlived their market."""
        self._retry_at = 0.0
        self._alerting: Alerting | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._lease = stack.enter_context(JournalLease(self.path))
            self.store: Store = stack.enter_context(SqliteStore(self.path))
            make_journal(self.store)
            state = read_state(self.store)
            check_resumable(state)
            self.journal_id = state.id or self._named_late(state)
            self.opened_seq = state.seq
            self.clock = self._first_clock(state)
            machines = self._machines_path(state)
            name, files = self._backend_name(state, rents=bool(machines)), FilesRead()
            backend = backends.make({name: {"place": self._place(machines)}})
            stack.callback(backend.close)
            notice_s = self._setup.notice_s
            self.engine = Engine(
                self.store, backend, open_job=files.job_context, notice_s=notice_s, state=state
            )
            if machines and not isinstance(backend, RentingBackend):
                raise InputError(
                    f"machines must be rented with a back end that can, such as {RENTING_BACKEND}, got "
                    f"{name}; leave out --machines, or name another --backend"
                )
            self._intake = Intake(self.engine, self.clock, self._learned, files, self._values)
            self.engine.write([self._opened(name, machines)])
            self.engine.recover()
            if self._setup.alerts is not None:
                from slacktide.app.alerts.alerting import Alerting

                alerting = Alerting(self.path, self._setup.alerts, self._setup.dashboard)
                self._alerting = stack.enter_context(alerting)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if kind is None and self.engine.idle:
                self.engine.close()
                self.engine.write([Closed(at_hours=self.engine.state.now_hours)])
            if kind is None:  # what was broken off may have left the state half folded
                self.engine.keep()

    def submit(self, submission: Submission) -> str:
        """Accept a job and return its id; raises InputError or InfeasibleError when it cannot be run."""
        return self._intake.take(submission).job

    def active_of(self, path: str) -> str | None:
        """Return the job of a file that has not ended, if there is one."""
        record = active_of(self.state, str(Path(path).absolute()))
        return None if record is None else record.job

    def run(
        self,
        *,
        staying: bool = False,
        show: Callable[[float], None] = lambda now_hours: None,
        stopping: Callable[[], bool] = lambda: False,
        complain: Callable[[BackendError], None] = lambda error: None,
        report: Callable[[str], None] = lambda line: None,
        poll_s: float = POLL_S,
    ) -> None:
        """Run, and answer requests, until every job has ended; `staying`: until `stopping` says so.

        Once `stopping` says so, everything is released. `complain` is called on trouble with the disk or the
        machine that may pass by itself, `report` with lines about hooks for alerts.
        """

        def between() -> None:
            self._lease.check()
            self.engine.write(self._clock_events())
            self._intake.tidy()
            if not stopping():
                self.answer()
            if staying:
                self._learn_in_quiet()
            self._retry_sometimes()
            self._alert(report)

        live(
            self.engine, self.clock, between=between, over=lambda: not staying, show=show, stopping=stopping,
            complain=complain, poll_s=poll_s,
        )  # fmt: skip
        self._learn()

    def answer(self) -> None:
        """Answer the requests that wait; for the first job after a pause the market begins anew."""
        if self.state.requests.waiting:
            # The policy of a stream counts its hours from the first job on.
            if not (self.state.active or self.state.site is None or self._setup.defaults.fleet):
                self._set_clock()
            self._intake.answer(self._setup.defaults)

    def hooks(self) -> list[HookStatus]:
        """Return the state of every hook for alerts; may be called from any thread."""
        return [] if self._alerting is None else self._alerting.statuses()

    @property
    def idle(self) -> bool:
        """Whether nothing is held and nothing is left to do."""
        return self.engine.idle

    def without_market(self) -> dict[str, str]:
        """Return the jobs that have not ended and whose market or file cannot be opened, with the reason."""
        troubles = self.engine.troubles
        return {job: troubles.of(job) for job in troubles.having("market") if job in self.state.unended}

    def began(self) -> dict[str, float]:
        """Return when each job that has not ended began, on the market's clock."""
        return {record.job: record.began_hours for record in self.state.active}

    def news(self, after: int) -> Iterator[Record]:
        """Yield the records of the journal after an event."""
        return self.store.read(after=after)

    @property
    def state(self) -> JournalState:
        """The present state of the journal."""
        return self.engine.state

    @property
    def journal(self) -> Journal:
        """The journal as clients see it, with the state that the controller has already."""
        return Journal(self.store, self.path, state=lambda: self.state, context=self.engine.job_context)

    def _clock_events(self) -> list[Event]:
        """Return events about clocks that jumped or were slowed down."""
        if not self.state.active:
            return []
        jumped = jumped_wall(self.clock)
        slowed = slowed_down(self.clock, STEPS_A_SLOT * self.engine.most_hours)
        return [event for event in (jumped, slowed) if event is not None]

    def _retry_sometimes(self) -> None:
        """Retry from time to time what keeps single jobs from going on."""
        if time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + RETRY_S
            self.engine.retry()

    def _alert(self, report: Callable[[str], None]) -> None:
        """Notify alerts that there may be new events, and report what they say about hooks."""
        if self._alerting is not None:
            self._alerting.notice(self.state.seq)
            for line in self._alerting.said():
                report(f"alerts: {line}")

    def _learn_in_quiet(self) -> None:
        """Learn when nothing is held and all was shown, because it takes a while."""
        quiet = self.engine.idle and self._seen_seq == self.state.seq
        self._seen_seq = self.state.seq
        if quiet and self._learned_seq != self.state.seq:
            self._learn()

    def _learn(self) -> None:
        """Train the learner with the outcome of its choices."""
        for job in [job for job in self.state.unlearned if job not in self._lessons]:
            from slacktide.engine.job.policy_learning import learn_from

            learn_from(self.engine, self.state.jobs[job], self._learned)
        self._lessons = frozenset(self.state.unlearned)
        self._learned_seq = self.state.seq

    def _backend_name(self, state: JournalState, *, rents: bool) -> str:
        """Return the back end that jobs which have not ended run on, or the one that was named."""
        named = self._setup.backend
        if _is_in_use(state) and named not in (None, state.backend):
            raise InputError(
                f"the back end must stay {state.backend} while jobs of this journal are unfinished, got "
                f"{named}; leave it out, or give another journal with --journal"
            )
        default = RENTING_BACKEND if rents else DEFAULT_BACKEND
        return state.backend if _is_in_use(state) else named or default

    def _machines_path(self, state: JournalState) -> str:
        """Return the machines file by which machines are rented already, or the one that was named."""
        named = "" if self._setup.machines is None else str(self._setup.machines.absolute())
        if state.tickets.open and state.machines and named not in ("", state.machines):
            raise InputError(
                f"the machines file must stay {state.machines} while machines of it are rented, got {named}; "
                "leave it out, or give another journal with --journal"
            )
        return named or (state.machines if _is_in_use(state) else "")

    def _named_late(self, state: JournalState) -> str:
        """Give an old journal the name that its workers were given then: a digest of its path."""
        name = hashlib.sha256(str(self.path).encode()).hexdigest()[:16]
        self.store.append([JournalMade(at_hours=state.now_hours, id=name)])
        return name

    def _renting(self, machines: str) -> Callable[[str, str], Renting]:
        """Read a machines file; return what rents by it, given the address of a cluster and its token."""
        from slacktide.files.machines import read_machines_file
        from slacktide.providers.base import Renter

        file = read_machines_file(machines)

        def renting(head: str, token: str) -> Renting:
            folder = machine_files_of(self.path)
            renter = Renter(owner=self.journal_id, folder=folder, head=head, token=token)
            return file.renting(renter, self.clock.speed)

        return renting

    def _place(self, machines: str) -> BackendPlace:
        return BackendPlace(
            renting=self._renting(machines) if machines else None,
            folder=runs_of(self.path),
            owner=self.journal_id,
            speed=self.clock.speed,
            now_hours=self.clock.hours,
            diary=EngineMachineLog(lambda: self.engine),
            secrets=lambda job: secrets_of(
                self.engine.context_of(job).file, self._values.of(job_values(job))
            ),
        )

    def _first_clock(self, state: JournalState) -> Clock:
        """Go on with the clock of jobs that have not ended, or set it anew; write down where it stands."""
        clock = self._clock_of(state)
        self.store.append([clock.anchor()])
        return clock

    def _clock_of(self, state: JournalState) -> Clock:
        wanted = self._setup.speed
        if self._goes_on(state) and state.clock is not None:
            speed = state.clock.speed
            if wanted is not None and wanted != speed:
                raise InputError(
                    f"speed must stay {speed:g} while jobs of this journal are unfinished, got {wanted:g}; "
                    "leave it out, or give another journal with --journal"
                )
            return Clock(speed, resumed_hours(state.clock, state.anchor, state.now_hours))
        clock = Clock(1.0 if wanted is None else wanted)
        self.store.append([_clock_set(clock)])
        return clock

    def _goes_on(self, state: JournalState) -> bool:
        """Whether the clock must go on: jobs have not ended, or a fleet's money is counted on it."""
        defaults = self._setup.defaults
        counts = defaults.fleet is not None and defaults.fleet.shares_market(defaults.policy)
        return bool(state.active or (counts and state.fleets and self._setup.speed in _speeds(state)))

    def _set_clock(self) -> None:
        """Set the clock anew, and with it the market: a recorded one would otherwise come to its end."""
        self.engine.close()
        self.clock.set()
        self.engine.write([_clock_set(self.clock), self.clock.anchor()])

    def _opened(self, backend: str, machines: str) -> Opened:
        return Opened(
            at_hours=self.engine.state.now_hours,
            pid=os.getpid(),
            host=platform.node(),
            version=version("slacktide"),
            backend=backend,
            machines=machines,
        )


def _is_in_use(state: JournalState) -> bool:
    """Say whether a journal has unfinished jobs, or machines."""
    return bool(state.active or state.tickets.open)


def _speeds(state: JournalState) -> tuple[float | None, ...]:
    """Return the speeds with which a clock can go on as it did."""
    return (None,) if state.clock is None else (None, state.clock.speed)


def _clock_set(clock: Clock) -> ClockSet:
    return ClockSet(at_hours=0.0, epoch_utc=datetime.now(UTC).isoformat(), speed=clock.speed)
