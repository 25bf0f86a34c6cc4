"""Every event has a line that says when, who, what and why; nothing is said in silence."""

from __future__ import annotations

import dataclasses
import math

import pytest

from slacktide.core.types import JobState
from slacktide.journal.events import (  # fmt: skip
    KINDS,
    ClockSet,
    Decided,
    Ended,
    Preempted,
    PreemptionAsked,
    Submitted,
    WorkerFailed,
)
from slacktide.report.live.lines import EventLines
from slacktide.report.text.sentences.events import ENDINGS, sentence
from slacktide.report.text.sentences.reasons import reason
from slacktide.report.words import holding, since

from ..conftest import NASTY
from ..runs import BEGAN, ODD_RUNS, ONE_OF_EACH


def decided(before: tuple[int, int], after: tuple[int, int], why: str = "rule", **more: object) -> Decided:
    event = next(event for event in ONE_OF_EACH if isinstance(event, Decided))
    changes = {
        "state": JobState(*before), "spot_gpus": after[0], "on_demand_gpus": after[1], "why": why,
        "wanted_spot_gpus": after[0], "wanted_on_demand_gpus": after[1], "signals": {}, **more,
    }  # fmt: skip
    return dataclasses.replace(event, **changes)  # type: ignore[arg-type]


def test_every_kind_of_event_has_a_line_of_its_own() -> None:
    assert {type(event).__name__ for event in ONE_OF_EACH} == set(KINDS), "one of each kind"
    sentences = [sentence(event) for event in ONE_OF_EACH]
    assert len(set(sentences)) == len(sentences)
    for event, said in zip(ONE_OF_EACH, sentences, strict=True):
        assert type(event).__name__ not in said, "a kind without words of its own"
        assert said.isprintable()
        if event.why:
            assert event.why in said


def test_lines_are_on_the_jobs_own_clock() -> None:
    event_lines = EventLines()
    lines = [event_lines.line(event) for event in ONE_OF_EACH]
    assert BEGAN == 2.5
    assert "   3h30m  market  took 3 of 4 spot GPUs (0.40 GPU-hours of work lost): the market left 1" in lines
    assert (
        "   3h30m  engine  rents on demand: holds 1 spot + 2 on demand (+2 on demand; wanted 1 spot + 3 on "
        "demand): behind-line (progress 4.1 GPU-hours, 5.0 at an even pace, spot $2.10)"
    ) in lines
    assert any(
        "paid $11.00 ($1.00 spot + $10.00 on demand) for 30m of 1 spot + 2 on demand" in one for one in lines
    )
    assert any(line.endswith("the job succeeded after 7h30m") for line in lines)


def test_times_never_go_back_where_several_jobs_share_a_journal() -> None:
    first = next(event for event in ONE_OF_EACH if isinstance(event, Submitted))
    second = dataclasses.replace(first, job="other", at_hours=first.at_hours + 2.0)
    loss = next(event for event in ONE_OF_EACH if isinstance(event, Preempted))
    told = [
        ClockSet(at_hours=0.0, epoch_utc="2026-01-01T00:00:00+00:00", speed=1.0),
        first,
        second,
        dataclasses.replace(loss, at_hours=6.0),
        dataclasses.replace(loss, job="other", at_hours=5.9),
        ClockSet(at_hours=0.0, epoch_utc="2026-01-01T09:00:00+00:00", speed=1.0),
        dataclasses.replace(first, job="later", at_hours=0.5),
    ]
    event_lines = EventLines(named=True)
    times = [event_lines.line(event).split()[0] for event in told]
    assert times == ["0s", "2h30m", "4h30m", "6h", "6h", "6h", "6h30m"]


def test_several_jobs_are_named() -> None:
    assert "  job             market  took 3" in EventLines(named=True).line(ONE_OF_EACH[3])


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ((3, 0), (0, 3), "rents on demand: holds 3 on demand (-3 spot, +3 on demand)"),
        ((0, 0), (0, 2), "rents on demand: holds 2 on demand (+2 on demand)"),
        ((0, 3), (3, 0), "goes back to spot: holds 3 spot (+3 spot, -3 on demand)"),
        ((1, 0), (4, 0), "holds 4 spot (+3 spot)"),
        ((2, 2), (0, 0), "holds nothing (-2 spot, -2 on demand)"),
        ((2, 2), (2, 2), "keeps 2 spot + 2 on demand"),
        ((0, 0), (0, 0), "waits and holds nothing"),
    ],
)
def test_a_change_between_spot_and_on_demand_is_never_silent(
    before: tuple[int, int], after: tuple[int, int], words: str
) -> None:
    assert sentence(decided(before, after)) == f"{words}: rule"


@pytest.mark.parametrize("name", sorted(ODD_RUNS))
def test_news_leaves_out_only_what_goes_on(name: str) -> None:
    events, event_lines = ODD_RUNS[name]().events, EventLines()
    told = [(event, event_lines.news(event)) for event in events]
    for event, line in told:
        assert line is None or line.isprintable()
        if isinstance(event, Decided):
            held = event.state.spot_gpus, event.state.on_demand_gpus
            if held != (event.spot_gpus, event.on_demand_gpus):
                assert line is not None, "a change is news"
        elif isinstance(event, Preempted | Ended):
            assert line is not None
    rules = [event.why for event, line in told if isinstance(event, Decided)]
    shown = [event.why for event, line in told if isinstance(event, Decided) and line]
    assert shown[0] == rules[0]
    assert set(shown) == set(rules), "each new reason is told"


def test_what_is_held_after_a_loss_is_news() -> None:
    event_lines, loss = EventLines(), next(event for event in ONE_OF_EACH if isinstance(event, Preempted))
    same = decided((1, 0), (1, 0))
    assert [event_lines.news(event) is not None for event in (same, same, loss, same, same)] == [
        True, False, True, True, False,
    ]  # fmt: skip


def test_letting_go_is_news_and_says_why() -> None:
    event_lines = EventLines()
    assert event_lines.news(decided((1, 0), (1, 0))) is not None
    assert event_lines.news(decided((1, 0), (1, 0))) is None
    ending = decided((1, 0), (1, 0), why="the controller is stopping", ending="released")
    line = event_lines.news(ending)
    assert line is not None
    assert "stops all workers (1 spot): the controller is stopping" in line


@pytest.mark.parametrize("status", sorted(set(ENDINGS) - {"released"}))
def test_every_ending_has_words(status: str) -> None:
    ended = Ended(job="job", at_hours=4.0, status=status, finish_hours=4.0)  # type: ignore[arg-type]
    assert sentence(ended) == f"the job {ENDINGS[status]} after 4h"


def test_who_missed_the_deadline_may_not_be_done_at_all() -> None:
    ended = Ended(job="job", at_hours=4.0, status="deadline_missed", finish_hours=math.inf)
    assert sentence(ended) == "the job was stopped unfinished at its deadline"


def test_signals_and_exit_codes_are_named() -> None:
    failed = next(event for event in ONE_OF_EACH if isinstance(event, WorkerFailed))
    assert "was killed by SIGKILL" in sentence(failed)
    assert "failed with exit code 3" in sentence(dataclasses.replace(failed, exit_code=3))
    assert "signal 250" in sentence(dataclasses.replace(failed, exit_code=-250))
    assert sentence(PreemptionAsked(at_hours=0.0)) == "asked to preempt all spot GPUs"


def test_reasons_in_plain_words() -> None:
    assert reason("wait", {}) == "wait"
    usual = {"progress_gpu_hours": 1.0, "line_gpu_hours": 2.0, "hours_left": 2.5, "spot_gpus": 3.0}
    said = reason("rule", {**usual, "reserve_usd_per_gpu_hour": 1.5, "own_history_slots": 7.0})
    assert said == (
        "rule (progress 1.0 GPU-hours, 2.0 at an even pace, 2h30m left, 3 spot available, cheap below $1.50, "
        "7 slots of history)"
    )
    plan = {"planned_spot_gpus": 2.0, "planned_on_demand_gpus": 0.0, "mean_spot_gpus": 1.0}
    assert reason("rule", plan) == "rule (planned 2 spot)"
    other = {"my_hours": 1.5, "bid_usd": 2.0, "odd_gpu_hours": 3.0, "x": math.inf}
    assert reason("rule", other) == "rule (my 1h30m, bid $2.00, odd gpu hours 3, x inf)"


def test_times_and_holdings() -> None:
    assert [since(hours) for hours in (0, 1 / 3600, 0.5, 1 + 20.4 / 60, 30, math.inf, -1)] == [
        "0s", "1s", "30m", "1h20m", "1d6h", "never", "-1h",
    ]  # fmt: skip
    assert holding(0, 0) == "nothing"


def test_names_from_outside_cannot_break_a_line() -> None:
    for event in ONE_OF_EACH:
        nasty = dataclasses.replace(event, job=NASTY, why=NASTY)
        assert EventLines(named=True).line(nasty).isprintable()
