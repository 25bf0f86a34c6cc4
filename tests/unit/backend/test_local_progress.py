"""What a job says of itself is read line by line, whatever it writes."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from slacktide.backend.local import progress
from slacktide.backend.local.progress import Progress, Tail, said


def say(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "progress.jsonl"


@pytest.mark.parametrize(
    ("fact", "done", "checkpointed"),
    [
        ({"done": 0.42}, 0.42, 0.42),
        ({"done": 0.42, "checkpointed": 0.4}, 0.42, 0.4),
        ({"done": 0.42, "checkpointed": 0.5}, 0.42, 0.42),
        ({"done": 1.7}, 1.0, 1.0),
        ({"done": -3}, 0.0, 0.0),
        ({"done": 1, "checkpointed": 0, "more": [1]}, 1.0, 0.0),
    ],
    ids=range(6),
)
def test_shares(fact: object, done: float, checkpointed: float) -> None:
    assert said(json.dumps(fact).encode(), Progress())[:2] == (done, checkpointed)


def test_metrics_stay_until_they_are_said_anew() -> None:
    first = said(b'{"done": 0.1, "metrics": {"loss": 2, "rate": 5}}', Progress())
    second = said(b'{"metrics": {"loss": 1.5, "bad": NaN, "word": "x", "yes": true}}', first)
    assert second == Progress(0.1, 0.1, {"loss": 1.5, "rate": 5.0}, reports=1)


BROKEN = [
    *("x", "{", "[]", "3", "\xff\xfe", "[" * 100_000),
    *('{"done": "1"}', '{"done": NaN}', '{"done": true}', '{"done": null}', '{"done": 1' + "0" * 400 + "}"),
    *('{"metrics": 1}', '{"done": 0.5, "checkpointed": "x"}'),
]


@pytest.mark.parametrize("line", BROKEN, ids=range(len(BROKEN)))
def test_broken_lines_are_counted_and_skipped(path: Path, line: str) -> None:
    tail = Tail(path, 0.0)
    say(path, f'{{"done": 0.3}}\n{line}\n')
    tail.poll(1.0)
    assert (tail.progress.done_share, tail.broken_lines) == (0.3, 1)
    say(path, '\n  \n{"done": 0.4}\n')
    tail.poll(2.0)
    assert (tail.progress.done_share, tail.broken_lines) == (0.4, 1)


def test_half_a_line_waits_for_its_end(path: Path) -> None:
    tail = Tail(path, 0.0)
    say(path, '{"done": 0.3}\n{"do')
    tail.poll(1.0)
    assert tail.progress.done_share == 0.3
    say(path, 'ne": 0.5}')
    tail.poll(2.0)
    assert tail.progress.done_share == 0.3
    say(path, "\n")
    tail.poll(3.0)
    assert (tail.progress.done_share, tail.broken_lines) == (0.5, 0)


def test_work_lost_is_told_by_the_last_line(path: Path) -> None:
    tail = Tail(path, 0.0)
    say(path, '{"done": 0.5, "checkpointed": 0.4}\n{"done": 0.4}\n')
    tail.poll(1.0)
    assert tail.progress[:2] == (0.4, 0.4)


@pytest.mark.parametrize("how", ["shortened", "replaced"])
def test_a_new_file_is_read_from_its_beginning(path: Path, how: str) -> None:
    say(path, '{"done": 0.5}\n{"done": 0.6}\n{"half": ')
    tail = Tail(path, 0.0)
    if how == "shortened":
        os.truncate(path, 0)
        say(path, '{"done": 0.1}\n')
    else:
        fresh = path.with_name("fresh")
        say(fresh, '{"done": 0.1}\n' + '{"metrics": {"loss": 1}}\n' * 9)
        fresh.replace(path)
    tail.poll(1.0)
    assert (tail.progress.done_share, tail.broken_lines) == (0.1, 0)


def test_growth_is_dated_by_our_clock_and_what_was_there_by_the_file(path: Path) -> None:
    say(path, '{"done": 0.5}\n')
    os.utime(path, (time.time() - 600, time.time() - 600))
    tail = Tail(path, 1000.0)
    assert tail.progress.done_share == 0.5
    assert 399 < tail.grown_at < 401
    tail.poll(1010.0)
    assert tail.grown_at < 401
    say(path, '{"do')
    tail.poll(1020.0)
    assert tail.grown_at == 1020.0


def test_a_line_without_an_end_does_not_fill_the_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AT_MOST_BYTES", 100)
    tail = Tail(path, 0.0)
    say(path, "x" * 1000 + '\n{"done": 0.9}\n')
    for now in range(12):
        tail.poll(float(now))
    assert tail.progress.done_share == 0.9
    assert tail.broken_lines > 0


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    tail = Tail(tmp_path, 0.0)
    tail.poll(1.0)
    assert tail.progress == Progress()
