"""Job files that only name their class in a fleet: what the class says is theirs, here and on a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from slacktide.app.jobs.submission import Defaults, FleetText, Submission, request
from slacktide.app.markets.market import MarketSpec
from slacktide.app.task_requests import PlanRequest, SubmitRequest, read_request
from slacktide.client.remote import text_to_send
from slacktide.core.errors import InputError
from slacktide.files.job import parse_job, read_job_file
from slacktide.service.tasks.task_worker import Setting
from slacktide.service.tasks.verbs import answer, market_of
from slacktide.service.uploads.job_checks import checked
from slacktide.service.uploads.uploads import Uploads

FLEET = """\
budget: 16 gpus
price: 2 usd
classes:
  - {name: small, arrivals: 4/day, work: 2 gpu-hours, speedup: {amdahl: 0.9}, restart: 6m, widths: "1..4"}
  - {name: odd, arrivals: 4/day, work: 2 gpu-hours, widths: [1, 4]}
"""
BARE = "name: mine\nclass: small\nrun: 'true'\n"


@pytest.fixture
def fleet() -> FleetText:
    """A fleet of two classes."""
    return FleetText(FLEET, "fleet.yaml")


def test_a_job_is_what_its_class_says(tmp_path: Path, fleet: FleetText) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(BARE, encoding="utf-8")
    asked = request(Submission.read(str(path), key="k"), 0.0)
    assert asked.text == BARE, "it is the controller who knows the fleet"
    taken = Defaults(fleet=fleet).submission(asked)
    job = taken.file.job
    assert (job.name, job.work_gpu_hours, job.widths, job.restart_hours) == ("mine", 2.0, (1, 2, 3, 4), 0.1)
    assert Submission.read(str(path), fleet=fleet).file.job == job


def test_what_the_file_says_comes_first(fleet: FleetText) -> None:
    text = fleet.completed(BARE.replace("small", "odd") + "work: 9 gpu-hours\n")
    file = checked(SubmitRequest(text=text))
    assert (file.job.work_gpu_hours, file.job.widths) == (9.0, (1, 4))
    whole = BARE + "work: 1 gpu-hours\nresources: {accelerators: 'H100:1'}\n"
    assert fleet.completed(whole) == whole


def test_a_server_takes_such_a_job(tmp_path: Path, fleet: FleetText) -> None:
    uploads = Uploads(tmp_path, fleet)
    asked = SubmitRequest(text=BARE.replace("class: small\n", ""), job_class="small")
    taken = uploads.submission(asked, "k")
    assert taken.file.job.work_gpu_hours == 2.0
    assert uploads.is_same(asked, fleet.completed(BARE.replace("class: small\n", "") + "class: small\n"))
    assert not uploads.is_same(asked, BARE.replace("mine", "yours"))
    with pytest.raises(InputError, match="a class must be one of"):
        checked(SubmitRequest(text=BARE.replace("small", "smal")), fleet)
    with pytest.raises(InputError, match="resources"):
        checked(SubmitRequest(text=BARE))


RUNS = "gpus,throughput,model\n1,10,a\n2,19.3,a\n4,31,a\n1,7,b\n3,20,b\n"


@pytest.mark.parametrize(
    "said",
    [
        "work: 9 gpu-hours\nspeedup: {csv: {file: runs.csv, where: {model: a}}}\n",
        "phases:\n- {work: 2 gpu-hours, speedup: {csv: {file: runs.csv, where: {model: b}}}}\n"
        "- {work: 3 gpu-hours, speedup: {amdahl: 0.9}}\n",
    ],
)
def test_what_was_measured_goes_with_the_job(tmp_path: Path, said: str) -> None:
    (tmp_path / "runs.csv").write_text(RUNS, encoding="utf-8")
    path = tmp_path / "job.yaml"
    job = "name: mine\nrun: 'true'\ndeadline: 12h\nresources: {accelerators: 'H100:1..4'}\n"
    path.write_text(job + said, encoding="utf-8")
    sent = text_to_send(str(path))
    assert "csv" not in sent
    assert "amdahl" in sent or "phases" not in sent
    assert checked(SubmitRequest(text=sent)).job == read_job_file(str(path)).job


def test_what_was_measured_for_a_class_is_its_jobs_too(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(RUNS, encoding="utf-8")
    measured = FLEET.replace("{amdahl: 0.9}", "{csv: {file: runs.csv, where: {model: a}}}")
    fleet = FleetText(measured, str(tmp_path / "fleet.yaml"))
    job = checked(SubmitRequest(text=BARE), fleet).job
    assert job.speedup(2) == pytest.approx(1.93)
    assert job.speedup == fleet.parsed().templates[0].job.speedup
    (tmp_path / "runs.csv").unlink()
    with pytest.raises(InputError, match=r"runs\.csv"):
        fleet.completed(BARE)


def test_a_server_plans_such_a_job(tmp_path: Path, fleet: FleetText) -> None:
    market = MarketSpec(source="synthetic:h100?days=4&slot=30m&seed=2")
    setting = Setting(journal=str(tmp_path / "none.db"), market=market, fleet=fleet)
    setting = read_request(Setting, msgspec.json.encode(setting))  # as the process is started with
    text = BARE + "deadline: 12h\npolicy: on-demand\n"
    made = answer(setting, "plan", {"text": text, "wants": ["text"]})
    assert (made["job"], "instead of 4" in made["made"]["text"]) == ("mine", True), made["made"]["text"]
    with pytest.raises(InputError, match="must be YAML"):
        answer(setting, "plan", {"text": "a: [b"})


def test_questions_are_about_the_market_that_the_fleet_s_jobs_are_on() -> None:
    budget = FLEET.replace(
        "budget: 16 gpus\nprice: 2 usd\n", "budget: 600 usd/month\nmarket: synthetic:h100?days=2\n"
    )
    fleet, request = FleetText(budget, "fleet.yaml"), PlanRequest(text=BARE)
    file = parse_job(fleet.completed(BARE))

    def market(**setting: Any) -> str | None:
        return market_of(Setting(journal="none", fleet=fleet, **setting), file, request).source

    assert market() == "synthetic:h100?days=2"
    assert market(market=MarketSpec(source="synthetic:v100")) == "synthetic:v100", (
        "what serve was told comes first"
    )
