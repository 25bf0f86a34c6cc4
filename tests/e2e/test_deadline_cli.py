"""What the command line says and does at a deadline, and of money that cannot be enough."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.cli import run

from .parts_of_runs import SPEED, counting, state_of, write_job


def test_a_job_that_is_not_done_at_its_hard_deadline_is_stopped(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, counting(100_000), deadline="6h")
    assert run(["run", job, "-y", "--speed", SPEED]) == 100
    out = capsys.readouterr().out
    assert "its deadline has passed and after_deadline is 'stop'" in out
    assert "counting was stopped unfinished at its deadline: $" in out
    record = state_of(journal).jobs["counting"]
    assert record.status == "deadline_missed"
    assert record.holding.order is None


def test_what_a_plan_refuses_is_not_run_either(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = write_job(tmp_path, f"touch {tmp_path / 'started'}", more="max_cost: 5 usd\n")
    answers = []
    for command in (["plan", job], ["run", job, "-y", "--speed", SPEED]):
        assert run(command) == 3
        answers.append(capsys.readouterr().err.splitlines()[-1])
    assert answers[0] == answers[1]
    assert "got 5.00 USD" in answers[0]
    needed = float(answers[0].split("would need ")[1].split()[0])
    assert needed > 20.0, "what it needs is not what it may spend"
    assert "if there were no max_cost" in answers[0]
    assert not (tmp_path / "started").exists()
    assert not state_of(journal).jobs
