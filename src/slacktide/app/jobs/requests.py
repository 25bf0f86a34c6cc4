"""Errors and keys of requests to a journal's controller: an unknown job, a refusal, a disk that is full."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from slacktide.core.errors import (
    BackendError,
    FileError,
    InfeasibleError,
    InputError,
    SlacktideError,
    UnknownNameError,
    shown,
)
from slacktide.journal.state.journal_state import JobRecord, JournalState, RequestAnswer

LONGEST_KEY = 200  # characters of a key: enough for any name that a program makes


class UnknownJobError(UnknownNameError):
    """A job is not in the journal."""

    exit_code = 102
    http_status = 404


class WithdrawnError(SlacktideError):
    """A submission was withdrawn before a controller accepted it."""

    exit_code = 103
    http_status = 409


def record_of(state: JournalState, job: str) -> JobRecord:
    """Return a job of a journal; raises UnknownJobError with a guess."""
    if job not in state.jobs:
        raise UnknownJobError("a job", job, [*state.jobs, *state.requests.waiting])
    return state.jobs[job]


def check_key(key: str) -> None:
    """Raise InputError unless a key can name a request."""
    if not (0 < len(key) <= LONGEST_KEY and key.isprintable() and key == key.strip()):
        must = f"a key must be 1 to {LONGEST_KEY} printable characters without blanks at its ends"
        raise InputError(f"{must}, got {shown(key)} of {len(key)}; leave it out to have one made")


def refusal(answer: RequestAnswer) -> SlacktideError:
    """Return the error for which the controller refused a request."""
    kinds = {kind.exit_code: kind for kind in (InputError, InfeasibleError, BackendError, WithdrawnError)}
    return kinds.get(answer.exit_code, SlacktideError)(answer.why)


class NoSpaceError(BackendError):
    """The disk has no space for a file that Slacktide must write."""


def is_of_the_disk(error: Exception) -> bool:
    """Whether a file or the journal could not be written, because of the disk."""
    of_the_journal = isinstance(error, BackendError) and isinstance(error.__cause__, sqlite3.Error)
    return of_the_journal or isinstance(error, NoSpaceError)


@contextmanager
def needing_space(what: str) -> Iterator[None]:
    """Raise NoSpaceError if the block cannot write a file, such as `what`, because the disk is full."""
    try:
        yield
    except FileError as error:
        cause = error.__cause__
        if not (isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)):
            raise
        raise NoSpaceError(
            f"the disk must have space for {what}, got: {cause.strerror}; free some space and try again"
        ) from error
