"""What the workers of a job printed, line by line, also while they go on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from slacktide.backend.base import Backend, Log


class LogLine(NamedTuple):
    """A line that a worker printed."""

    attempt: int
    """The set of workers; 0 is the set-up."""
    rank: int
    line: str


class Printed:
    """Follows the output of a job's workers, one after another as they come."""

    def __init__(self, backend: Backend, job: str, rank: int | None, attempt: int | None) -> None:
        self._backend, self._job = backend, job
        self._rank, self._attempt = rank, attempt
        self._read: Counter[tuple[int, int]] = Counter()
        """Bytes that were read of what each worker printed."""

    def more(self, *, last: bool) -> Iterator[LogLine]:
        """Yield the lines that came since; a line without its end only when nothing more will come."""
        for log in self._backend.logs(self._job):
            if self._rank in (None, log.rank) and self._attempt in (None, log.attempt):
                yield from (LogLine(log.attempt, log.rank, line) for line in self._lines(log, last))

    def _lines(self, log: Log, last: bool) -> Iterator[str]:
        who = log.attempt, log.rank
        for line in log.read(self._read[who]):
            if not line.endswith(b"\n") and not last:
                return
            self._read[who] += len(line)
            yield line.decode("utf-8", "replace").rstrip("\r\n")
