"""Accepts submissions for a controller: checks each and writes it into the journal, or why it is refused."""

from __future__ import annotations

import dataclasses
import os
from datetime import UTC, datetime
from pathlib import Path

from slacktide.app.jobs.full_disk import is_of_the_disk, needing_space
from slacktide.app.jobs.submission import Defaults, Submission
from slacktide.app.jobs.submission_record import journal_entry
from slacktide.core.errors import InputError, SlacktideError
from slacktide.core.types import JobState
from slacktide.engine.clock import Clock
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import JobContext, context_from_file, context_of
from slacktide.engine.job.placement import placed
from slacktide.engine.job.policy_learning import begin_learning, drop_lesson, foresee
from slacktide.files.job import JobFile, parse_job
from slacktide.journal.events import SubmissionRefused, Submitted
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.journal.store.env_values import EnvValues, job_values, request_values
from slacktide.market.base import Pool
from slacktide.policies.decision import decision_of
from slacktide.policies.selection.state_file import LearnedStateFile


class FilesRead:
    """Job files that were read already, so that accepting a job reads its file only once."""

    def __init__(self) -> None:
        self._files: dict[str, JobFile] = {}

    def keep(self, job: str, file: JobFile) -> None:
        """Remember the file of a job until its context is made."""
        self._files[job] = file

    def job_context(self, submitted: Submitted) -> JobContext:
        """Make the context of a job."""
        file = self._files.pop(submitted.job, None)
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
        """Answer every request that waits: accept the job, or write why not.

        Any error of a request is its answer: if it ended the controller, it would end the next one, too. Only
        trouble with the disk is raised, and the request waits until the disk takes the job.
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
        """Remove what was kept for jobs that are over, or never came to be."""
        for job in self._values.jobs():
            if job not in self._engine.state.unended:
                self._values.drop(job_values(job))

    def take(self, submission: Submission) -> JobRecord:
        """Accept a job; raises InputError or InfeasibleError when it cannot be run.

        Raises BackendError when the disk does not take it.
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
        """Write down that a job was accepted, with all that it needs."""
        present = begin_learning(submitted, submission.file.job.name, self._learned)
        self._files.keep(present.job, file)
        try:
            self._values.keep(job_values(present.job), submission.envs)
            self._engine.submit(present)
        except BaseException:
            drop_lesson(present, self._learned)
            self.tidy()
            raise

    def _stamped(self, submitted: Submitted, now: datetime, file: JobFile, pool: Pool) -> Submitted:
        """Return an entry that says this moment, and where the market stands at it."""
        site = self._engine.state.site
        present = dataclasses.replace(submitted, at_hours=self._clock.hours(), submitted_utc=now.isoformat())
        return present if site is None else placed(present, file.job, pool, None, site)


def rehearse(context: JobContext, submitted: Submitted) -> None:
    """Let a job's policy decide once, for nothing, so that the first real decision comes at once."""
    if not submitted.fleet:
        decision_of(
            context.policy,
            context.view(submitted.job, JobState(), context.start_slot, submitted.at_hours, ()),
        )


def check_alone(submission: Submission, state: JournalState) -> None:
    """Raise InputError where another job is writing into the same checkpoint folder, unless that is meant."""
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
    """Return where a job writes its checkpoints, in one spelling; None where the back end chooses."""
    if file.checkpoint_dir is None:
        return None
    return os.path.realpath(Path(file.path).absolute().parent / file.checkpoint_dir)


def _checkpoint_folder_of(record: JobRecord) -> str | None:
    try:
        now = datetime.fromisoformat(record.submitted.submitted_utc)
        return _checkpoint_folder(parse_job(record.submitted.text, path=record.submitted.path, now=now))
    except SlacktideError:  # an old file that cannot be read any more must not stop other jobs
        return None


def active_of(state: JournalState, path: str) -> JobRecord | None:
    """Return the job of a file that has not ended, if there is one."""
    return next((record for record in state.active if record.submitted.path == path), None)


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
