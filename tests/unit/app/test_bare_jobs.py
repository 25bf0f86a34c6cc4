"""Job files that only name their class in a fleet: what the class says is theirs, here and on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.app.submission import Defaults, FleetText, Submission, request
from slacktide.app.uploads import SubmitRequest, Uploads, checked
from slacktide.errors import InputError

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
