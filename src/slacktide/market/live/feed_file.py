"""The file of a feed: what was appended to it since it was last looked at, in pieces of bounded size."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NamedTuple

from slacktide.core.errors import FileError
from slacktide.market.formats.samples import COLUMNS, is_header

PIECE_BYTES = 1 << 16  # read in one look: a thousand rows or two, which take some hundredths of a second
LONGEST_LINE_BYTES = 1 << 12
TAIL_BYTES = 256
"""How much of what was read is compared with what is there now: a file that was rewritten is read anew."""


class FeedLine(NamedTuple):
    """A line with its end."""

    number: int
    data: bytes


class FeedFile:
    """A file that grows by lines. Remembers up to where it was read; after a rewrite it is read anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._offset, self._line, self._tail = 0, 1, b""
        self._inside_long = False

    def changed(self) -> bool:
        """Whether there is something to read; raises OSError where the file cannot be looked at."""
        return self._look() != self._seen

    def passed(self, data: bytes) -> None:
        """Go on after these bytes of the beginning, which the caller has read."""
        self._seen, self._inside_long = (), False
        self._offset, self._line, self._tail = len(data), data.count(b"\n") + 1, data[-TAIL_BYTES:]

    def begin_again(self) -> list[str]:
        """Go back behind the header, and return its names; raises OSError, or FileError where it has none."""
        with self._path.open("rb") as file:
            first = file.readline(LONGEST_LINE_BYTES)
        header, got = header_of(first), first.decode("utf-8", "replace")
        if not header or not first.endswith(b"\n"):
            raise FileError(
                f"a feed must keep its header {','.join(COLUMNS)}, got {got!r:.60}", path=self._path, line=1
            )
        self.passed(first)
        return header

    def give_up(self) -> None:
        """Do not look at the file again before it has changed."""
        self._seen = self._look()

    def more(self) -> list[FeedLine] | None:
        """Return the next lines that are complete; None where what was read does not stand there any more.

        Raises OSError where the file cannot be read, and FileError, once, for a line too long to be meant,
        which is passed over.
        """
        seen = self._look()
        with self._path.open("rb") as file:
            file.seek(self._offset - len(self._tail))
            piece = file.read(len(self._tail) + PIECE_BYTES)
        if not piece.startswith(self._tail):
            return None
        piece = piece[len(self._tail) :]
        end = piece.rfind(b"\n") + 1
        if len(piece) < PIECE_BYTES:
            self._seen = seen  # all that was there
        if not end and len(piece) > LONGEST_LINE_BYTES:
            return self._skip(piece)
        return self._lines(piece[:end])

    def _lines(self, data: bytes) -> list[FeedLine]:
        first, lines = self._line, data.split(b"\n")[:-1]
        self._pass(data)
        numbered = [FeedLine(first + index, line + b"\n") for index, line in enumerate(lines)]
        if self._inside_long and numbered:
            self._inside_long = False
            return numbered[1:]  # the first is the end of a line that was passed over
        return numbered

    def _skip(self, piece: bytes) -> list[FeedLine]:
        reported, self._inside_long = self._inside_long, True
        self._pass(piece)
        if not reported:
            raise FileError(
                f"a row must have at most {LONGEST_LINE_BYTES} bytes, got more",
                path=self._path,
                line=self._line,
            )
        return []

    def _pass(self, data: bytes) -> None:
        self._offset += len(data)
        self._line += data.count(b"\n")
        self._tail = (self._tail + data)[-TAIL_BYTES:]

    def _look(self) -> tuple[int, ...]:
        status = os.stat(self._path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a file any more")  # a pipe could be waited for forever
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def header_of(data: bytes) -> list[str]:
    """Return the names in the first line of a table in CSV; none where it is something else."""
    names = [name.strip() for name in data.partition(b"\n")[0].decode("utf-8-sig", "replace").split(",")]
    return names if is_header(names) else []


def whole_lines(data: bytes) -> bytes:
    """Return a table without the last line while its end has not been written; other files as they are."""
    return data[: data.rfind(b"\n") + 1] if header_of(data) else data
