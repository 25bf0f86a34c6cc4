"""What a job says of itself is read line by line, whatever it writes."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from slacktide.backends.workers import progress
from slacktide.backends.workers.progress import ReportedProgress, Tail, parse_report


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
    assert parse_report(json.dumps(fact).encode(), ReportedProgress())[:2] == (done, checkpointed)


def test_metrics_stay_until_they_are_said_anew() -> None:
    first = parse_report(b'{"done": 0.1, "metrics": {"loss": 2, "rate": 5}}', ReportedProgress())
    second = parse_report(b'{"metrics": {"loss": 1.5, "bad": NaN, "word": "x", "yes": true}}', first)
    assert second == ReportedProgress(0.1, 0.1, {"loss": 1.5, "rate": 5.0}, reports=1, saved="assumed")


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
    say(path, '{"metrics": {"loss": 1}}\n{"done": 0.5}\n')
    tail.poll(1020.0)
    assert tail.grown_at < 401, "only progress that grows counts"
    say(path, '{"done": 0.6}\n')
    tail.poll(1030.0)
    assert tail.grown_at == 1030.0
    tail.begin_anew()
    say(path, '{"done": 0.4}\n')
    tail.poll(1040.0)
    assert tail.grown_at == 1040.0, "new workers may have to do again what was done"
    say(path, '{"done": 0.3}\n{"done": 0.4}\n')
    tail.poll(1050.0)
    assert tail.grown_at == 1040.0, "to and fro is no progress"


def test_a_line_without_an_end_does_not_fill_the_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LONGEST_LINE_BYTES", 100)
    tail = Tail(path, 0.0)
    for _ in range(10):
        say(path, "x" * 99)
        tail.poll(0.0)
        assert len(tail._rest) <= 100
    say(path, '{"done": 0.1}\n{"done": 0.9}\n')
    tail.poll(1.0)
    assert (tail.progress.done_share, tail.progress.reports, tail.broken_lines) == (0.9, 1, 1)


def test_a_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    tail = Tail(tmp_path, 0.0)
    tail.poll(1.0)
    assert tail.progress == ReportedProgress()


class Counted:
    """Counts what a look costs: bytes that are read and lines that are parsed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = self.lines = 0
        pread, said_before = os.pread, progress.parse_report

        def reading(handle: int, count: int, at: int) -> bytes:
            found = pread(handle, count, at)
            self.bytes += len(found)
            return found

        def saying(line: bytes, before: ReportedProgress) -> ReportedProgress:
            self.lines += 1
            return said_before(line, before)

        monkeypatch.setattr("slacktide.backends.workers.progress.os.pread", reading)
        monkeypatch.setattr(progress, "parse_report", saying)


MOST_LINES = progress.AT_MOST_LINES + 2 * progress.TRIES


def test_a_hundred_thousand_metric_names_cost_a_bounded_look(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail, cost = Tail(path, 0.0), Counted(monkeypatch)
    for first in range(0, 100_000, 25_000):
        say(path, "".join(f'{{"metrics": {{"m{first + more}": 1}}}}\n' for more in range(25_000)))
        cost.lines = 0
        tail.poll(0.0)
        assert cost.lines <= MOST_LINES
    cost.lines = 0
    say(path, json.dumps({"metrics": {f"n{number}": 1 for number in range(100_000)}}) + "\n")
    say(path, json.dumps({"metrics": {"x" * 65: 1}}) + "\n")
    for now in range(5):
        tail.poll(float(now))
    assert cost.lines <= MOST_LINES
    assert len(tail.progress.metrics) <= progress.MOST_METRICS
    assert tail.metrics[progress.UNREAD] > 90_000
    known = next(iter(tail.progress.metrics))
    say(path, json.dumps({"metrics": {known: 7, "new": 1}}) + "\n")
    tail.poll(9.0)
    assert tail.metrics[known] == 7
    assert "new" not in tail.metrics


def test_a_progress_file_of_gigabytes_costs_a_bounded_look_and_its_last_word_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = Counted(monkeypatch)
    noise = b'{"metrics": {"loss": 1.5}}\n' * 40_000
    with path.open("wb") as file:
        file.write(b'{"done": 0.2}\n')
        file.seek(2 << 30)  # a hole: two gigabytes that take no room
        file.write(b'\n{"done": 0.7, "checkpointed": 0.6}\n{"done": "no"}\n{"metrics": {"\\"done\\"": 1}}\n')
        file.write(noise * 3)
    tail = Tail(path, 0.0)
    assert (tail.progress.done_share, tail.progress.checkpointed_share) == (0.7, 0.6)
    assert tail.progress.metrics == {"loss": 1.5}
    assert cost.lines <= MOST_LINES
    assert cost.bytes <= progress.SEARCHED_BYTES + 100 * progress.LONGEST_LINE_BYTES
    cost.bytes = 0
    say(path, '{"done": 0.8}\n')
    tail.poll(1.0)
    assert (tail.progress.done_share, cost.bytes) == (0.8, 14)


def test_where_nothing_is_said_the_search_for_it_ends(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cost = Counted(monkeypatch)
    with path.open("wb") as file:
        file.write(b'{"done": 0.2}\n')
        file.truncate(1 << 40)
    tail = Tail(path, 0.0)
    assert (tail.progress, cost.lines) == (ReportedProgress(), 0)
    assert cost.bytes <= progress.SEARCHED_BYTES + 100 * progress.LONGEST_LINE_BYTES


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_pace_the_last_word_counts(
    path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Small bounds, random lines in random portions: a bounded reader knows what one without bounds does."""
    chosen = random.Random(seed)
    monkeypatch.setattr(progress, "AT_MOST_BYTES", 300)
    monkeypatch.setattr(progress, "LONGEST_LINE_BYTES", 60)
    monkeypatch.setattr(progress, "AT_MOST_LINES", 5)
    tail, told = Tail(path, 0.0), 0.0
    for _ in range(30):
        for _ in range(chosen.choice([0, 1, 3, 40])):
            match chosen.choice(["done", "metrics", "long", "broken"]):
                case "done":
                    told = round(chosen.random(), 6)
                    say(path, json.dumps({"done": told}) + "\n")
                case "metrics":
                    say(path, '{"metrics": {"loss": 1}}\n')
                case "long":
                    say(path, json.dumps({"done": 0.123, "x": "y" * chosen.randint(60, 700)}) + "\n")
                case _:
                    say(path, '{"done": oh}\n')
        tail.poll(0.0)
        assert tail.progress.done_share == told
