"""Errors of a full disk: trouble of this machine, which may pass, and no mistake in the request."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from slacktide.core.errors import BackendError, FileError


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
