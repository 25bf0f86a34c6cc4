"""The controller of a journal: takes its lease, runs its jobs with the engine, and answers requests."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Self

from slacktide.app.jobs.requests import is_of_the_disk, needing_space
from slacktide.app.jobs.setup import RENTING_BACKEND, Setup, clock_set
from slacktide.app.jobs.submission import Defaults, Submission, journal_entry
from slacktide.app.journal.journal import Journal
from slacktide.backends.base import BackendPlace, backends
from slacktide.backends.base import RentsMachines as RentingBackend
from slacktide.core.errors import BackendError, InputError, SlacktideError
from slacktide.engine.clock import Clock
from slacktide.engine.engine import POLL_S, STEPS_A_SLOT, Engine, EngineMachineLog, live
from slacktide.engine.job.auto_policy import begin_learning, drop_lesson, foresee
from slacktide.engine.job.job_context import JobContext, context_from_file, context_of
from slacktide.engine.job.journal_market import check_resumable, make_journal
from slacktide.engine.job.launch_spec import secrets_of
from slacktide.engine.job.placement import placed
from slacktide.engine.pending_decisions import first_view
from slacktide.files.job import JobFile, submitted_file
from slacktide.journal.events import (
    Closed,
    Event,
    JournalMade,
    Opened,
    Record,
    SubmissionRefused,
    Submitted,
)
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.base import Store
from slacktide.journal.store.env_values import EnvValues, job_values, request_values, values_of
from slacktide.journal.store.lease import JournalLease
from slacktide.journal.store.paths import machine_files_of, real_path, runs_of
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.market.base import Pool
from slacktide.policies.selection.policy_set import fresh
from slacktide.policies.selection.state_file import LearnedStateFile, default_path
from slacktide.policies.view import decision_of

if TYPE_CHECKING:
    from slacktide.app.alerts.alerting import Alerting
    from slacktide.app.alerts.outbox import HookStatus
    from slacktide.providers.base import Renting


RETRY_S = 2.0  # how often to retry what keeps a job from going on


class Controller:
    """Runs the jobs of a journal, those of its own process and those that other processes submit.

    Raises LeaseError when the journal has a controller already.
    """

    def __init__(self, journal: Path, setup: Setup | None = None) -> None:
        """Prepare to run a journal; its lease is taken when the `with` block begins."""
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
            machines = self._setup.machines_path(state)
            name, files = self._setup.backend_name(state, rents=bool(machines)), FilesRead()
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

    def __exit__(self, kind: object, *error: object) -> None:
        with self._stack:
            if kind is None and self.engine.idle:
                self.engine.close()
                self.engine.write([Closed(at_hours=self.engine.state.now_hours)])
            if kind is None:  # after an exception the state may be half folded
                self.engine.keep()

    def submit(self, submission: Submission) -> str:
        """Accept a job and return its id; raises InputError or InfeasibleError when it cannot be run."""
        return self._intake.take(submission).job

    def active_of(self, path: str) -> str | None:
        """Return the job of a file that has not ended, if there is one."""
        file = str(Path(path).absolute())
        return next((record.job for record in self.state.active if record.submitted.path == file), None)

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
        """Run jobs and answer requests until every job has ended, or with `staying` until `stopping` is true.

        When `stopping` is true, everything is released. `complain` is called with errors of the disk or the
        machine that may pass by themselves, `report` with lines about hooks for alerts.
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
        """Answer waiting requests; for the first job after a pause, the clock and market start over."""
        if self.state.requests.waiting:
            # Not with a fleet: its allocator counts hours from its first job.
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
        troubles = self.engine.context.troubles
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
        """The journal as clients see it, which uses the controller's state instead of reading its own."""
        return Journal(
            self.store, self.path, state=lambda: self.state, context=self.engine.context.job_context
        )

    def _clock_events(self) -> list[Event]:
        if not self.state.active:
            return []
        jumped = self.clock.jumped_wall()
        slowed = self.clock.slowed_down(STEPS_A_SLOT * self.engine.most_hours)
        return [event for event in (jumped, slowed) if event is not None]

    def _retry_sometimes(self) -> None:
        if time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + RETRY_S
            self.engine.retry()

    def _alert(self, report: Callable[[str], None]) -> None:
        """Tell the threads of alerts how far the journal goes, and report their lines about hooks."""
        if self._alerting is not None:
            self._alerting.notice(self.state.seq)
            for line in self._alerting.said():
                report(f"alerts: {line}")

    def _learn_in_quiet(self) -> None:
        """Learn when nothing is held and no event is new since the last call, because it takes a while."""
        quiet = self.engine.idle and self._seen_seq == self.state.seq
        self._seen_seq = self.state.seq
        if quiet and self._learned_seq != self.state.seq:
            self._learn()

    def _learn(self) -> None:
        for job in [job for job in self.state.unlearned if job not in self._lessons]:
            from slacktide.engine.job.auto_policy import learn_from

            record, now_hours = self.state.jobs[job], self.state.now_hours
            self.engine.write(learn_from(record, self.engine.context.job_context, now_hours, self._learned))
        self._lessons = frozenset(self.state.unlearned)
        self._learned_seq = self.state.seq

    def _named_late(self, state: JournalState) -> str:
        """Give a journal of an old version the id that its workers already have: a digest of its path."""
        name = hashlib.sha256(str(self.path).encode()).hexdigest()[:16]
        self.store.append([JournalMade(at_hours=state.now_hours, id=name)])
        return name

    def _renting(self, machines: str) -> Callable[[str, str], Renting]:
        """Read a machines file; return what makes a `Renting` from a cluster's address and its token."""
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
                self.engine.context.jobs.named(job).file, self._values.of(job_values(job))
            ),
        )

    def _first_clock(self, state: JournalState) -> Clock:
        """Resume the clock of jobs that have not ended, or start a new one; write its time to the journal."""
        clock = self._setup.resumed_clock(state)
        if clock is None:
            clock = Clock(1.0 if self._setup.speed is None else self._setup.speed)
            self.store.append([clock_set(clock)])
        self.store.append([clock.anchor()])
        return clock

    def _set_clock(self) -> None:
        """Set the clock to 0, so that the market starts over: a recorded one would otherwise run out."""
        self.engine.close()
        self.clock.set()
        self.engine.write([clock_set(self.clock), self.clock.anchor()])

    def _opened(self, backend: str, machines: str) -> Opened:
        return Opened(
            at_hours=self.engine.state.now_hours,
            pid=os.getpid(),
            host=platform.node(),
            version=version("slacktide"),
            backend=backend,
            machines=machines,
        )


class FilesRead(dict[str, JobFile]):
    """Job files that have been read, by job id, so that accepting a job reads its file only once."""

    def job_context(self, submitted: Submitted) -> JobContext:
        file = self.pop(submitted.job, None)
        return context_of(submitted) if file is None else context_from_file(submitted, file)


class Intake:
    """Accepts jobs for a controller, and answers requests."""

    def __init__(
        self, engine: Engine, clock: Clock, learned: LearnedStateFile, files: FilesRead, values: EnvValues
    ) -> None:
        self._engine, self._clock, self._learned, self._files = engine, clock, learned, files
        self._values = values
        for key in engine.state.requests.answers:  # a controller that was killed may have left them
            values.drop(request_values(key))
        self.tidy()

    def answer(self, defaults: Defaults) -> None:
        """Answer every waiting request: accept the job, or write why not.

        Any error in a request is its answer: if it stopped the controller, it would stop the next one, too.
        Only errors of the disk are raised, and the request waits until the disk works again.
        """
        state = self._engine.state
        for request in list(state.requests.waiting.values()):
            try:
                self.take(defaults.submission(request, self._values.of(request_values(request.key))))
            except Exception as error:
                if request.key in state.requests.answers or is_of_the_disk(error):
                    raise  # it was accepted, and something else is wrong; or it will be accepted later
                self._engine.write([_refusal(request.key, state.now_hours, error)])
            self._values.drop(request_values(request.key))

    def tidy(self) -> None:
        """Delete stored values of variables of jobs that have ended or were never accepted."""
        for job in self._values.jobs():
            if job not in self._engine.state.unended:
                self._values.drop(job_values(job))

    def take(self, submission: Submission) -> JobRecord:
        """Accept a job and return its record.

        Raises InputError or InfeasibleError when it cannot be run, and BackendError when the disk fails.
        """
        state, now, name = self._engine.state, datetime.now(UTC), submission.file.job.name
        check_alone(submission, state)
        file, job, hours = submission.at(now), free_id(state, name), self._clock.hours()
        submitted = journal_entry(submission, file, job=job, at_hours=hours, now=now, site=state.site)
        context = context_from_file(foresee(submitted, name, self._learned), file)
        rehearse(context, submitted)
        # The job's time begins now, not when it was requested: some policies compile for a minute at first.
        now = datetime.now(UTC)
        file = submission.at(now)
        with needing_space("a job that is taken in"):
            self._keep(self._stamped(submitted, now, file, context.pool), file, submission)
        return state.jobs[job]

    def _keep(self, submitted: Submitted, file: JobFile, submission: Submission) -> None:
        """Write the job's entry to the journal, and the values of its variables to the disk."""
        present = begin_learning(submitted, submission.file.job.name, self._learned)
        self._files[present.job] = file
        try:
            self._values.keep(job_values(present.job), submission.envs)
            self._engine.submit(present)
        except BaseException:
            drop_lesson(present, self._learned)
            self.tidy()
            raise

    def _stamped(self, submitted: Submitted, now: datetime, file: JobFile, pool: Pool) -> Submitted:
        """Return an entry with the present time, and with the slot that the market is in now."""
        site = self._engine.state.site
        present = dataclasses.replace(submitted, at_hours=self._clock.hours(), submitted_utc=now.isoformat())
        return present if site is None else placed(present, file.job, pool, None, site)


def rehearse(context: JobContext, submitted: Submitted) -> None:
    """Let a job's policy decide once without effect: the first decision may compile code for a while."""
    if not submitted.fleet:
        decision_of(context.policy, first_view(context, submitted))


def check_alone(submission: Submission, state: JournalState) -> None:
    """Raise InputError if another active job writes into a checkpoint folder that is not to be shared."""
    file = submission.file
    folder = _checkpoint_folder(file)
    if folder is None or file.checkpoint_shared:
        return
    for record in state.active:
        if _checkpoint_folder_of(record) == folder:
            raise InputError(
                f"{file.path}: only one job at a time may use a checkpoint folder, but {record.job} has not "
                f"ended and also writes into {folder}; wait for it, give another 'dir' under checkpoint or "
                "leave it out, or write 'shared: true' next to it if both should use it"
            )


def _checkpoint_folder(file: JobFile) -> str | None:
    """Return the real path of the folder for a job's checkpoints; None if the back end chooses it."""
    if file.checkpoint_dir is None:
        return None
    return os.path.realpath(Path(file.path).absolute().parent / file.checkpoint_dir)


def _checkpoint_folder_of(record: JobRecord) -> str | None:
    try:
        return _checkpoint_folder(submitted_file(record.submitted))
    except SlacktideError:  # an old file that cannot be read any more must not stop other jobs
        return None


def free_id(state: JournalState, name: str) -> str:
    """Return the job's name, with a number if an earlier job has it."""
    if name not in state.jobs:
        return name
    return next(free for number in range(2, 10**9) if (free := f"{name}-{number}") not in state.jobs)


def _refusal(key: str, at_hours: float, error: Exception) -> SubmissionRefused:
    if isinstance(error, SlacktideError):
        return SubmissionRefused(at_hours=at_hours, key=key, exit_code=error.exit_code, why=str(error))
    why = f"{type(error).__name__}: {error}"
    return SubmissionRefused(at_hours=at_hours, key=key, exit_code=SlacktideError.exit_code, why=why)
