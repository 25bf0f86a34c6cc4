"""Logs are told in pieces, whatever a job prints: a line of 1 GB took 5 GB of memory."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slacktide.app.journal.logs import LogLine, Printed
from slacktide.backends.base import PIECE_BYTES, Log
from slacktide.backends.local import LogFile
from slacktide.core.errors import BackendError


class Shelf:
    """A back end that has logs and nothing else."""

    def __init__(self, *logs: LogFile) -> None:
        self._logs = logs

    def logs(self, job: str) -> Sequence[Log]:
        return self._logs


def printed(path: Path) -> Printed:
    shelf: Any = Shelf(LogFile(1, 0, path))
    return Printed(shelf, "job", None, None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rank-0.log"


def test_a_line_of_a_quarter_of_a_gigabyte_is_told_in_pieces_that_fit_into_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 28)  # a hole: zeros that take no room
    tracemalloc.start()
    sizes = [len(told.line) for told in printed(path).more(last=True)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sum(sizes) == 1 << 28
    assert max(sizes) == PIECE_BYTES
    assert peak < 64 * PIECE_BYTES


def test_pieces_say_that_they_go_on_with_a_line(path: Path) -> None:
    path.write_bytes(b"a" * (2 * PIECE_BYTES + 3) + b"\r\nshort\r\n" + b"b" * PIECE_BYTES + b"\nend")
    told = list(printed(path).more(last=True))
    assert [(len(one.line), one.continued) for one in told] == [
        (PIECE_BYTES, False), (PIECE_BYTES, True), (3, True), (5, False),
        (PIECE_BYTES, False), (0, True), (3, False),
    ]  # fmt: skip
    assert told[3] == LogLine(1, 0, "short")


def test_a_character_across_two_pieces_stays_whole(path: Path) -> None:
    text = "x" * (PIECE_BYTES - 1) + "é" + "y"
    path.write_text(text, encoding="utf-8")
    assert "".join(one.line for one in printed(path).more(last=True)) == text


@pytest.mark.parametrize("step", [1, 7, 40_000, 70_000, 200_000])
def test_following_tells_the_same_whenever_it_looks(path: Path, step: int) -> None:
    content = (
        b"one\n\n" + b"z" * 150_000 + "é\n".encode() + b"\xff\ntwo\n" + b"w" * (70_000 if step > 9 else 9)
    )
    follower = printed(path)
    told: list[LogLine] = []
    with path.open("ab", buffering=0) as file:
        rest = content if step > 9 else content[-20:]
        whole = rest
        while rest:
            file.write(rest[:step])
            rest = rest[step:]
            told += follower.more(last=False)
    told += follower.more(last=True)
    text = "".join(("" if one.continued else "\n") + one.line for one in told)
    assert text == "\n" + whole.decode("utf-8", "replace")


@pytest.mark.parametrize("trap", ["link", "pipe"])
def test_what_a_job_put_in_the_place_of_its_log_is_not_followed(path: Path, trap: str) -> None:
    if trap == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/etc/passwd")
    with pytest.raises(BackendError, match="must be a file that can be read"):
        list(LogFile(1, 0, path).read(0))
