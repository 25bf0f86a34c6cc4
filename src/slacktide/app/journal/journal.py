"""A journal as its clients see it: jobs, events, logs and bills, and requests to its controller."""

from __future__ import annotations

import codecs
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from slacktide.app.jobs import requests
from slacktide.app.jobs.submission import Submission
from slacktide.app.journal.listing import RecordedEvent, listed, status_of
from slacktide.backends.base import PIECE_BYTES, Backend, BackendPlace, Log, backends
from slacktide.core.errors import InputError, shown
from slacktide.engine.bills.bill import bill
from slacktide.engine.job.job_context import JobContext, context_of
from slacktide.engine.job.journal_market import make_journal
from slacktide.journal.events import SubmissionAsked, Submitted
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.state.snapshots import StateCache
from slacktide.journal.store.base import Store
from slacktide.journal.store.env_values import values_of
from slacktide.journal.store.lease import is_held
from slacktide.journal.store.paths import journal_path as own_journal
from slacktide.journal.store.paths import real_path, runs_of
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.results.status import JobStatus

if TYPE_CHECKING:
    from slacktide.app.alerts.outbox import HookStatus
    from slacktide.app.journal.costs import RecordedRun
    from slacktide.report.text.bills.cost_report import CostReport
    from slacktide.results.bill import Bill, JobCost, SiteCost


FOLLOW_S = 0.2  # how often to look for more


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
        """Give the store of a journal, and the path of its file if it has one.

        A controller passes what it has already: the state of the journal, and its jobs' contexts.
        """
        self.store, self.path = store, path
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
        values = None if self.path is None else values_of(self.path)
        return requests.request_submission(self.store, submission, self._state, values, job_class)

    def wait(self, key: str) -> str | None:
        """Wait for the answer to a request, and return the job's id; None when no controller is in charge.

        Raises what the controller met when it refused the job: InputError, InfeasibleError and the like.
        """
        answer = requests.await_answer(key, lambda: self.in_charge, self._state)
        if answer is not None and not answer.job:
            raise requests.refusal(answer)
        return None if answer is None else answer.job

    def cancel(self, job: str) -> bool:
        """Request that a job be ended; raises InputError when it has ended already.

        A submission that waits is withdrawn by its key; returns whether that was done, at once and for good.
        """
        return requests.request_cancellation(self.store, job, self._state)

    def preempt(self, job: str, spot_gpus: int | None = None) -> None:
        """Ask that spot workers be taken from a job, as the market would; None means all."""
        requests.request_preemption(self.store, job, spot_gpus, self._state)

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
        record, left = None if job is None else requests.record_of(self._state(), job), most
        while True:
            over = record is not None and not record.active
            for recorded in self._recorded(job, after, left):
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
        status = listed(requests.record_of(state, job), state, in_charge=in_charge)
        return explain(status, [recorded.record.event for recorded in self.events(job)])

    def logs(
        self, job: str, *, rank: int | None = None, attempt: int | None = None, follow: bool = False
    ) -> Iterator[LogLine]:
        """Yield what the workers of a job printed; `follow` goes on until it has ended."""
        record, printed = requests.record_of(self._state(), job), self.printed(job, rank, attempt)
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
        """Return what the workers of a job printed, from a place on that was returned before."""
        state = self._state()
        requests.record_of(state, job)
        place = (
            BackendPlace(owner="reader")
            if self.path is None
            else BackendPlace(folder=runs_of(self.path), owner="reader")
        )
        return Printed(backends.make({state.backend: {"place": place}}), job, rank, attempt, after)

    def bill(self, job: str) -> Bill:
        """Return the bill of a job, next to what other ways to run it would have cost."""
        state, in_charge = self._now()
        record = requests.record_of(state, job)
        status = status_of(record, state, in_charge=in_charge)
        return replace(bill(record, self._job_context(record)), status=status)

    def cost(self, job: str) -> JobCost:
        """Return the bill of a job and its audit, in which every stretch is priced again."""
        from slacktide.app.journal.costs import job_cost
        from slacktide.engine.bills.audit import sites_of

        state, in_charge = self._now()
        job_record = requests.record_of(state, job)
        own = list(self.store.read(job=job))
        # Events of no job have the market that it was priced on.
        records = sorted([*self.store.read(job=""), *own[:1]], key=lambda record: record.seq)
        status = status_of(job_record, state, in_charge=in_charge)
        return job_cost(job_record, status, self._job_context, sites_of(records).get(job), own)

    def cost_report(self, job: str | None = None) -> CostReport:
        """Return the bill of a job, or of the whole journal, as text and as JSON."""
        from slacktide.report.text.bills.cost_report import job_cost_report, site_cost_report

        return site_cost_report(self.cost_of_all()) if job is None else job_cost_report(self.cost(job))

    def cost_of_all(self) -> SiteCost:
        """Return what every job and the site itself paid, and the audit of all stretches together."""
        from slacktide.app.journal.costs import site_cost

        state, in_charge = self._now()
        return site_cost(state, self.store.read(), in_charge=in_charge)

    def run(self, job: str) -> RecordedRun:
        """Return the run of a job, as pictures and pages need it; raises InputError where nothing was run."""
        from slacktide.app.journal.costs import recorded_run

        job_record = requests.record_of(self._state(), job)
        return recorded_run(
            job_record, self._job_context(job_record), (record.event for record in self.store.read(job=job))
        )

    def hooks(self) -> list[HookStatus]:
        """Return the state of the hooks for alerts; none where no controller had any. Raises FileError."""
        from slacktide.app.alerts.outbox import stored_statuses

        return [] if self.path is None else stored_statuses(self.path)

    def _now(self) -> tuple[JournalState, bool]:
        """Return the state of the journal, and whether a controller is in charge."""
        before, state = self.in_charge, self._state()
        return state, before or self.in_charge  # one may have come or gone while the journal was read


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
    """Return the files of the jobs of a journal that have not ended; none where there is no journal."""
    if not real_path(path).exists():
        return set()
    with open_journal(path) as journal:
        return set(journal.unfinished().values())


class LogLine(NamedTuple):
    """A line that a worker printed, or a piece of a long one."""

    attempt: int  # the set of workers; 0 is the set-up
    rank: int
    line: str
    continued: bool = False  # whether it goes on with the line before, which was too long for one row


class _Reader:
    """What was read of one worker's output: how many bytes, and where in a line that ended."""

    def __init__(self, read_bytes: int = 0, inside: bool = False) -> None:
        self.bytes = read_bytes
        self.inside = inside
        """Whether the next piece goes on with a line."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may lie across pieces

    def take(self, piece: bytes, last: bool) -> tuple[str, bool] | None:
        """Return a piece as text, and whether it goes on with a line; None while the rest may still come."""
        whole, cut = piece.endswith(b"\n"), len(piece) >= PIECE_BYTES
        if not (whole or cut or last):
            return None
        self.bytes += len(piece)
        text, continued = self._decoder.decode(piece, final=whole or not cut), self.inside
        self.inside = not whole
        return (text.removesuffix("\n").removesuffix("\r") if whole else text), continued


class Printed:
    """Follows the output of a job's workers, one after another as they come."""

    def __init__(
        self, backend: Backend, job: str, rank: int | None, attempt: int | None, after: str = ""
    ) -> None:
        """Follow all workers of a job, or some; from `after` on, which an earlier `place` was."""
        self._backend, self._job = backend, job
        self._rank, self._attempt = rank, attempt
        self._readers: defaultdict[tuple[int, int], _Reader] = defaultdict(_Reader)
        for part in filter(None, after.split(",")):
            self._readers.update([_placed(part)])

    @property
    def place(self) -> str:
        """How far it was read, as text: `1/0:512,1/1:90+`, bytes by attempt and rank, + inside a line."""
        return ",".join(
            f"{attempt}/{rank}:{one.bytes}{'+' * one.inside}"
            for (attempt, rank), one in self._readers.items()
            if one.bytes
        )

    def more(self, *, last: bool) -> Iterator[LogLine]:
        """Yield the lines that came since; a line without its end only when nothing more will come."""
        for log in self._backend.logs(self._job):
            if self._rank in (None, log.rank) and self._attempt in (None, log.attempt):
                yield from self._lines(log, last)

    def _lines(self, log: Log, last: bool) -> Iterator[LogLine]:
        reader = self._readers[log.attempt, log.rank]
        for piece in log.read(reader.bytes):
            line = reader.take(piece, last)
            if line is None:
                return
            yield LogLine(log.attempt, log.rank, *line)


_PLACE = re.compile(r"([0-9]{1,9})/([0-9]{1,9}):([0-9]{1,15})(\+?)")


def _placed(part: str) -> tuple[tuple[int, int], _Reader]:
    found = _PLACE.fullmatch(part)
    if found is None:
        raise InputError(f"a place in logs must be a `next`, such as 1/0:512, got {shown(part)}")
    attempt, rank, read, inside = found.groups()
    return (int(attempt), int(rank)), _Reader(int(read), bool(inside))


__all__ = ["Journal", "check_exists", "open_journal", "own_journal", "unfinished_files"]
