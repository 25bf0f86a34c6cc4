"""A stranger's policy, in one file beside the job: checked, back-tested, run and taken up from elsewhere."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from slacktide.cli import run

from .parts_of_runs import ROOT, counting, state_of, write_job

EXAMPLE = ROOT / "examples" / "policy"
FLEET = """\
budget: 4 gpus
policy: mine:Mine
classes: [{name: small, arrivals: 1/hour, work: 4 gpu-hours, widths: 1..3}]
"""
MINE = """\
from dataclasses import dataclass
from slacktide import Allocation, FleetView, Reason

@dataclass(frozen=True)
class Mine:
    def decide(self, view: FleetView):
        return {one.id: Allocation(0, 1, reason=Reason("one-each")) for one in view.rows()}
"""


def test_it_is_checked_where_it_lies_and_compared_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    assert run(["policies", "--check", "patient:Patient", "--examples", "5"]) == 0
    monkeypatch.chdir(tmp_path)
    command = ["backtest", "mine/job.yaml", "--policy", "patient:Patient,on-demand", "--starts", "2"]
    assert run([*command, "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out.partition("\n")[2])
    assert [row["policy"] for row in told["summary"]][:2] == ["patient", "on-demand"]


def test_it_runs_a_job_and_the_journal_names_its_file(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(EXAMPLE / "patient.py", tmp_path)
    job = Path(write_job(tmp_path, counting(40)))
    job.write_text(job.read_text().replace("policy: uniform-progress", "policy: patient:Patient"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(["run", str(job), "-y", "--backend", "replay", "--speed", "36000"]) == 0
    (record,) = state_of(journal).jobs.values()
    assert json.loads(record.submitted.policy) == f"{tmp_path / 'patient.py'}:Patient"
    assert "patient.py:Patient" in capsys.readouterr().out


def test_a_fleet_file_brings_its_own_allocator(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(MINE, encoding="utf-8")
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET, encoding="utf-8")
    assert run(["simulate", str(fleet), "--count", "30", "--policy", "mine:Mine,fifo", "-o", "csv"]) == 0
    assert "\nmine," in capsys.readouterr().out
    job = write_job(tmp_path, counting(40), more="class: small\n")
    assert run(["run", job, "--fleet", str(fleet), "-y", "--backend", "replay", "--speed", "36000"]) == 0
    (record,) = state_of(journal).jobs.values()
    assert json.loads(record.submitted.policy) == f"{tmp_path / 'mine.py'}:Mine"
