"""The output of a job's workers, line by line; reading can continue from where an earlier reader stopped."""

from __future__ import annotations

import codecs
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from slacktide.backends.base import PIECE_BYTES, Backend, Log
from slacktide.core.errors import InputError, shown


class LogLine(NamedTuple):
    """A line that a worker printed, or a piece of a long one."""

    attempt: int  # the set of workers; 0 is the set-up
    rank: int
    line: str
    continued: bool = False  # whether it continues the line before, which was too long for one row

    def as_json(self) -> dict[str, Any]:
        """Return it under its documented keys, with `continued` only if that is true."""
        fields = self._asdict()
        return fields if self.continued else {name: fields[name] for name in ("attempt", "rank", "line")}


class _Reader:
    """How far one worker's output was read: how many bytes, and whether that is inside a line."""

    def __init__(self, read_bytes: int = 0, inside: bool = False) -> None:
        self.bytes = read_bytes
        self.inside = inside
        """Whether the next piece continues a line."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may lie across pieces

    def take(self, piece: bytes, last: bool) -> tuple[str, bool] | None:
        """Return a piece as text, and whether it continues a line; None while its rest may still come."""
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
        """Follow all workers of a job, or some; `after` is the `place` where an earlier reader stopped."""
        self._backend, self._job = backend, job
        self._rank, self._attempt = rank, attempt
        self._readers: defaultdict[tuple[int, int], _Reader] = defaultdict(_Reader)
        for part in filter(None, after.split(",")):
            self._readers.update([_placed(part)])

    @property
    def place(self) -> str:
        """How far it was read, such as `1/0:512,1/1:90+`: attempt/rank:bytes, with + inside a line."""
        return ",".join(
            f"{attempt}/{rank}:{reader.bytes}{'+' * reader.inside}"
            for (attempt, rank), reader in self._readers.items()
            if reader.bytes
        )

    def more(self, *, last: bool) -> Iterator[LogLine]:
        """Yield new lines; a line without its end is held back unless this is the `last` call."""
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
    match = _PLACE.fullmatch(part)
    if match is None:
        raise InputError(f"a place in logs must be a `next`, such as 1/0:512, got {shown(part)}")
    attempt, rank, read, inside = match.groups()
    return (int(attempt), int(rank)), _Reader(int(read), bool(inside))
