"""Machines of a list are taken by one owner at a time, and what is wrong is said with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.journal.state.tickets import MachineKind, MemoryMachineLog
from slacktide.providers.base import NoCapacity, Refused, Renter, Rules, Unreachable, providers
from slacktide.providers.fixed import Fixed
from slacktide.providers.reconciler import Reconciler

LIST = "address,pool,kind,gpus\n10.0.0.1,lab,on-demand,8\n10.0.0.2,lab,on-demand,8\n10.0.0.3,lab,spot,4\n"
LAB = MachineKind("on-demand", "lab", 8)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "lab.csv"
    path.write_text(LIST)
    return str(path)


def fixed(file: str, owner: str = "one") -> Fixed:
    return Fixed(Renter(owner=owner), file)


def test_two_owners_share_one_list(file: str) -> None:
    one, two = fixed(file), fixed(file, "two")
    one.rent("1", LAB)
    one.rent("1", LAB)
    two.rent("1", LAB)
    with pytest.raises(NoCapacity):
        two.rent("2", LAB)
    assert [(machine.id, machine.state) for machine in one.machines()] == [("10.0.0.1", "up")]
    assert [machine.id for machine in two.machines()] == ["10.0.0.2"]
    one.end(["10.0.0.2"])
    assert {owner: len(found) for owner, found in one.everyones().items()} == {"one": 1, "two": 1}
    two.end(["10.0.0.2"])
    two.end(["10.0.0.2"])
    assert not two.machines()


def test_one_that_is_taken_off_the_list_is_given_up_and_set_free(file: str) -> None:
    diary = MemoryMachineLog()
    keeper = Reconciler(fixed(file), diary, Rules())
    keeper.step({LAB: 1}, 0.0)
    Path(file).write_text(LIST.replace("10.0.0.1,lab,on-demand,8\n", ""))
    keeper.step({LAB: 1}, 0.1)
    assert "is not in" in diary.facts[1].why
    assert [machine.id for machine in keeper.step({LAB: 1}, 0.2).machines.values()] == ["10.0.0.2"]
    assert len(fixed(file).machines()) == 1


def test_a_list_may_be_yaml(tmp_path: Path) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text("- {address: a, pool: lab, kind: spot, gpus: 2}\n- {address: b, pool: lab, kind: spot}\n")
    with pytest.raises(Refused, match=r"lab\.yaml:2: gpus must be given"):
        fixed(str(path)).machines()
    path.write_text("- {address: a, pool: lab, kind: spot, gpus: 2}\n")
    fixed(str(path)).rent("1", MachineKind("spot", "lab", 2))
    assert [machine.address for machine in fixed(str(path)).machines()] == ["a"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("address,pool,kind,gpus\na,lab,spot,0\n", ":2: gpus must be a whole number >= 1, got '0'"),
        ("address,pool,kind,gpus\na,lab,cheap,1\n", ":2: kind must be spot or on-demand, got 'cheap'"),
        ("address,pool,kind,gpus\na,x,spot,1\na,x,spot,1\n", ":3: a machine must be listed once, got 'a'"),
        ("pool,kind,gpus\nlab,spot,1\n", ":2: address must be given for every machine"),
    ],
)
def test_what_is_wrong_with_a_list_is_said_with_its_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "lab.csv"
    path.write_text(text)
    with pytest.raises(Refused) as error:
        fixed(str(path)).machines()
    assert says in str(error.value)


def test_no_list_and_no_room(tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match=r"none\.csv: must be a readable file, got: No such file"):
        providers.make({"fixed": {"file": str(tmp_path / "none.csv")}}).machines()
    (tmp_path / "other.csv").write_bytes(b"address,pool\n\xff")
    with pytest.raises(Refused, match=r"other\.csv:2:1: must be UTF-8 text"):
        providers.make({"fixed": {"file": str(tmp_path / "other.csv")}}).machines()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.link", full)
    with pytest.raises(Unreachable, match="No space left"):
        fixed(file).rent("1", LAB)
    assert not fixed(file).machines()
