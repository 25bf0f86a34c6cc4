"""Requests to a journal's controller: submit, cancel and preempt jobs, and wait for the answer."""

from __future__ import annotations

import dataclasses
import errno
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from slacktide.app.jobs.submission import Submission, request
from slacktide.core.errors import (
    BackendError,
    FileError,
    InfeasibleError,
    InputError,
    SlacktideError,
    UnknownNameError,
    shown,
)
from slacktide.journal.events import CancellationAsked, PreemptionAsked, SubmissionRefused
from slacktide.journal.state.journal_state import JobRecord, JournalState, RequestAnswer
from slacktide.journal.store.base import Store
from slacktide.journal.store.env_values import EnvValues, request_values

ANSWER_S = 0.05  # how often the journal is read for an answer
WITHDRAWN = "withdrawn by the user"
LOOK_S = 1.0  # how often it is checked that a controller is still running

LONGEST_KEY = 200  # characters of a key: enough for any name that a program makes

Look: TypeAlias = Callable[[], JournalState]  # returns the present state of a journal


class UnknownJobError(UnknownNameError):
    """A job is not in the journal."""

    exit_code = 102
    http_status = 404


class WithdrawnError(SlacktideError):
    """A submission was withdrawn before a controller took it in."""

    exit_code = 103
    http_status = 409


def record_of(state: JournalState, job: str) -> JobRecord:
    """Return a job of a journal; raises UnknownJobError with a guess."""
    if job not in state.jobs:
        raise UnknownJobError("a job", job, [*state.jobs, *state.requests.waiting])
    return state.jobs[job]


def request_preemption(store: Store, job: str, gpus: int | None, look: Look) -> None:
    """Request the controller to take spot workers from a job, as the market would."""
    state = look()
    _unended(state, job)
    store.append([PreemptionAsked(job=job, at_hours=state.now_hours, actor="user", spot_gpus=gpus)])


def request_cancellation(store: Store, job: str, look: Look) -> bool:
    """Request the end of a job, or withdraw a submission by its key; return whether it was withdrawn.

    The journal's order decides when a controller takes the submission in at the same moment: before us, and
    the job is to be cancelled; after us, and the job is cancelled as soon as it is there (`JournalState`).
    """
    state = look()
    if job not in state.requests.waiting or job in state.jobs:
        _append_cancellation(store, _unended(state, job), state)
        return False
    code, now = WithdrawnError.exit_code, state.now_hours
    store.append([SubmissionRefused(at_hours=now, actor="user", key=job, exit_code=code, why=WITHDRAWN)])
    state = look()
    taken_in = state.requests.answers[job].job
    if taken_in:
        _append_cancellation(store, state.jobs[taken_in], state)
    return not taken_in


def _append_cancellation(store: Store, record: JobRecord, state: JournalState) -> None:
    store.append([CancellationAsked(job=record.job, at_hours=state.now_hours, actor="user")])


def check_key(key: str) -> None:
    """Raise InputError unless a key can name a request."""
    if not (0 < len(key) <= LONGEST_KEY and key.isprintable() and key == key.strip()):
        must = f"a key must be 1 to {LONGEST_KEY} printable characters without blanks at its ends"
        raise InputError(f"{must}, got {shown(key)} of {len(key)}; leave it out to have one made")


def request_submission(
    store: Store, submission: Submission, look: Look, values: EnvValues | None = None, job_class: str = ""
) -> str:
    """Request the controller to run a job, unless its key was used before; return the key of the request.

    `values` keeps, for the controller, the values of variables that the job takes over.
    """
    key = submission.key or secrets.token_hex(8)
    state = look()
    if key not in state.requests.waiting and key not in state.requests.answers:
        keyed = dataclasses.replace(submission, key=key)
        _keep_values(values, keyed)
        try:
            store.append([request(keyed, state.now_hours, job_class)])
        except SlacktideError:
            if values is not None:
                values.drop(request_values(key))
            raise
    return key


def _keep_values(values: EnvValues | None, submission: Submission) -> None:
    """Write values to disk that the controller will need and that the journal must not hold."""
    if values is not None:
        with needing_space("values of a job's variables"):
            values.keep(request_values(submission.key), submission.envs)
    elif submission.envs:
        raise InputError(
            f"a job that takes {', '.join(submission.envs)} must be submitted to a journal on disk, got "
            "one in memory; write the values into its file"
        )


def await_answer(
    key: str, in_charge: Callable[[], bool], look: Look, *, sleep: Callable[[float], None] = time.sleep
) -> RequestAnswer | None:
    """Wait for the answer to a request; None where no controller is running.

    The request then stays in the journal for the next controller.
    """
    look_at = time.monotonic()
    while True:
        gone = time.monotonic() >= look_at and not in_charge()
        state = look()  # after the check for a controller: its last act may have been the answer
        if gone or key in state.requests.answers:
            return state.requests.answers.get(key)
        look_at = look_at if time.monotonic() < look_at else time.monotonic() + LOOK_S
        sleep(ANSWER_S)


def refusal(answer: RequestAnswer) -> SlacktideError:
    """Return the error that a refusal stands for, as the controller met it."""
    kinds = {kind.exit_code: kind for kind in (InputError, InfeasibleError, BackendError, WithdrawnError)}
    return kinds.get(answer.exit_code, SlacktideError)(answer.why)


def _unended(state: JournalState, job: str) -> JobRecord:
    """Return a job that has not ended; raises InputError for another."""
    record = record_of(state, job)
    if not record.active:
        raise InputError(f"job {job!r} must not have ended, but it has ended: {record.status}")
    return record


class NoSpaceError(BackendError):
    """The disk has no space for a file of ours."""


def is_of_the_disk(error: Exception) -> bool:
    """Whether the disk did not take a file of ours, or the journal did not take events."""
    of_the_journal = isinstance(error, BackendError) and isinstance(error.__cause__, sqlite3.Error)
    return of_the_journal or isinstance(error, NoSpaceError)


@contextmanager
def needing_space(what: str) -> Iterator[None]:
    """Raise NoSpaceError where the block writes a file of ours for which the disk has no space."""
    try:
        yield
    except FileError as error:
        cause = error.__cause__
        if not (isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)):
            raise
        raise NoSpaceError(
            f"the disk must have space for {what}, got: {cause.strerror}; free some space and try again"
        ) from error
