"""What stands round a live run on the command line: the question, the signals, the exit code."""

from __future__ import annotations

import os
import signal
import types
from pathlib import Path
from typing import Any

import pytest

from slacktide.app.markets.market import MarketSpec
from slacktide.cli import run
from slacktide.cli.commands.run import agreed
from slacktide.cli.shared.interruptions import StopRequests
from slacktide.cli.shared.run_options import RunOptions
from slacktide.cli.shared.run_report import exit_code
from slacktide.journal.store.sqlite import SqliteStore
from tests import build

JOB = str(Path(__file__).parents[3] / "examples" / "llama-lora.yaml")
PLAN_TASK = RunOptions(MarketSpec()).plan
FLEET = str(Path(__file__).parents[3] / "examples" / "fleet.yaml")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A terminal on which the user answers as the list says; every plan names the pool `best`."""
    answers: list[str] = []
    monkeypatch.setattr("slacktide.cli.commands.run.is_interactive", lambda: True)
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("click.confirm", lambda question: answers.pop(0) == "y")
    monkeypatch.setattr(
        "slacktide.app.planning.plan.make_plan",
        lambda *given, **more: types.SimpleNamespace(pool="best", moving=None),
    )
    monkeypatch.setattr("slacktide.report.text.tables.plan.page", lambda plan: "THE PLAN")
    return answers


def test_the_plan_is_shown_and_its_pool_is_run(
    terminal: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.append("y")
    assert agreed(tmp_path / "none.db", [JOB], PLAN_TASK) == "best"
    assert "THE PLAN" in capsys.readouterr().out
    wanted = RunOptions(MarketSpec(pool="other"))
    assert wanted.on_pool("best").market.pool == "best"
    assert wanted.on_pool("") == wanted


def test_of_several_plans_no_pool_is_taken(terminal: list[str], tmp_path: Path) -> None:
    terminal.append("y")
    other = str(Path(JOB).with_name("soft-deadline.yaml"))
    assert agreed(tmp_path / "none.db", [JOB, other], PLAN_TASK) == ""


def test_a_no_starts_nothing(terminal: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal.append("n")
    journal = tmp_path / "journal.db"
    assert run(["run", JOB, "--journal", str(journal)]) == 103
    assert "nothing was started" in capsys.readouterr().err
    assert not journal.exists()


class StoppedHere(Exception):
    """The run was about to begin."""


def stop_here(*given: object, **more: object) -> None:
    raise StoppedHere


@pytest.mark.parametrize("option", [["-y"], ["--fleet", FLEET], []])
def test_no_question_with_yes_or_a_fleet_or_without_a_terminal(
    terminal: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: list[str]
) -> None:
    if not option:
        monkeypatch.setattr("slacktide.cli.commands.run.is_interactive", lambda: False)
    monkeypatch.setattr("slacktide.cli.commands.run.submit_or_resume", stop_here)
    with pytest.raises(StoppedHere):
        run(["run", JOB, "--journal", str(tmp_path / "journal.db"), *option])


def test_a_job_that_was_begun_is_not_planned_again_but_others_are_named(
    terminal: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.db"
    with SqliteStore(journal) as store:
        store.append(
            [
                build.submitted("x", path=JOB, slot_hours=1.0)
            ]
        )  # fmt: skip
    assert agreed(journal, [JOB], PLAN_TASK) == ""
    assert "THE PLAN" not in capsys.readouterr().out
    terminal.append("y")
    other = str(Path(JOB).with_name("soft-deadline.yaml"))
    assert agreed(journal, [other], PLAN_TASK) == "best"
    out = capsys.readouterr().out
    assert "THE PLAN" in out
    assert f"which resume too: {JOB}" in out


def test_signals_are_noted_and_handlers_given_back() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with StopRequests() as stop:
        assert not stop()
        assert stop.note() == ""
        os.kill(os.getpid(), signal.SIGINT)
        assert stop()
        assert stop.note().startswith("stopping: ")
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.note().startswith("already stopping: ")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        (["succeeded"], 0),
        (["succeeded", "succeeded"], 0),
        (["failed"], 100),
        (["deadline_missed"], 100),
        (["budget_exhausted"], 101),
        ([None], 101),
        (["cancelled"], 103),
        (["succeeded", "cancelled"], 103),
        (["cancelled", None], 101),
        (["cancelled", None, "failed", "succeeded"], 100),
        ([], 0),
    ],
)
def test_the_worst_end_is_the_exit_code(statuses: list[Any], code: int) -> None:
    assert exit_code([status or "running" for status in statuses]) == code
