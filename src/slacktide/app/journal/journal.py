"""A journal as its clients see it: what is in it, what it cost, and what may be asked of its controller."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from slacktide.app.costs.cost_report import CostTold, job_cost_told, site_cost_told
from slacktide.app.costs.costs import JobCost, RunTold, SiteCost, billed, job_cost, run_told, site_cost
from slacktide.app.jobs import requests
from slacktide.app.jobs.submission import Submission
from slacktide.app.journal.listing import listed
from slacktide.app.journal.logs import LogLine, Printed
from slacktide.app.journal.state_cache import StateCache
from slacktide.backends.base import BackendPlace, backends
from slacktide.core.errors import InputError
from slacktide.engine.bills.pricing import sites_of
from slacktide.engine.job.job_context import JobContext, context_of
from slacktide.engine.job.journal_market import make_journal
from slacktide.journal.events import Record, SubmissionAsked, Submitted
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.store.base import Store
from slacktide.journal.store.default_paths import journal_path as own_journal
from slacktide.journal.store.env_values import FOLDER, EnvValues
from slacktide.journal.store.lease import is_held
from slacktide.journal.store.real_path import RUNS, real_path
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.report.text.sentences.why import why as explain
from slacktide.results.bill import Bill
from slacktide.results.status import JobStatus

FOLLOW_S = 0.2
"""How often more is looked for."""


class Told(NamedTuple):
    """An event of the journal, and the submission of its job: its hours count from there."""

    record: Record
    submitted: Submitted | None


class Journal:
    """All that can be asked of a journal, by whoever is not its controller."""

    def __init__(
        self,
        store: Store,
        path: Path | None = None,
        *,
        state: Callable[[], JournalState] | None = None,
        context: Callable[[JobRecord], JobContext] | None = None,
    ) -> None:
        """Look at a journal through its store; `path` is where it lies, if anywhere.

        A controller says what it knows already: all that the journal tells, and its jobs' contexts.
        """
        self.store, self.path = store, path
        self._state = state or StateCache(store)
        self._job_context = context or (lambda record: context_of(record.submitted))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()

    @property
    def in_charge(self) -> bool:
        """Whether a controller is there to act on what is asked."""
        return self._state().controller is not None if self.path is None else is_held(self.path)

    def submit(self, submission: Submission, *, job_class: str = "") -> str:
        """Ask that a job be run, and return the key of the request; the same key asks for the same job."""
        values = None if self.path is None else values_of(self.path)
        return requests.ask_submission(self.store, submission, job_class, values=values, look=self._state)

    def wait(self, key: str) -> str | None:
        """Wait for the answer to a request, and return the job's id; None when no controller is in charge.

        Raises what the controller met when it refused the job: InputError, InfeasibleError and the like.
        """
        answer = requests.await_answer(self.store, key, lambda: self.in_charge, look=self._state)
        if answer is not None and not answer.job:
            raise requests.refusal(answer)
        return None if answer is None else answer.job

    def cancel(self, job: str) -> bool:
        """Ask that a job be ended; raises InputError when it has ended already.

        A submission that waits is withdrawn by its key; returns whether that was done, at once and for good.
        """
        return requests.ask_cancellation(self.store, job, look=self._state)

    def preempt(self, job: str, spot_gpus: int | None = None) -> None:
        """Ask that spot workers be taken from a job, as the market would; None means all."""
        requests.ask_preemption(self.store, job, spot_gpus, look=self._state)

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
    ) -> Iterator[Told]:
        """Tell what happened after an event, to one job or to all; `follow` goes on until that job has ended.

        No more than `most` are told.
        """
        record, left = None if job is None else requests.record_of(self._state(), job), most
        while True:
            over = record is not None and not record.active
            for told in self._told(job, after, left):
                after = told.record.seq
                yield told
            if not follow or over or most is not None:
                return
            time.sleep(FOLLOW_S)
            self._state()

    def _told(self, job: str | None, after: int, most: int | None) -> Iterator[Told]:
        jobs, came = self._state().jobs, dict[str, Submitted]()
        for record in islice(self.store.read(after=after, job=job), most):
            event = record.event
            if isinstance(event, Submitted):  # which may have come after the look at all jobs
                came[event.job] = event
            job_record = jobs.get(event.job)
            yield Told(record, came.get(event.job) if job_record is None else job_record.submitted)

    def why(self, job: str) -> list[str]:
        """Say in plain sentences why a job holds what it holds, the newest decision first."""
        state, in_charge = self._now()
        status = listed(requests.record_of(state, job), state, in_charge=in_charge)
        return explain(status, [told.record.event for told in self.events(job)])

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
        """Return what the workers of a job printed, from a place on that was told before."""
        state = self._state()
        requests.record_of(state, job)
        place = (
            BackendPlace(owner="reader")
            if self.path is None
            else BackendPlace(folder=runs_of(self.path), owner="reader")
        )
        return Printed(backends.make({state.backend: {"place": place}}), job, rank, attempt, after)

    def bill(self, job: str) -> Bill:
        """Draw up the bill of a job, beside what others would have paid."""
        state, in_charge = self._now()
        record = requests.record_of(state, job)
        return billed(record, state, self._job_context(record), in_charge=in_charge)

    def cost(self, job: str) -> JobCost:
        """Return the bill of a job and its audit, in which every stretch is priced again."""
        state, in_charge = self._now()
        job_record = requests.record_of(state, job)
        own = list(self.store.read(job=job))
        # What concerns no job tells on which market it stands.
        told = sorted([*self.store.read(job=""), *own[:1]], key=lambda record: record.seq)
        return job_cost(
            job_record, state, self._job_context, sites_of(told).get(job), own, in_charge=in_charge
        )

    def cost_told(self, job: str | None = None) -> CostTold:
        """Return the bill of a job, or of the whole journal, as it is told."""
        return site_cost_told(self.cost_of_all()) if job is None else job_cost_told(self.cost(job))

    def cost_of_all(self) -> SiteCost:
        """Return what every job and the site itself paid, and the audit of all stretches together."""
        state, in_charge = self._now()
        return site_cost(state, self.store.read(), in_charge=in_charge)

    def run(self, job: str) -> RunTold:
        """Return the run of a job, as pictures and pages need it; raises InputError where nothing was run."""
        job_record = requests.record_of(self._state(), job)
        return run_told(
            job_record, self._job_context(job_record), (record.event for record in self.store.read(job=job))
        )

    def _now(self) -> tuple[JournalState, bool]:
        """Return all that the journal tells, and whether a controller is in charge."""
        before, state = self.in_charge, self._state()
        return state, before or self.in_charge  # one may have come or gone while the journal was read


def open_journal(path: str | Path | None = None, *, create: bool = False) -> Journal:
    """Open a journal, the user's own unless another is named; raises InputError when it is not there."""
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


def runs_of(journal: Path) -> Path:
    """Return the folder below which the workers of a journal have theirs: beside the file itself."""
    return real_path(journal).with_suffix(RUNS)


def values_of(journal: Path) -> EnvValues:
    """Return where values are kept that must not stand in a journal; no job's folder begins with a dot."""
    return EnvValues(runs_of(journal) / FOLDER)


__all__ = ["Journal", "Told", "open_journal", "own_journal", "runs_of", "unfinished_files", "values_of"]
