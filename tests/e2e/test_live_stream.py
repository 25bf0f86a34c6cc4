"""A stream under `slacktide run --fleet`: real workers on the widths that the stream's policy gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.budget.widths import optimal_widths
from slacktide.cli import run
from slacktide.files.fleet.fleet import read_fleet_file
from slacktide.journal.events import Lived
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_runs import SPEED, counting, state_of, write_table

FLEET = """\
budget: 6 gpus
classes:
  - {name: narrow, arrivals_per_hour: 0.2, work: 4 gpu-hours, speedup: {power: 0.5}, widths: 1..3}
  - {name: wide, arrivals_per_hour: 0.2, work: 8 gpu-hours, widths: 1..3}
"""
JOB = """\
name: {name}
run: {command}
class: {kind}
resources: {{accelerators: "H100:1..3"}}
work: 4 gpu-hours
checkpoint: {{every: 3m, grace: 5s}}
market: {market}
"""


def write(folder: Path, name: str, kind: str) -> str:
    write_table(folder / "market.csv", 40)
    path = folder / f"{name}.yaml"
    text = JOB.format(name=name, kind=kind, command=counting(60), market=folder / "market.csv")
    path.write_text(text, encoding="utf-8")
    return str(path)


def held(journal: Path, job: str) -> set[int]:
    """Return the widths that a job had."""
    with SqliteStore(journal) as store:
        events = [record.event for record in store.read(job=job)]
    return {event.priced.stretch.gpus for event in events if isinstance(event, Lived)}


def test_jobs_of_a_stream_run_on_the_widths_of_their_class(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET, encoding="utf-8")
    jobs = [write(tmp_path, "a", "narrow"), write(tmp_path, "b", "wide"), write(tmp_path, "c", "narrow")]
    assert run(["run", *jobs, "--fleet", str(fleet), "--speed", SPEED]) == 0
    file = read_fleet_file(fleet)
    plan = optimal_widths(file.classes, file.budget_gpus)
    widths = {one.name: [share.gpus for share in one.phases[0]] for one in plan.classes}
    records = state_of(journal).jobs
    for job, kind in (("a", "narrow"), ("b", "wide"), ("c", "narrow")):
        record = records[job]
        assert record.status == "succeeded"
        assert record.money.bill.spot_usd == 0.0
        assert held(journal, job) <= set(widths[kind])
    assert "fixed-width" in capsys.readouterr().out


def test_jobs_with_and_without_deadlines_share_a_market(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(f"policy: {{patient-spot: {{wait_hours: 0.5}}}}\n{FLEET}", encoding="utf-8")
    jobs = [write(tmp_path, name, "wide") for name in ("a", "b", "c")]
    due = Path(jobs[1])
    text = due.read_text(encoding="utf-8").replace("class: wide", "deadline: 30h")
    due.write_text(text, encoding="utf-8")
    assert run(["run", *jobs, "--fleet", str(fleet), "--speed", SPEED]) == 0
    records = state_of(journal).jobs
    assert [record.status for record in records.values()] == ["succeeded"] * 3
    assert sum(record.money.bill.spot_usd for record in records.values()) > 0.0
    assert run(["cost"]) == 0
    assert "no spot was sold twice" in capsys.readouterr().out
    assert run(["why", "b"]) == 0
    assert "patient-spot" in capsys.readouterr().out


def test_a_job_without_a_deadline_must_be_one_of_a_stream(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", write(tmp_path, "a", "narrow"), "--speed", SPEED]) == 2
    assert "must be in a fleet" in capsys.readouterr().err
