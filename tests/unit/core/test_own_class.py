"""Policies of users' own are found by their place, the same from anywhere, and refused helpfully."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slacktide.allocators.base import allocators
from slacktide.checks import check_policy
from slacktide.core.errors import FileError, InputError
from slacktide.core.own_class import with_full_path
from slacktide.files.fleet.fleet import parse_fleet
from slacktide.files.job import read_job_file
from slacktide.policies.base import policies
from slacktide.report.text.sentences.events import policy_name

EXAMPLE = Path(__file__).parents[3] / "examples" / "policy"
OWN = """\
from __future__ import annotations
from dataclasses import dataclass, field
from slacktide import Allocation, FleetView, Reason, View

@dataclass(frozen=True)
class Waits:
    patience: float = 1.0
    seen: list[int] = field(default_factory=list)

    def decide(self, view: View) -> Allocation:
        return Allocation(reason=Reason("wait"))

class Plain:
    def __init__(self, least: int, most: int = 8) -> None:
        self.least, self.most = least, most

    def decide(self, view):
        return Allocation(reason=Reason("wait"))

class UniformProgress(Waits):
    pass

class ForFleets:
    def decide(self, view: FleetView):
        return {}

class Deaf:
    def decide(self):
        return None

class Nothing:
    pass

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    return tmp_path


def test_the_example_has_forty_lines_and_keeps_the_contract() -> None:
    file = read_job_file(EXAMPLE / "job.yaml")
    assert len((EXAMPLE / "patient.py").read_text(encoding="utf-8").splitlines()) <= 40
    check_policy(policies.make(file.policy), examples=15)


def test_a_file_beside_is_named_by_its_whole_path(folder: Path) -> None:
    whole = f"{folder / 'own.py'}:Waits"
    assert with_full_path("own:Waits", folder) == whole
    assert with_full_path("own.py:Waits", folder) == whole
    assert with_full_path("own:Waits", folder / "elsewhere", folder) == whole
    assert with_full_path({"own:Waits": {"patience": 2}}, folder) == {whole: {"patience": 2}}
    assert (
        with_full_path("slacktide.policies.on_demand:OnDemand", folder)
        == "slacktide.policies.on_demand:OnDemand"
    )
    assert with_full_path("on-demand", folder) == "on-demand"


def test_a_class_is_made_with_its_parameters_and_is_the_same_each_time(folder: Path) -> None:
    whole = f"{folder / 'own.py'}:Waits"
    one = policies.make({whole: {"patience": 2.0}})
    assert one == policies.make({whole: {"patience": 2.0}})
    assert (policies.name_of(one), policies.changed(one)) == ("waits", {"patience": 2.0})
    plain = policies.make({f"{folder / 'own.py'}:Plain": {"least": 1}})
    assert policies.name_of(plain) == "plain"
    with pytest.raises(InputError, match="'least' must be given"):
        policies.make(f"{folder / 'own.py'}:Plain")
    with pytest.raises(InputError, match="did you mean 'patience'"):
        policies.make({whole: {"patients": 1}})


def test_an_importable_class_needs_no_file() -> None:
    from slacktide.policies.on_demand import OnDemand

    assert policies.make("slacktide.policies.on_demand:OnDemand") == OnDemand()


def test_a_changed_file_is_another_class(folder: Path) -> None:
    whole = f"{folder / 'own.py'}:Waits"
    before = policies.get(whole)
    (folder / "own.py").write_text(OWN.replace("1.0", "3.0"), encoding="utf-8")
    assert policies.get(whole) is not before
    assert policies.parameters(whole)["patience"] == 3.0


def test_one_called_like_ours_is_told_apart_and_does_not_replace_it(folder: Path) -> None:
    from slacktide.policies.uniform_progress import UniformProgress

    own = policies.get(f"{folder / 'own.py'}:UniformProgress")
    assert policies.name_of(own()) == "own-uniform-progress"
    with pytest.raises(InputError, match="must be unique"):
        policies.register(own)
    assert policies.get("uniform-progress") is UniformProgress


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own:Wait", "must have a class 'Wait', got none; its classes: Deaf, ForFleets, Nothing, Plain"),
        ("own:number", "must be a class, got int"),
        ("own:Nothing", r"a policy must be a class with a method decide\(self, view: View\), got Nothing"),
        ("own:Deaf", "must take self and a view"),
        ("own:ForFleets", "a policy must decide by a View, got ForFleets, an allocator"),
        ("other:Waits", "module 'other' must load, got ModuleNotFoundError"),
        ("other.py:Waits", "must load, got FileNotFoundError"),
        (":Waits", "must be named module:Class"),
    ],
)
def test_what_is_no_policy_is_refused_with_its_line(folder: Path, name: str, words: str) -> None:
    job = folder / "job.yaml"
    job.write_text(
        f"resources: {{accelerators: H100}}\nwork: 1h\ndeadline: 2h\npolicy: '{name}'\n".replace(
            "1h", "1 gpu-hours"
        ),
        encoding="utf-8",
    )
    with pytest.raises(FileError, match=words) as caught:
        read_job_file(job)
    assert caught.value.line == 4


def test_a_file_that_fails_says_how_and_is_tried_again(folder: Path) -> None:
    (folder / "broken.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(InputError, match="nothing_of_this_name"):
            policies.make(f"{folder / 'broken.py'}:Waits")


def test_a_neighbour_can_be_imported(folder: Path) -> None:
    (folder / "part_of_own.py").write_text(OWN, encoding="utf-8")
    (folder / "whole.py").write_text("from part_of_own import Waits\n", encoding="utf-8")
    assert policies.name_of(policies.make(f"{folder / 'whole.py'}:Waits")) == "waits"


def test_a_fleet_file_names_its_allocator(folder: Path) -> None:
    text = "budget: 4 gpus\nclasses: [{name: a, arrivals: 1/hour, work: 1 gpu-hours}]\npolicy: "
    file = parse_fleet(f"{text}own:ForFleets\n", path=folder / "fleet.yaml")
    assert file.policy == f"{folder / 'own.py'}:ForFleets"
    assert parse_fleet(f"{text}fifo\n").policy == "fifo"
    assert allocators.name_of(allocators.make(file.policy)) == "for-fleets"
    with pytest.raises(
        FileError, match="an allocator must decide by a FleetView, got Waits, a policy for one"
    ):
        parse_fleet(f"{text}own:Waits\n", path=folder / "fleet.yaml")
    with pytest.raises(FileError, match="an allocator must be one of the known names, got 'fif'"):
        parse_fleet(f"{text}fif\n")


def test_reports_name_the_file_and_not_its_folders() -> None:
    assert policy_name(json.dumps("/home/me/own.py:Waits")) == "own.py:Waits"
    assert policy_name(json.dumps({"/home/me/own.py:Waits": {"patience": 2}})) == "own.py:Waits(patience=2)"
