"""Progress that is read from what a job prints."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from slacktide.backends.workers import progress
from slacktide.backends.workers.progress import PrintedProgress, share_of

STEPS = r"step (\d+)/(\d+)"


def say(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("pattern", "line", "share"),
    [
        (STEPS, "epoch 2 step 30/120 loss 1.5", 0.25),
        (STEPS, "step 130/120", 1.0),
        (STEPS, "step 1/0", None),
        (r"(\d+)%", " 42%|####", 0.42),
        (r"(\d+) ?%", "1 % done", 0.01),
        (r"done=([\d.]+)", "done=0.5", 0.5),
        (r"done=([\d.]+)", "done=50", 0.5),
        (r"done=([\d.]+)", "done=1", 1.0),
        (r"done=(\S+)", "done=nan", None),
        (r"done=(\S+)", "done=soon", None),
        (r"done=(\S+)", "done=-3", None),
    ],
)
def test_a_match_tells_a_share(pattern: str, line: str, share: float | None) -> None:
    found = re.search(pattern.encode(), line.encode())
    assert found is not None
    assert share_of(found, line.encode()) == share


def test_only_the_last_match_counts_and_only_growth_is_a_sign_of_life(tmp_path: Path) -> None:
    log, tail = tmp_path / "rank-0.log", PrintedProgress(STEPS)
    tail.follow(log, 0.0)
    tail.poll(1.0)
    assert tail.progress.reports == 0
    say(log, "loading\nstep 1/10\nstep 2/10\nevaluating\nstep 3")
    tail.poll(2.0)
    assert (tail.progress.done_share, tail.reported_at, tail.grown_at) == (0.2, 2.0, 2.0)
    say(log, "/10\n")
    tail.poll(3.0)
    say(log, "step 3/10\n")
    tail.poll(4.0)
    assert (tail.progress.done_share, tail.reported_at, tail.grown_at) == (0.3, 4.0, 3.0)


def test_another_attempt_prints_into_another_file(tmp_path: Path) -> None:
    first, second, tail = tmp_path / "a.log", tmp_path / "b.log", PrintedProgress(STEPS)
    say(first, "step 8/10\n")
    os.utime(first, (time.time() - 600, time.time() - 600))
    tail.follow(first, 1000.0)
    assert tail.reported_at is not None
    assert 399 < tail.reported_at < 401, "what was there before us is dated by the file"
    tail.follow(second, 1000.0)
    tail.poll(1001.0)
    assert tail.progress.done_share == 0.8
    say(second, "step 1/10\n")
    tail.poll(1002.0)
    assert (tail.progress.done_share, tail.grown_at) == (0.1, 1002.0)


def test_a_flood_is_read_from_its_end_and_a_long_line_from_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PRINTED_BYTES", 1000)
    log, tail = tmp_path / "log", PrintedProgress(STEPS)
    tail.follow(log, 0.0)
    say(log, "step 1/10\n" + "noise\n" * 1000 + "step 4/10 " + "x" * 500 + "\n" + "y" * 300 + "step 9/10\n")
    tail.poll(1.0)
    assert tail.progress.done_share == 0.4
    say(log, "z" * 900)
    tail.poll(2.0)
    assert len(tail._rest) <= progress.PRINTED_LINE_BYTES


def test_a_pattern_that_takes_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SLOW_S", -1.0)
    log, tail = tmp_path / "log", PrintedProgress(STEPS)
    tail.follow(log, 0.0)
    say(log, "step 1/10\n")
    tail.poll(1.0)
    assert (tail.given_up, tail.reported_at) == (True, None), "progress is estimated from now on"
    tail.poll(2.0)


def test_a_log_that_the_job_replaced_by_something_else_is_not_waited_for(tmp_path: Path) -> None:
    tail = PrintedProgress(STEPS)
    os.mkfifo(tmp_path / "log")
    tail.follow(tmp_path / "log", 0.0)
    (tmp_path / "link").symlink_to("/dev/zero")
    tail.follow(tmp_path / "link", 0.0)
    tail.poll(1.0)
    assert tail.reported_at is None
