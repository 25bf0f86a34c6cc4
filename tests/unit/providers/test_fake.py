"""The imagined cloud does what real ones do, by its own clock, and keeps its own account."""

from __future__ import annotations

import pytest

from slacktide.core.errors import InputError
from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import NoCapacity, Renter, Unreachable, providers
from slacktide.testing.fake_provider import NOTICE_HOURS, Cloud, Fake, Faults

SPOT, ON_DEMAND = MachineKind("spot", "zone", 8), MachineKind("on-demand", "zone", 8)


class Clock:
    def __init__(self) -> None:
        self.hours = 0.0

    def __call__(self) -> float:
        return self.hours


def cloud(faults: Faults | None = None, boot_hours: float = 0.0) -> tuple[Clock, Cloud, Fake]:
    clock = Clock()
    made = Cloud(clock, seed=1, faults=faults, boot_hours=boot_hours)
    return clock, made, Fake(Renter(owner="own"), cloud=made)


def test_a_machine_boots_is_billed_and_leaves_the_list_an_hour_after_it_is_gone() -> None:
    clock, made, fake = cloud(boot_hours=0.1)
    fake.rent("1", SPOT)
    assert [one.state for one in fake.machines()] == ["starting"]
    clock.hours = 0.1
    (machine,) = fake.machines()
    assert (machine.state, machine.address) == ("up", "10.0.0.1")
    clock.hours = 2.0
    fake.end([machine.id])
    clock.hours = 2.5
    (machine,) = fake.machines()
    assert machine.state == "gone"
    assert machine.until_utc is not None
    assert machine.since_utc is not None
    assert (machine.until_utc - machine.since_utc).total_seconds() == 7200
    assert made.billed_hours() == 2.0
    clock.hours = 3.1
    assert not fake.machines()


def test_interruptions_come_with_and_without_notice_and_only_to_spot() -> None:
    clock, made, fake = cloud(Faults(interruptions_per_hour=5.0))
    for number in range(40):
        fake.rent(f"{number}", SPOT if number % 2 else ON_DEMAND)
    told: set[str] = set()
    for _ in range(60):
        clock.hours += NOTICE_HOURS / 2
        listed = fake.machines()
        told |= {one.id for one in listed if one.notice_s is not None}
        assert all(one.notice_s <= 121.0 for one in listed if one.notice_s is not None)
    taken = {one.id for one in made.instances.values() if one.why == "interrupted"}
    assert all(made.instances[name].spec.kind == "spot" for name in taken)
    assert 5 < len(taken & told) < len(taken)
    assert {one.why for one in fake.machines() if one.state == "gone"} == {"interrupted"}


def test_a_full_pool_stays_full_for_a_while_and_a_dud_never_comes_up() -> None:
    clock, made, fake = cloud(Faults(full_share=1.0, full_hours=4.0, dud_share=1.0))
    with pytest.raises(NoCapacity, match="zone is full"):
        fake.rent("1", SPOT)
    made.faults = Faults(dud_share=1.0)
    with pytest.raises(NoCapacity):
        fake.rent("2", SPOT)
    clock.hours = 4.0
    fake.rent("3", SPOT)
    clock.hours = 9.0
    assert [one.state for one in fake.machines()] == ["starting"]


def test_lost_answers_are_answers_and_throttled_questions_are_none() -> None:
    _, made, fake = cloud(Faults(lost_share=1.0))
    with pytest.raises(Unreachable, match="lost"):
        fake.rent("1", SPOT)
    made.faults = Faults(throttled_share=1.0)
    with pytest.raises(Unreachable, match="too many requests"):
        fake.rent("2", SPOT)
    made.faults = Faults()
    assert [one.ticket for one in fake.machines()] == ["1"]


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="lost_share must be >= 0, and a share at most 1, got 2"):
        providers.make({"fake": {"lost_share": 2.0}})
    with pytest.raises(InputError, match="cloud must be left out of files"):
        providers.make({"fake": {"cloud": "mine"}})
