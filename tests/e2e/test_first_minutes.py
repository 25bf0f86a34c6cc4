"""What a newcomer types first: a file to start from, the examples, and the wheel that brings them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from slacktide.app.setup.examples import file_of, list_examples
from slacktide.cli import run
from slacktide.files.fleet.fleet import read_fleet_file
from slacktide.files.job import read_job_file

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_job_file_is_written_planned_and_never_overwritten(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "--gpus", "V100", "--deadline", "4h", "--name", "first"]) == 0
    assert "next: slacktide plan job.yaml" in capsys.readouterr().err
    before = (here / "job.yaml").read_text(encoding="utf-8")
    assert read_job_file("job.yaml").job.name == "first"
    assert run(["plan", "job.yaml", "--policy", "uniform-progress"]) == 0
    assert run(["init", "--name", "second"]) == 2
    assert "job.yaml must not exist yet, but it does" in capsys.readouterr().err
    assert (here / "job.yaml").read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--gpus", "H100"],
        ["--gpus", "H100:{1,2,4,8}", "--work", "3 gpu-hours"],
        ["--gpus", "A100:4..64", "--deadline", "20m"],
        ["--deadline", "20d"],
        ["--deadline", "2199-05-01T18:00Z"],
    ],
)
def test_a_job_file_is_right_as_it_is(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if "2199-05-01T18:00Z" in options:
        assert run(["init", *options]) == 2
        assert "--deadline: must be within ten years" in capsys.readouterr().err
        return
    assert run(["init", *options]) == 0
    file = read_job_file("job.yaml")
    job = file.job
    assert job.restart_hours + job.work_hours(job.fastest_width) <= 0.8 * job.deadline_hours
    written = Path("job.yaml").read_text(encoding="utf-8")
    uncommented = written.replace("# value", "value").replace(
        "# worthless_after: 18h", "worthless_after: 30d"
    )
    assert uncommented != written
    Path("other.yaml").write_text(uncommented, encoding="utf-8")
    assert not read_job_file("other.yaml").job.hard


def test_a_fleet_file_is_right_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--fleet", "--gpus", "H100:{16,64}", "--name", "bert"]) == 0
    assert [one.name for one in read_fleet_file("fleet.yaml").classes] == ["bert", "training"]
    assert run(["budget", "fleet.yaml"]) == 0
    assert run(["init", "--fleet", "more.yaml", "--deadline", "3h"]) == 2
    assert "--deadline must not be given with --fleet" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--name", "x y"], "--name: must be 1 to 63 letters"),
        (["--gpus", "H100:"], "--gpus: "),
        (["--deadline", "12"], "--deadline: a duration must be a number with its unit"),
        (["--work", "4"], "--work: work must be a number with its unit"),
    ],
)
def test_bad_options_write_nothing(
    here: Path, options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", *options]) == 2
    assert words in capsys.readouterr().err
    assert list(here.iterdir()) == []


def test_work_that_cannot_be_in_time_is_refused(here: Path) -> None:
    assert run(["init", "--work", "4000 gpu-hours"]) == 3
    assert list(here.iterdir()) == []


def test_a_file_can_be_printed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "-"]) == 0
    assert "deadline: 16h" in capsys.readouterr().out
    assert list(here.iterdir()) == []


def test_examples_are_listed_with_a_sentence_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["examples", "-o", "json"]) == 0
    listed = {one["name"]: one["summary"] for one in json.loads(capsys.readouterr().out)}
    assert {"llama-lora", "fleet", "numpy", "lora", "policy"} <= set(listed)
    assert all(len(summary) > 20 and summary.endswith(".") for summary in listed.values())
    assert run(["examples"]) == 0
    assert "llama-lora" in capsys.readouterr().out


def test_every_example_is_copied_with_all_it_reads_and_never_overwritten(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for one in list_examples():
        assert run(["examples", one.name, "mine"]) == 0
        copy = file_of(here / "mine" / one.path.name)
        if copy.suffix == ".md":
            continue
        if "classes:" in copy.read_text(encoding="utf-8"):
            read_fleet_file(copy)
        else:
            read_job_file(copy)
    assert run(["examples", "fleet", "mine"]) == 2
    assert "must not exist yet, but it does" in capsys.readouterr().err
    assert run(["examples", "flet"]) == 2
    assert "did you mean 'fleet'" in capsys.readouterr().err


def test_the_wheel_brings_the_examples(here: Path) -> None:
    """Build the wheel, unpack it, and ask the command in it: nothing of the repository is seen."""
    pytest.importorskip("hatchling", reason="pip install -r requirements.lock brings what builds wheels")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(here / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (here / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(here / "installed")
        assert not [name for name in packed.namelist() if "__pycache__" in name]
    code = "import sys; from slacktide.cli import run; sys.exit(run(['examples', 'fleet', 'got']))"
    environment = {**os.environ, "PYTHONPATH": str(here / "installed")}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=here)
    assert {path.name for path in (here / "got").iterdir()} == {"fleet.yaml", "speedup.csv"}
