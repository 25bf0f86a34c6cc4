"""Every provider keeps the contract, also one with faults, and broken ones do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from slacktide.checks import PROVIDER_CHECKS, CheckFailed, check_provider
from slacktide.checks import provider as checks
from slacktide.checks import provider as trials
from slacktide.checks.provider import MakeProvider, ProviderCheck
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import Machine, Provider, Renter, providers
from slacktide.providers.fixed import Fixed
from slacktide.testing.fake_provider import Cloud, Fake, Faults

SPEC = MachineKind("on-demand", "zone/big", 8)


def test_the_usual_ones_are_known() -> None:
    assert {"ec2", "fake", "fixed", "ray-cluster", "skypilot"} <= set(providers)


def faked(faults: Faults | None = None, kind: type[Fake] = Fake) -> MakeProvider:
    cloud = Cloud(lambda: 0.0 if faults is None else time.monotonic() / 3600.0, seed=3, faults=faults)

    def make(renter: Renter) -> Provider:
        return kind(renter, cloud=cloud)

    return make


@pytest.mark.parametrize("check", PROVIDER_CHECKS, ids=lambda check: check.__name__)
def test_a_cloud_in_memory_keeps_the_contract(check: ProviderCheck) -> None:
    with trials.provider_trial(faked(), SPEC) as one:
        check(one)


def test_faults_break_no_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LATE_S", 0.05)
    check_provider(faked(Faults(lost_share=0.3, throttled_share=0.2, late_hours=0.03 / 3600.0)), SPEC)


def test_a_list_of_machines_keeps_the_contract(tmp_path: Path) -> None:
    file = tmp_path / "lab.csv"
    rows = "".join(f"10.0.0.{number},zone/big,on-demand,8\n" for number in range(4))
    file.write_text("address,pool,kind,gpus\n" + rows)
    check_provider(lambda renter: Fixed(renter, str(file)), SPEC)
    assert not Fixed(file=str(file)).everyones(), "all was set free"


@pytest.fixture(autouse=True)
def _in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LATE_S", 0.0)


class Doubles(Fake):
    """Takes every question for a new one."""

    def rent(self, ticket: str, spec: MachineKind) -> None:
        self._cloud._of_ticket.clear()
        super().rent(ticket, spec)


class Forgets(Fake):
    """Knows its tickets only as long as it lives."""

    known: dict[int, set[str]] = {}  # noqa: RUF012

    def rent(self, ticket: str, spec: MachineKind) -> None:
        if ticket not in self.known.setdefault(id(self), set()):
            self._cloud._of_ticket.pop((self.renter.owner, ticket), None)
        self.known[id(self)].add(ticket)
        super().rent(ticket, spec)


class MixesOwners(Fake):
    """Lists everybody's machines."""

    def machines(self) -> Sequence[Machine]:
        return [machine for _, machine in self._cloud.listed()]


class LosesTickets(Fake):
    def machines(self) -> Sequence[Machine]:
        return [machine._replace(ticket="") for machine in super().machines()]


class Smaller(Fake):
    """Gives something else than was requested."""

    def rent(self, ticket: str, spec: MachineKind) -> None:
        super().rent(ticket, spec._replace(gpus=1))


class EndsNothing(Fake):
    def end(self, ids: Sequence[str]) -> None:
        pass


class EndsAll(Fake):
    def end(self, ids: Sequence[str]) -> None:
        super().end([machine.id for machine in self.machines()])


class EndsOnce(Fake):
    """Complains about what has gone already."""

    def end(self, ids: Sequence[str]) -> None:
        gone = {machine.id for machine in self.machines() if machine.state == "gone"}
        if gone & set(ids):
            raise KeyError(ids[0])
        super().end(ids)


class OneForAll(Fake):
    """Has one machine, whatever the ticket."""

    def machines(self) -> Sequence[Machine]:
        return [machine._replace(id="i-1") for machine in super().machines()]


class RaisesAnything(Fake):
    def rent(self, ticket: str, spec: MachineKind) -> None:
        if "no-such" in spec.pool:
            raise ValueError(spec.pool)
        super().rent(ticket, spec)


class RefusesAndRents(Fake):
    def rent(self, ticket: str, spec: MachineKind) -> None:
        from slacktide.providers.base import NoCapacity

        super().rent(ticket, spec)
        if "no-such" in spec.pool:
            raise NoCapacity("none, or so it says")


class SurveysTheDead(Fake):
    def everyones(self) -> Mapping[str, Sequence[Machine]]:
        return {owner: [machine] for owner, machine in self._cloud.listed()}


class Slow(Fake):
    def machines(self) -> Sequence[Machine]:
        time.sleep(0.05)
        return super().machines()


BROKEN: dict[type[Fake], tuple[ProviderCheck, str]] = {
    Doubles: (checks.check_asking_again, "one ticket must give one machine"),
    Forgets: (checks.check_another_controller, "must know its tickets"),
    MixesOwners: (checks.check_owners, "must see its own machines only"),
    LosesTickets: (checks.check_renting, "must be listed with its ticket"),
    Smaller: (checks.check_renting, "must be what was requested"),
    EndsNothing: (checks.check_ending, "must not be listed as alive"),
    EndsAll: (checks.check_ending, "only what is named must be ended"),
    EndsOnce: (checks.check_ending, "must raise NoCapacity, Spent, Unreachable or Refused, got KeyError"),
    OneForAll: (checks.check_two, "two tickets must give two machines"),
    RaisesAnything: (checks.check_refusal, "got ValueError"),
    RefusesAndRents: (checks.check_refusal, "a ticket that was refused must have no machine"),
    SurveysTheDead: (checks.check_survey, "must leave out what is gone"),
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_a_broken_one_is_found(kind: type[Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "PATIENCE_S", 0.5)  # what is waited for never happens
    check, says = BROKEN[kind]
    with trials.provider_trial(faked(kind=kind), SPEC) as one, pytest.raises(CheckFailed, match=says):
        check(one)


def test_a_slow_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "LONGEST_CALL_S", 0.04)
    with pytest.raises(CheckFailed, match="a call must return within"):
        check_provider(faked(kind=Slow), SPEC)


def test_one_without_machines_cannot_be_checked() -> None:
    make: Callable[[Renter], Provider] = faked(Faults(full_share=1.0, full_hours=1.0))
    with pytest.raises(CheckFailed, match="must be there to check with, got: zone/big is full"):
        check_provider(make, SPEC)
