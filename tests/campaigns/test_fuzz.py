"""The short form of the fuzz campaign, and that it sees what it must."""

from __future__ import annotations

from pathlib import Path

import pytest

from campaigns import fuzz
from campaigns.fuzz import watch
from campaigns.fuzz.inputs import TARGETS, Case, case
from campaigns.fuzz.verdict import Outcome, problem


def test_mutated_inputs_are_answered_with_a_sentence() -> None:
    counts = fuzz.run(150, 1, lambda words: None)
    assert counts["inputs"] == 150
    assert counts["with exit code 0"] > 10
    assert counts["with exit code 2"] > 50


def test_the_same_seed_makes_the_same_inputs_and_another_one_others() -> None:
    first = [case(1, number) for number in range(20)]
    case.cache_clear()
    assert [case(1, number) for number in range(20)] == first
    assert [case(2, number) for number in range(20)] != first


def test_every_reader_is_among_the_targets() -> None:
    drawn = {case(1, number).target for number in range(300)}
    assert drawn == set(TARGETS)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome(None, trouble="Traceback (most recent call last): ..."), "Traceback"),
        (Outcome(1, err="it failed"), "exit code 1"),
        (Outcome(4, err="the disk is full"), "exit code 4"),
        (Outcome(2, err=""), "without a word"),
        (Outcome(2, err="slacktide: error: 'NoneType' object"), "NoneType"),
        (Outcome(2, err="x" * 700), "a line of 700 characters"),
        (Outcome(0, out='{"cost": NaN}'), "no JSON"),
        (Outcome(0, out="a table"), "no JSON"),
    ],
)
def test_what_is_a_finding(outcome: Outcome, words: str) -> None:
    assert words in problem(Case("job files", ("plan", "job.yaml", "-o", "json"), {}), outcome)


@pytest.mark.parametrize(
    "outcome", [Outcome(0, out="{}"), Outcome(2, err="must hold"), Outcome(3, err="cannot")]
)
def test_what_is_none(outcome: Outcome) -> None:
    assert not problem(Case("job files", ("plan", "job.yaml", "-o", "json"), {}), outcome)


def test_an_input_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "CPU_S", 0.5)
    with watch.Watched(tmp_path, 1, "tests.campaigns.spinning") as worker:
        assert "a hang: " in worker.try_input(0).trouble
        assert "the end of the process (exit code 7)" in worker.try_input(1).trouble, "a fresh one goes on"
