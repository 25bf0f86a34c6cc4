"""A fleet is learned back from a table of its own jobs, whatever the table calls its columns."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slacktide.app.fleets.past_jobs import fleet_text, learn_fleet
from slacktide.cli import run
from slacktide.core.errors import FileError, InputError
from slacktide.core.speedup import Amdahl
from slacktide.files.fleet.fleet import parse_fleet
from slacktide.files.fleet.past_jobs import read_past

EXAMPLES = Path(__file__).parents[3] / "examples" / "past-jobs"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def write_past(path: Path, count: int = 800) -> None:
    """Write jobs of two kinds: 24 and 8 a day, of 4 and 20 GPU-hours, 0.9 and 0.97 of them parallel."""
    chance, now = random.Random(3), BEGIN
    rows = ["class,submit,duration_s,num_gpus"]
    for _ in range(count):
        now += timedelta(hours=chance.expovariate(32 / 24))
        name, work, share = chance.choices([("small", 4.0, 0.9), ("large", 20.0, 0.97)], [3, 1])[0]
        gpus = chance.choice([1, 2, 4, 8])
        hours = work * chance.lognormvariate(-0.045, 0.3) / Amdahl(share)(gpus)
        rows.append(f"{name},{now.timestamp():.0f},{hours * 3600:.0f},{gpus}")
    path.write_text("\n".join(rows), encoding="utf-8")


def test_the_fleet_that_made_the_jobs_is_found_again(tmp_path: Path) -> None:
    write_past(tmp_path / "past.csv")
    found = {one.name: one for one in learn_fleet(str(tmp_path / "past.csv")).classes}
    assert found["small"].per_hour * 24 == pytest.approx(24, rel=0.1)
    assert found["large"].per_hour * 24 == pytest.approx(8, rel=0.2)
    assert found["small"].work_gpu_hours == pytest.approx(4, rel=0.1)
    assert found["large"].work_gpu_hours == pytest.approx(20, rel=0.12)
    assert found["small"].parallel_share == pytest.approx(0.9, abs=0.03)
    assert found["large"].parallel_share == pytest.approx(0.97, abs=0.03)
    assert found["small"].work_spread == pytest.approx(0.3, abs=0.06)
    assert found["small"].widths == (1, 2, 4, 8)


@pytest.mark.parametrize(("name", "classes"), [("sacct", 3), ("wandb", 2)])
def test_the_examples_make_fleets_that_can_be_budgeted(
    name: str, classes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["fleet", "learn", str(EXAMPLES / f"{name}.csv")]) == 0
    text = capsys.readouterr().out
    assert len(parse_fleet(text).classes) == classes
    assert "UNSURE: a guess, all ran on" in text
    assert "# Left out: " in text
    (tmp_path / "fleet.yaml").write_text(text, encoding="utf-8")
    assert run(["budget", str(tmp_path / "fleet.yaml")]) == 0


def test_steps_and_jobs_that_did_not_end_are_left_out_and_counted() -> None:
    past = read_past(EXAMPLES / "sacct.csv")
    assert past.left_out["steps of jobs"] == 7
    assert past.left_out["failed jobs"] > 0
    assert past.columns["gpus"] == "alloctres"


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("jobname,submit,elapsed,alloctres", 'a,{iso},1-01:30:00,"cpu=8,gres/gpu=2"'),
        ("jobname,submit,elapsedraw,alloctres", 'a,{iso},91800,"cpu=8,gres/gpu:h100=2"'),
        ("name,created,runtime,gpu_count", "a,{epoch},91800,2"),
        ("name,created_at,_runtime,gpu_count", "a,{epoch}000,91800.0,2"),
        ("class,start,end,gpus", "a,{iso},{end},2"),
    ],
)
def test_times_and_durations_may_be_written_as_people_do(tmp_path: Path, header: str, row: str) -> None:
    words = {
        "iso": BEGIN.strftime("%Y-%m-%dT%H:%M:%S"),
        "epoch": f"{BEGIN.timestamp():.0f}",
        "end": (BEGIN + timedelta(hours=25.5)).isoformat(),
    }
    (tmp_path / "past.csv").write_text(f"{header}\n{row.format(**words)}\n", encoding="utf-8")
    (job,) = read_past(tmp_path / "past.csv").jobs
    assert job.came_hours == pytest.approx(BEGIN.timestamp() / 3600)
    assert job.hours == pytest.approx(25.5)
    assert (job.gpus, job.kind) == (2, "a")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a table must have a header"),
        ("class,gpus,duration_s\n", "a column must say when a job arrived"),
        ("class,submit,duration_s\n", "a column must say on how many GPUs"),
        ("class,submit,gpus\n", "a column must say how long a job ran"),
        ("class,submit,gpus,duration_s\n", "at least one that ran to its end, got no rows"),
        ("class,submit,gpus,duration_s\na,yesterday,1,5\n", "past.csv:2: column 'submit' must be a time"),
        ("class,submit,gpus,duration_s,state\na,5,1,5,FAILED\n", "got 1 failed jobs"),
    ],
)
def test_a_table_that_does_not_say_enough_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "past.csv").write_text(text, encoding="utf-8")
    with pytest.raises(FileError, match=words):
        read_past(tmp_path / "past.csv")


def test_kinds_beyond_the_most_are_taken_together(tmp_path: Path) -> None:
    rows = [f"kind {n},{3600 * n},{n + 1},60" for n in range(9)]
    (tmp_path / "past.csv").write_text("\n".join(["class,submit_s,gpus,duration_s", *rows]), encoding="utf-8")
    learned = learn_fleet(str(tmp_path / "past.csv"), classes=3)
    assert [one.name for one in learned.classes] == ["kind-8", "kind-7", "other"]
    assert sum(one.jobs for one in learned.classes) == 9
    parse_fleet(fleet_text(learned))
    with pytest.raises(InputError, match="--by must be a column"):
        learn_fleet(str(tmp_path / "past.csv"), by="team")
