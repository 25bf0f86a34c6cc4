"""The provider `skypilot` on a stand-in for SkyPilot: the contract, what is asked, and how launches fail."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from slacktide.checks import check_provider
from slacktide.core.errors import InputError
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import Machine, NoCapacity, Refused, Renter, Spent
from slacktide.providers.skypilot import Skypilot, cluster_name, parts_of

SPEC = MachineKind("spot", "aws/us-east-1/A100", 8)


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let child processes import the stand-in, and return where its clusters are."""
    module = tmp_path / "modules" / "sky" / "__init__.py"
    module.parent.mkdir(parents=True)
    module.write_text((Path(__file__).parent / "parts_of_sky.py").read_text())
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"), prepend=os.pathsep)
    monkeypatch.setenv("SKY_STAND_IN", str(tmp_path / "state.json"))
    return tmp_path / "state.json"


def of(accelerator: str) -> MachineKind:
    return MachineKind("spot", accelerator, 8)


def only(provider: Skypilot) -> Machine:
    (machine,) = provider.machines()
    return machine


@pytest.mark.usefixtures("state")
def test_the_contract() -> None:
    check_provider(Skypilot, SPEC)


def test_what_skypilot_is_asked_for(state: Path) -> None:
    provider = Skypilot(
        Renter(owner="me", head="10.0.0.1:6379"), prepare="pip install ray", longest_life="2h"
    )
    provider.rent("1-a", SPEC)
    provider.rent("1-a", SPEC)
    told: dict[str, Any] = json.loads(state.read_text())
    assert told["launches"] == 1
    ((name, cluster),) = told["clusters"].items()
    assert name == "slacktide.me.1-a.aws_2fus-east-1_2fA100.spot.8"
    about = cluster["about"]
    assert (about["infra"], about["accelerators"], about["use_spot"]) == ("aws/us-east-1", {"A100": 8}, True)
    assert (about["down"], about["idle"], about["setup"]) == (True, 5, "pip install ray")
    assert about["run"].startswith("timeout 120m ray start --address=10.0.0.1:6379 --num-gpus=8 ")
    assert about["labels"] == {"slacktide-owner": "me", "slacktide-ticket": "1-a"}
    machine = only(provider)
    assert (machine.id, machine.ticket, machine.spec, machine.address) == (name, "1-a", SPEC, "10.1.2.3")
    assert machine.since_utc is not None


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("accelerator", "no", "why"),
    [
        ("FULL", NoCapacity, "ResourcesUnavailableError: FULL as asked"),
        ("DENIED", Refused, "NoCloudAccessError: DENIED as asked"),
        ("BROKEN", Spent, "RuntimeError: BROKEN as asked"),
    ],
)
def test_a_launch_that_fails_is_listed_with_its_reason(
    accelerator: str, no: type[Exception], why: str
) -> None:
    provider = Skypilot(Renter(owner="me"))
    provider.rent("1", of(accelerator))  # returns at once: the launch takes minutes
    machine = only(provider)
    assert (machine.state, machine.ticket, machine.why) == ("gone", "1", why)
    with pytest.raises(no, match=why):
        provider.rent("1", of(accelerator))
    assert provider.everyones() == {}


@pytest.mark.usefixtures("state")
def test_a_launch_under_way_can_be_ended() -> None:
    provider = Skypilot(Renter(owner="me"))
    provider.rent("1", of("SLOW"))
    assert only(provider).state == "starting"
    provider.rent("1", of("SLOW"))
    assert only(provider).state == "starting"
    Skypilot(Renter(owner="you")).end([only(provider).id])  # not yours to end
    assert only(provider).state == "starting"
    provider.end([only(provider).id])
    assert (only(provider).state, only(provider).why) == ("gone", "the launch was cancelled")


def test_no_access_is_refused(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKY_STAND_IN_DENIES", "1")
    with pytest.raises(Refused, match="NoCloudAccessError"):
        Skypilot().machines()


def test_without_skypilot_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sky.py").write_text("raise ImportError('no sky here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(Refused, match="pip install skypilot"):
        Skypilot().machines()


@pytest.mark.parametrize(
    "pool", ["aws/us-east-1a/A100-80GB", "H100", "k8s/my_cluster.x/L4", "ä ö/ü", "a_2fb/c"]
)
def test_names_say_all_and_are_ones_that_skypilot_takes(pool: str) -> None:
    spec = MachineKind("on-demand", pool, 4)
    name = cluster_name("0123-abc", "7-xyz", spec)
    assert parts_of(name) == ("0123-abc", "7-xyz", spec)
    assert name.replace(".", "").replace("_", "").replace("-", "").isalnum()
    assert name.isascii()


@pytest.mark.parametrize("name", ["mine", "slacktide", "slacktide.a.b.c.spot", "slacktide.a.b.c.spot.x"])
def test_other_names_are_none_of_ours(name: str) -> None:
    assert parts_of(name) is None


def test_settings_that_cannot_be_meant() -> None:
    with pytest.raises(InputError, match="idle_minutes must be >= 1, got 0"):
        Skypilot(idle_minutes=0)
    with pytest.raises(Refused, match="must be infra/accelerator, got 'aws/'"):
        Skypilot().rent("1", MachineKind("spot", "aws/", 1))
