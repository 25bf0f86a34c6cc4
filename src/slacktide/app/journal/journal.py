"""A journal as its clients see it: jobs, events, logs and bills, and requests to its controller."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self

from slacktide.app.jobs.requests import WithdrawnError, needing_space, record_of, refusal
from slacktide.app.jobs.submission import Submission, request
from slacktide.app.journal.costs import RecordedRun, job_cost, recorded_run, site_cost
from slacktide.app.journal.listing import RecordedEvent, listed, status_of
from slacktide.app.journal.logs import LogLine, Printed
from slacktide.backends.base import BackendPlace, backends
from slacktide.core.errors import InputError, SlacktideError
from slacktide.engine.bills.audit import sites_of
from slacktide.engine.bills.bill import bill
from slacktide.engine.job.job_context import JobContext, context_of
from slacktide.engine.job.journal_market import make_journal
from slacktide.journal.events import (
    CancellationAsked,
    PreemptionAsked,
    SubmissionAsked,
    SubmissionRefused,
    Submitted,
)
from slacktide.journal.state.journal_state import JobRecord, JournalState, RequestAnswer
from slacktide.journal.state.snapshots import StateCache
from slacktide.journal.store.base import Store
from slacktide.journal.store.env_values import request_values, values_of
from slacktide.journal.store.lease import is_held
from slacktide.journal.store.paths import journal_path as own_journal
from slacktide.journal.store.paths import real_path, runs_of
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.results.bill import Bill, JobCost, SiteCost
from slacktide.results.status import JobStatus

if TYPE_CHECKING:
    from slacktide.app.alerts.outbox import HookStatus
    from slacktide.report.text.bills.cost_report import CostReport

FOLLOW_S = 0.2  # how often to look for more
ANSWER_S = 0.05  # how often to look for an answer
LOOK_S = 1.0  # how often to check that a controller is still running, which would answer
WITHDRAWN = "withdrawn by the user"


class Journal:
    """Reads a journal, and writes requests to its controller; any process may use one."""

    def __init__(
        self,
        store: Store,
        path: Path | None = None,
        *,
        state: Callable[[], JournalState] | None = None,
        context: Callable[[JobRecord], JobContext] | None = None,
    ) -> None:
        """Use a journal by its store, and by the path of its file if it has one.

        A controller passes what it already has: the state of the journal, and the contexts of its jobs.
        """
        self.store, self.path = store, path
        self._values = None if path is None else values_of(path)
        self._state = state or StateCache(store)
        self._job_context = context or (lambda record: context_of(record.submitted))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.store.close()

    @property
    def in_charge(self) -> bool:
        """Whether a controller is running that acts on requests."""
        return self._state().controller is not None if self.path is None else is_held(self.path)

    def submit(self, submission: Submission, *, job_class: str = "") -> str:
        """Request that a job be run, and return the key of the request; the same key means the same job."""
        key, state = submission.key or secrets.token_hex(8), self._state()
        if key in state.requests.waiting or key in state.requests.answers:
            return key
        keyed = replace(submission, key=key)
        self._keep_values(keyed)
        try:
            self.store.append([request(keyed, state.now_hours, job_class)])
        except SlacktideError:
            if self._values is not None:
                self._values.drop(request_values(key))
            raise
        return key

    def _keep_values(self, submission: Submission) -> None:
        """Write values of variables to disk: the controller needs them, the journal must not hold them."""
        if self._values is not None:
            with needing_space("values of a job's variables"):
                self._values.keep(request_values(submission.key), submission.envs)
        elif submission.envs:
            raise InputError(
                f"a job that takes {', '.join(submission.envs)} must be submitted to a journal on disk, got "
                "one in memory; write the values into its file"
            )

    def wait(self, key: str) -> str | None:
        """Wait for the answer to a request, and return the job's id; None when no controller is in charge.

        Raises the error for which the controller refused the job: InputError, InfeasibleError and the like.
        """
        answer = self._awaited(key)
        if answer is not None and not answer.job:
            raise refusal(answer)
        return None if answer is None else answer.job

    def _awaited(self, key: str) -> RequestAnswer | None:
        """Wait for the answer to a request; None where no controller runs: the next one will answer."""
        look_at = time.monotonic()
        while True:
            gone = time.monotonic() >= look_at and not self.in_charge
            state = self._state()  # after the check for a controller: its last act may have been the answer
            if gone or key in state.requests.answers:
                return state.requests.answers.get(key)
            look_at = look_at if time.monotonic() < look_at else time.monotonic() + LOOK_S
            time.sleep(ANSWER_S)

    def cancel(self, job: str) -> bool:
        """Request that a job be ended; raises InputError when it has ended already.

        With the key of a waiting submission, withdraws that, and returns whether it did.
        """
        state = self._state()
        if job not in state.requests.waiting or job in state.jobs:
            _unended(state, job)
            self._request_end(job, state)
            return False
        # A controller may accept it at the same moment. Then the order in the journal decides: if the job is
        # first, it is cancelled now; if the withdrawal is, on the job's arrival (`JournalState`).
        code, now = WithdrawnError.exit_code, state.now_hours
        refused = SubmissionRefused(at_hours=now, actor="user", key=job, exit_code=code, why=WITHDRAWN)
        self.store.append([refused])
        state = self._state()
        accepted = state.requests.answers[job].job
        if accepted:
            self._request_end(accepted, state)
        return not accepted

    def _request_end(self, job: str, state: JournalState) -> None:
        self.store.append([CancellationAsked(job=job, at_hours=state.now_hours, actor="user")])

    def preempt(self, job: str, spot_gpus: int | None = None) -> None:
        """Ask that spot workers be taken from a job, as the market would; None means all."""
        state = self._state()
        _unended(state, job)
        now = state.now_hours
        self.store.append([PreemptionAsked(job=job, at_hours=now, actor="user", spot_gpus=spot_gpus)])

    def jobs(self) -> list[JobStatus]:
        """List every job, as of the last event."""
        state, in_charge = self._now()
        return [listed(record, state, in_charge=in_charge) for record in state.jobs.values()]

    def waiting(self) -> list[SubmissionAsked]:
        """List the requests that no controller has answered yet."""
        return list(self._state().requests.waiting.values())

    def unfinished(self) -> dict[str, str]:
        """Return the job file of every job that has not ended, by the job's id."""
        return {record.job: record.submitted.path for record in self._state().active}

    def events(
        self, job: str | None = None, *, follow: bool = False, after: int = 0, most: int | None = None
    ) -> Iterator[RecordedEvent]:
        """Yield what happened after an event, to a job or to all; `follow` goes on until that job has ended.

        Yields at most `most` events.
        """
        record = None if job is None else record_of(self._state(), job)
        while True:
            over = record is not None and not record.active
            for recorded in self._recorded(job, after, most):
                after = recorded.record.seq
                yield recorded
            if not follow or over or most is not None:
                return
            time.sleep(FOLLOW_S)
            self._state()

    def _recorded(self, job: str | None, after: int, most: int | None) -> Iterator[RecordedEvent]:
        jobs, came = self._state().jobs, dict[str, Submitted]()
        for record in islice(self.store.read(after=after, job=job), most):
            event = record.event
            if isinstance(event, Submitted):  # it may have come after `jobs` was read
                came[event.job] = event
            job_record = jobs.get(event.job)
            yield RecordedEvent(record, came.get(event.job) if job_record is None else job_record.submitted)

    def why(self, job: str) -> list[str]:
        """Explain in plain sentences why a job holds what it holds, the newest decision first."""
        from slacktide.report.text.sentences.why import why as explain

        state, in_charge = self._now()
        status = listed(record_of(state, job), state, in_charge=in_charge)
        return explain(status, [recorded.record.event for recorded in self.events(job)])

    def logs(
        self, job: str, *, rank: int | None = None, attempt: int | None = None, follow: bool = False
    ) -> Iterator[LogLine]:
        """Yield what the workers of a job printed; `follow` goes on until it has ended."""
        record, printed = record_of(self._state(), job), self.printed(job, rank, attempt)
        while True:
            over = not record.active
            yield from printed.more(last=over or not follow)
            if over or not follow:
                return
            time.sleep(FOLLOW_S)
            self._state()

    def printed(
        self, job: str, rank: int | None = None, attempt: int | None = None, after: str = ""
    ) -> Printed:
        """Return a reader of what a job's workers printed; `after` is the `place` of an earlier reader."""
        state = self._state()
        record_of(state, job)
        place = BackendPlace(folder=Path() if self.path is None else runs_of(self.path), owner="reader")
        return Printed(backends.make({state.backend: {"place": place}}), job, rank, attempt, after)

    def bill(self, job: str) -> Bill:
        """Return the bill of a job, next to what other ways to run it would have cost."""
        state, in_charge = self._now()
        record = record_of(state, job)
        status = status_of(record, state, in_charge=in_charge)
        return replace(bill(record, self._job_context(record)), status=status)

    def cost(self, job: str) -> JobCost:
        """Return the bill of a job and its audit, in which every stretch is priced again."""
        state, in_charge = self._now()
        job_record = record_of(state, job)
        own = list(self.store.read(job=job))
        # The events without a job include the market that this job was priced on.
        records = sorted([*self.store.read(job=""), *own[:1]], key=lambda record: record.seq)
        status = status_of(job_record, state, in_charge=in_charge)
        return job_cost(job_record, status, self._job_context, sites_of(records).get(job), own)

    def cost_report(self, job: str | None = None) -> CostReport:
        """Return the bill of a job, or of the whole journal, as text and as JSON."""
        from slacktide.report.text.bills.cost_report import job_cost_report, site_cost_report

        return site_cost_report(self.cost_of_all()) if job is None else job_cost_report(self.cost(job))

    def cost_of_all(self) -> SiteCost:
        """Return what every job and the site itself paid, and the audit of all stretches together."""
        state, in_charge = self._now()
        return site_cost(state, self.store.read(), in_charge=in_charge)

    def run(self, job: str) -> RecordedRun:
        """Return the run of a job, as pictures and pages need it; raises InputError where nothing was run."""
        job_record = record_of(self._state(), job)
        events = (record.event for record in self.store.read(job=job))
        return recorded_run(job_record, self._job_context(job_record), events)

    def hooks(self) -> list[HookStatus]:
        """Return the state of the hooks for alerts; none if no controller had any. Raises FileError."""
        from slacktide.app.alerts.outbox import stored_statuses

        return [] if self.path is None else stored_statuses(self.path)

    def _now(self) -> tuple[JournalState, bool]:
        """Return the state of the journal, and whether a controller is in charge."""
        before, state = self.in_charge, self._state()
        return state, before or self.in_charge  # one may have come or gone while the journal was read


def _unended(state: JournalState, job: str) -> JobRecord:
    """Return a job; raises InputError if it has ended."""
    record = record_of(state, job)
    if not record.active:
        raise InputError(f"job {job!r} must not have ended, but it has ended: {record.status}")
    return record


def open_journal(path: str | Path | None = None, *, create: bool = False) -> Journal:
    """Open a journal, the user's own unless another is named; raises InputError when there is none."""
    place = real_path(own_journal() if path is None else path)
    if not create and not place.exists():
        raise InputError(f"{place}: there must be a journal, found none; name it with --journal")
    store = SqliteStore(place, create=create)
    if create:
        make_journal(store)
    return Journal(store, place)


def check_exists(path: Path) -> None:
    """Raise InputError unless there is a journal to be resumed."""
    if not os.path.exists(real_path(path)):
        raise InputError(f"{path}: a journal to resume must exist, found none; check --journal")


def unfinished_files(path: Path) -> set[str]:
    """Return the files of the unfinished jobs of a journal; none if there is no journal."""
    if not real_path(path).exists():
        return set()
    with open_journal(path) as journal:
        return set(journal.unfinished().values())


__all__ = ["Journal", "check_exists", "open_journal", "own_journal", "unfinished_files"]
