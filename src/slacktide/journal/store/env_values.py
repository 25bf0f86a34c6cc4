"""Keeps the values of variables that jobs take over from the submitter: next to the journal, never in it.

A journal may be shown to anyone, such a value only to its job. It is on the disk before the job is in the
journal, so that a controller in another shell, or on another day, finds it, until the job has ended.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from slacktide.core.errors import FileError
from slacktide.core.files import is_our_own_folder, make_private_folder, write_private
from slacktide.journal.store.paths import runs_of

FOLDER = ".values"
_JOB, _REQUEST, _END = "job-", "request-", ".json"


def job_values(job: str) -> str:
    """Return the name under which the values of a job are kept."""
    return f"{_JOB}{job}"


def request_values(key: str) -> str:
    """Return the name under which the values of a request are kept; its key may be any text."""
    return f"{_REQUEST}{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


class EnvValues:
    """A folder that no other user may read, with a file for each job or request that takes values over."""

    def __init__(self, folder: Path) -> None:
        """Name the folder; it is made when the first value is kept."""
        self.folder = folder

    def keep(self, name: str, values: Mapping[str, str]) -> None:
        """Write values to disk, replacing those of the same name; raises FileError when that fails."""
        if not values:
            self.drop(name)
            return
        path = self._path(name)
        try:
            make_private_folder(self.folder)
        except OSError as error:
            raise FileError(f"its folder must be writable, got: {error.strerror}", path=path) from error
        self._check()
        write_private(path, json.dumps(dict(values)).encode())

    def of(self, name: str) -> dict[str, str]:
        """Return the values under a name, none where none are kept; raises FileError for a damaged file."""
        path = self._path(name)
        if not os.path.lexists(path):
            return {}
        self._check()
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="utf-8") as file:
                return {str(key): str(value) for key, value in json.load(file).items()}
        except (OSError, ValueError, AttributeError, RecursionError):
            # The message quotes neither the text nor its cause: both may hold the values.
            raise FileError(
                "must be a file of variables, whole, got another; submit the job again", path=path
            ) from None

    def drop(self, name: str) -> None:
        """Remove the values under a name, if there are any; those that cannot be removed stay private."""
        try:
            self._path(name).unlink(missing_ok=True)
        except OSError:
            return

    def jobs(self) -> Iterator[str]:
        """Yield the jobs that values are kept for."""
        try:
            names = os.listdir(self.folder)
        except OSError:
            return
        for name in names:
            if name.startswith(_JOB) and name.endswith(_END):
                yield name.removeprefix(_JOB).removesuffix(_END)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}{_END}"

    def _check(self) -> None:
        if not is_our_own_folder(self.folder):
            raise FileError(
                "the folder of values must belong to the user and be not writable by others, got another; "
                "remove it, or name another journal with --journal",
                path=self.folder,
            )


def values_of(journal: Path) -> EnvValues:
    """Return the folder of a journal's values; no job has a folder of runs that begins with a dot."""
    return EnvValues(runs_of(journal) / FOLDER)
