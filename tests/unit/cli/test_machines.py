"""`slacktide machines` lists what is rented, and ends only what no open ticket explains."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.app.journal.journal import open_journal
from slacktide.checks import provider as trials
from slacktide.cli import run
from slacktide.journal.events import Joined, Rented
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import Renter
from slacktide.results.status import MachineStatus
from slacktide.testing import fake_provider as fake
from slacktide.testing.fake_provider import Fake

SEED = 4711
SPOT = MachineKind("spot", "zone/big", 8)
FILE = f"""\
provider: {{fake: {{seed: {SEED}}}}}
pools:
  zone/big: {{gpus: 8, usd_per_hour: {{spot: 12.0, on-demand: 32.0}}}}
max_machines: 4
max_usd_per_hour: 80
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / "home"))
    (tmp_path / "machines.yaml").write_text(FILE)
    yield tmp_path
    fake.SHARED.pop(SEED, None)


def rent(owner: str, ticket: str) -> None:
    Fake(Renter(owner=owner), seed=SEED).rent(ticket, SPOT)


def living() -> list[str]:
    return sorted(f"{one.owner}/{one.ticket}" for one in fake.SHARED[SEED].living)


def journal() -> str:
    """Make a journal with one ticket open that has a machine, and one that has none; return its id."""
    with open_journal(create=True) as made:
        for number in (1, 2):
            ticket = Rented(
                at_hours=0.0,
                ticket=f"{number}-a",
                capacity="spot",
                pool="zone/big",
                gpus=8,
                usd_per_hour=11.0,
            )
            made.store.append([ticket])
        joined = Joined(at_hours=0.1, ticket="1-a", machine="i-000001", address="ip", boot_hours=0.1)
        made.store.append([joined])
        owner = made._state().id
    rent(owner, "1-a")
    rent(owner, "9-orphan")
    rent("another", "1-b")
    return owner


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["machines", *arguments]) == code
    both = capsys.readouterr()
    return both.out if code == 0 else both.err


def test_what_is_rented_is_listed_with_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    owner = journal()
    lines = printed(capsys).splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["i-000001", "1-a"], ["i-000002", "9-orphan"], ["-", "2-a"],
    ]  # fmt: skip
    assert "ready" in lines[1]
    assert "up, no open ticket" in lines[2]
    assert "asked" in lines[3]
    document = json.loads(printed(capsys, "-o", "json"))
    assert [one["orphan"] for one in document["machines"]] == [False, True, False]
    assert {one["owner"] for one in document["machines"]} == {owner}
    assert [one["usd_per_hour"] for one in document["machines"]] == [11.0, 12.0, 11.0]


def test_a_sweep_ends_what_no_open_ticket_explains_and_asks_first(capsys: pytest.CaptureFixture[str]) -> None:
    owner = journal()
    assert "got no terminal to ask on; add -y" in printed(capsys, "--sweep", code=2)
    assert "9-orphan" in printed(capsys, "--sweep", "--dry-run")
    assert len(living()) == 3
    assert "ended 1" in printed(capsys, "--sweep", "-y")
    assert living() == sorted([f"{owner}/1-a", "another/1-b"])
    assert "no machine is without an open ticket" in printed(capsys, "--sweep", "-y")


def test_without_a_journal_it_must_be_said_whose_machines_are_meant(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rent("lost", "1-x")
    rent("another", "1-b")
    assert "give --journal PATH, --owner ID or --all-owners" in printed(capsys, code=2)
    assert "must not be given together" in printed(capsys, "--owner", "lost", "--all-owners", code=2)
    out = json.loads(printed(capsys, "--sweep", "-y", "--owner", "lost", "-o", "json"))
    assert out["ended"] == ["i-000001"]
    assert living() == ["another/1-b"]
    assert "another" in printed(capsys, "--all-owners")
    printed(capsys, "--sweep", "-y", "--all-owners")
    assert living() == []
    assert printed(capsys, "--all-owners") == "no machines are rented\n"


def test_a_sweep_of_all_owners_spares_what_the_journal_explains(capsys: pytest.CaptureFixture[str]) -> None:
    owner = journal()
    printed(capsys, "--sweep", "-y", "--all-owners")
    assert living() == [f"{owner}/1-a"]


def test_a_dry_run_says_what_the_limits_leave(capsys: pytest.CaptureFixture[str]) -> None:
    journal()
    out = printed(capsys, "--dry-run")
    assert re.search(r"spot +zone/big +8 +12\.00 +1 more", out)
    assert re.search(r"on-demand +zone/big +8 +32\.00 +1 more", out)
    could = json.loads(printed(capsys, "--dry-run", "-o", "json"))["could_rent"]
    assert [one["machines"] for one in could] == [1.0, 1.0]


def test_a_bill_shows_the_journals_hours_next_to_the_providers(capsys: pytest.CaptureFixture[str]) -> None:
    journal()
    lines = printed(capsys, "--bill").splitlines()
    assert [line.split()[:2] for line in lines[1:4]] == [
        ["i-000001", "1-a"], ["-", "2-a"], ["i-000002", "9-orphan"],
    ]  # fmt: skip
    assert "still rented" in lines[1]
    assert "unknown" in lines[2]
    assert "not in the journal" in lines[3]
    assert lines[-1].startswith("3 machines: ")
    assert lines[-1].endswith("1 is not compared: the provider no longer lists it, or gives no times")
    document = json.loads(printed(capsys, "--bill", "-o", "json"))
    assert (document["compared"], document["unknown"]) == (2, 1)
    first, unlisted, stray = document["machines"]
    assert first["our_hours"] >= first["their_hours"] > 0.0, "its ticket was there before it was"
    assert (unlisted["their_hours"], unlisted["difference_share"]) == (None, None)
    assert (stray["in_journal"], stray["our_usd"], stray["usd_per_hour"]) == (False, 0.0, 12.0)


def test_a_bill_is_about_a_journal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for other in ("--all-owners", "--sweep", "--dry-run"):
        assert f"got {other}; leave one of them out" in printed(capsys, "--bill", other, code=2)
    assert "got --owner" in printed(capsys, "--bill", "--owner", "lost", code=2)
    assert "a journal or an owner of machines must be given" in printed(capsys, "--bill", code=2)
    with open_journal(create=True):
        pass
    assert printed(capsys, "--bill") == "no machines were ever rented\n"


def test_every_key_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/json.md").read_text(encoding="utf-8")
    part = page.split("## slacktide machines")[1].split("\n## ")[0]
    for key in [*MachineStatus.__dataclass_fields__, "machines", "ended", "could_rent"]:
        assert f"`{key}`" in part, key


def test_providers_are_listed_and_checked(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "LATE_S", 0.0)
    assert run(["providers"]) == 0
    out = capsys.readouterr().out
    assert "ec2\n    Rents instances of Amazon EC2" in out
    assert "settings: file" in out
    assert run(["providers", "-o", "json"]) == 0
    known = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in known] == ["ec2", "fake", "fixed", "ray-cluster", "skypilot"]
    assert all("renter" not in one["parameters"] for one in known)
    (folder / "lab.csv").write_text(
        "address,pool,kind,gpus\n" + "".join(f"{n},lab,spot,1\n" for n in range(3))
    )
    (folder / "lab.yaml").write_text("provider: {fixed: {file: lab.csv}}\npools: {lab: {gpus: 1}}\n")
    assert run(["providers", "--check", "lab.yaml"]) == 2
    assert "must be confirmed" in capsys.readouterr().err
    assert run(["providers", "--check", "lab.yaml", "-y"]) == 0
    assert "keeps the contract" in capsys.readouterr().out
