"""What a journal has learned of a job: read for the next plan, said in a sentence, and never in the way."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from slacktide.app.markets.market import MarketSpec
from slacktide.app.planning.plan import last_runs, make_plan
from slacktide.app.task_requests import PlanRequest, local_task
from slacktide.cli import run
from slacktide.journal.events import Ended, Event, Held, PaceRevised, Submitted
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.physics.pace import Pace, mean_factor, prior, see
from slacktide.report.text.sentences.plan import last_words
from tests import build

ROOT = Path(__file__).parents[3]
JOB = """\
name: {name}
run: "true"
resources: {{accelerators: "H100:1..4"}}
work: 40 gpu-hours +-30%
deadline: 40h
"""
MARKET = "synthetic:h100?days=8&slot=2h&seed=4"


def paced(ratio: float) -> Pace:
    """Return what is believed after hours on two widths at this ratio to the file's pace."""
    return see(see(prior(0.3), 2, 3.0, ratio), 4, 2.0, ratio)


def submitted(job: str, name: str) -> Submitted:
    return build.submitted(
        job,
        text=JOB.format(name=name),
        path="job.yaml",
        policy='"on-demand"',
        work_gpu_hours=40.0,
        deadline_hours=40.0,
    )


def life(
    job: str, pace: Pace | None, *, name: str = "train", real: bool = True, status: str = "succeeded"
) -> list[Event]:
    """Return the events of a run that measured its pace."""
    told: list[Event] = [submitted(job, name)]
    if real:
        told.append(Held(job=job, at_hours=0.0, attempt=1, spot_gpus=2, on_demand_gpus=0))
    if pace is not None:
        for gpus, hours in ((2, 1.0), (4, 2.0), (2, 2.0)):
            told.append(PaceRevised(job=job, at_hours=3.0, gpus=gpus, measured_hours=hours, pace=pace))
    told.append(Ended(job=job, at_hours=9.0, status=status, finish_hours=9.0))  # type: ignore[arg-type]
    return told


def write(path: Path, *lives: list[Event]) -> Path:
    with SqliteStore(path) as store:
        for one in lives:
            store.append(one)
    return path


def test_the_last_measured_run_is_told_with_the_mean_of_all(tmp_path: Path) -> None:
    slower, faster = paced(0.8), paced(1.25)
    journal = write(tmp_path / "j.db", life("train", slower), life("train-2", faster))
    found = last_runs(journal, "train")
    assert found is not None
    works = [40.0 / mean_factor(pace, 1) for pace in (slower, faster)]
    assert (found.runs, found.last.job) == (2, "train-2")
    assert found.last.work_gpu_hours == pytest.approx(works[1])
    assert found.last.work_gpu_hours == pytest.approx(32.0, rel=0.03)
    assert found.mean_work_gpu_hours == pytest.approx(sum(works) / 2)
    assert found.last.file_work_gpu_hours == 40.0
    assert 0.0 < found.last.work_spread_share < 0.3
    assert [(one.gpus, one.hours) for one in found.last.widths] == [(2, 3.0), (4, 2.0)]
    assert [one.speed_ratio for one in found.last.widths] == pytest.approx([1.25, 1.25], rel=0.03)
    assert found.last.ended_utc.year >= 2026


@pytest.mark.parametrize(
    "told",
    [
        life("train", None),
        life("train", paced(0.8), real=False),
        life("train", paced(0.8), status="failed"),
        life("train", see(prior(0.3), 2, 0.1, 0.8)),
        life("train", paced(0.8))[:-1],
        life("train-2", paced(0.8), name="train-2"),
        life("trainer", paced(0.8), name="trainer"),
    ],
    ids=["not measured", "dry run", "failed", "too short", "goes on", "named like a second run", "another"],
)
def test_what_measured_nothing_of_this_job_is_left_out(told: list[Event], tmp_path: Path) -> None:
    assert last_runs(write(tmp_path / "j.db", told), "train") is None


def test_no_journal_is_made_and_a_damaged_one_is_in_nobodys_way(tmp_path: Path) -> None:
    assert last_runs(tmp_path / "none" / "j.db", "train") is None
    assert list(tmp_path.iterdir()) == []
    broken = tmp_path / "broken.db"
    broken.write_text("no journal", encoding="utf-8")
    assert last_runs(broken, "train") is None
    assert broken.read_text(encoding="utf-8") == "no journal"


def test_a_plan_says_what_the_last_run_took(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "job.yaml", tmp_path / "plan.html"
    file.write_text(JOB.format(name="train"), encoding="utf-8")
    journal = write(tmp_path / "j.db", life("train", paced(0.8)))
    plan = ["plan", str(file), "--market", MARKET, "--policy", "on-demand", "--journal", str(journal)]
    with SqliteStore(journal, create=False) as store:
        before = store.last_seq()
    assert run([*plan, "--report", str(page)]) == 0
    said = "The last run of train took 49.8 GPU-hours; the file says 40.0."
    assert said in capsys.readouterr().out
    assert said in page.read_text(encoding="utf-8")
    assert run([*plan, "-o", "json"]) == 0
    document = json.loads(capsys.readouterr().out)["last_runs"]
    assert document["runs"] == 1
    assert document["last"]["work_gpu_hours"] == pytest.approx(49.8, abs=0.05)
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    assert not {key for key in (*document, *document["last"]) if f"`{key}`" not in text}
    with SqliteStore(journal, create=False) as store:
        assert store.last_seq() == before


def test_the_sentence_knows_several_runs_and_a_file_that_says_unknown(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB.format(name="train").replace("40 gpu-hours +-30%", "unknown"), encoding="utf-8")
    journal = write(tmp_path / "j.db", life("train", paced(0.8)), life("train-2", paced(0.8)))
    request = PlanRequest(text=file.read_text(encoding="utf-8"), name=str(file), policy="on-demand")
    made = make_plan(local_task(request, MarketSpec(source=MARKET), journal))
    assert last_words(made) == (
        "The last run of train took 49.8 GPU-hours; the file says that it is unknown. "
        "The mean of 2 runs is 49.8."
    )
    assert last_words(dataclasses.replace(made, last_runs=None)) == ""
