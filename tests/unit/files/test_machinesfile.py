"""A machines file is read with the place of every mistake."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from slacktide.core.errors import FileError
from slacktide.files.machines import parse_machines, read_machines_file
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import Renter
from slacktide.testing.fake_provider import Fake

GOOD = """\
provider: {fake: {seed: 7, boot_hours: 0.1}}
pools:
  us-east-1a/p4d.24xlarge: {gpus: 8, usd_per_hour: {spot: 12.0, on-demand: $32.77}}
  lab: {gpus: 4, usd_per_hour: 1}
max_machines: 16
max_usd_per_hour: 100
join_within: 10m
"""
BIG = "us-east-1a/p4d.24xlarge"


def test_all_of_it() -> None:
    file = parse_machines(GOOD)
    assert file.specs() == [
        MachineKind("spot", BIG, 8),
        MachineKind("on-demand", BIG, 8),
        MachineKind("spot", "lab", 4),
        MachineKind("on-demand", "lab", 4),
    ]
    rules = file.rules(speed=2.0)
    assert rules.usd_per_hour[("on-demand", BIG)] == 32.77
    assert (rules.max_machines, rules.max_usd_per_hour) == (16, 100.0)
    assert rules.join_within_hours == pytest.approx(1 / 3)
    provider = file.provider_for(Renter(owner="me"))
    assert isinstance(provider, Fake)
    assert (provider.renter.owner, provider.seed) == ("me", 7)


def test_the_least() -> None:
    file = parse_machines("provider: fake\npools: {lab: {gpus: 4}}\n")
    assert (file.max_machines, file.max_usd_per_hour, file.join_within_hours) == (math.inf, math.inf, 0.25)
    assert [spec.kind for spec in file.specs()] == ["spot", "on-demand"]
    assert isinstance(file.provider_for(Renter()), Fake)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("max_machines: 16", "max_machine: 16", "5:1: a key must be one of the known names"),
        ("max_machines: 16", "max_machines: 0", "5:15: max_machines: must be a whole number >= 1, got '0'"),
        ("fake:", "fakes:", "1:11: provider: a provider must be one of the known names, got 'fakes'"),
        ("seed: 7", "sed: 7", "1:11: provider 'fake': a parameter must be one of the known names"),
        ("boot_hours: 0.1", "lost_share: 2", "1:11: provider: lost_share must be >= 0"),
        ("spot: 12.0", "sport: 12.0", "a key of pools.us-east-1a/p4d.24xlarge.usd_per_hour must be one of"),
        ("spot: 12.0", "spot: cheap", "usd_per_hour.spot: must be a number, got 'cheap'"),
        ("usd_per_hour: 1}", "usd_per_hour: -1}", "pools.lab.usd_per_hour: must be >= 0, got '-1'"),
        ("{gpus: 4, usd_per_hour: 1}", "{gpus: 4}", "a price > 0 of every pool, got none for 'lab'"),
        ("{gpus: 4, usd_per_hour: 1}", "{usd_per_hour: 1}", "4:8: pools.lab.gpus must be given"),
        ("{gpus: 4, usd_per_hour: 1}", "4", "4:8: pools.lab: must be a mapping of keys to values, got '4'"),
        ("join_within: 10m", "join_within: 10", "7:14: join_within: a duration must be"),
    ],
)  # fmt: skip
def test_mistakes_have_a_place_and_a_remedy(old: str, new: str, says: str) -> None:
    assert old in GOOD
    with pytest.raises(FileError) as error:
        parse_machines(GOOD.replace(old, new), path="machines.yaml")
    assert says in str(error.value)
    assert str(error.value).startswith("machines.yaml:")


def test_an_empty_file_is_told_what_it_must_name() -> None:
    with pytest.raises(FileError, match="must name at least provider and pools"):
        parse_machines("")


OWN = """
class Cellar:
    def __init__(self, renter, shelf: int = 1):
        self.renter, self.shelf = renter, shelf
    def rent(self, ticket, spec): ...
    def end(self, ids): ...
    def machines(self): return []
class Half:
    def rent(self, ticket, spec): ...
"""


def test_a_provider_of_ones_own_is_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "cellar.py").write_text(OWN.replace("renter,", "renter=None,", 1))
    file = tmp_path / "machines.yaml"
    file.write_text("provider: {'cellar:Cellar': {shelf: 3}}\npools: {a: {gpus: 1}}\n")
    provider = read_machines_file(file).provider_for(Renter(owner="me"))
    assert type(provider).__name__ == "Cellar"
    file.write_text("provider: cellar:Half\npools: {a: {gpus: 1}}\n")
    with pytest.raises(FileError, match="methods rent, end, machines, got Half without end, machines"):
        read_machines_file(file)
