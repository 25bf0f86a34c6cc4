"""Machines that are rented for jobs: as many as orders need, no longer than they do, all explained."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slacktide.core.types import Order
from slacktide.journal.events import Joined, Rented, Returned
from slacktide.testing.fake_provider import Faults

from . import parts_of_clouds as parts
from .parts_of_clouds import RULES, SPECS

SPOT, ON_DEMAND = SPECS
ORDER = Order("job", 1, "market's own name", 3, 1)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., parts.Rented]]:
    made: list[parts.Rented] = []

    def one(**more: Any) -> parts.Rented:
        made.append(parts.Rented(tmp_path, **more))
        return made[-1]

    yield one
    for site in made:
        site.close()


def given_back(site: parts.Rented, order: Order) -> None:
    """End an order, and see that no machine is left."""
    site.backend.hold(order._replace(ending=True))
    site.until(lambda facts: facts.gone and not site.backend.rented)
    assert site.living() == {}
    assert not site.diary.tickets().open


def test_as_many_machines_as_an_order_needs_and_none_when_it_ends(make: Callable[..., parts.Rented]) -> None:
    site = make()
    site.hold(ORDER)
    assert site.living() == {SPOT: 2, ON_DEMAND: 1}, "three spot GPUs need two machines with two"
    assert sum(isinstance(fact, Joined) for fact in site.diary.facts) == 3
    site.hold(ORDER._replace(attempt=2, spot_gpus=4))
    assert site.living() == {SPOT: 2, ON_DEMAND: 1}, "the machines stay over a resize"
    assert sum(isinstance(fact, Rented) for fact in site.diary.facts) == 3
    given_back(site, ORDER._replace(attempt=2, spot_gpus=4))
    assert sum(isinstance(fact, Returned) for fact in site.diary.facts) == 3


def test_machines_that_do_not_say_their_ticket_are_known_by_their_id(
    make: Callable[..., parts.Rented],
) -> None:
    site = make()
    site.link.labelled = False
    site.cloud.rent("somebody else", "1", SPOT)  # a machine of the same cluster at the same address
    site.hold(ORDER)
    mine = {one.id for one in site.cloud.living if one.owner == site.owner}
    site.until(lambda facts: set(site.backend.machine_workers.machines.ours or ()) == mine)
    joined = {fact.machine for fact in site.diary.facts if isinstance(fact, Joined)}
    assert joined == mine
    theirs = next(one.id for one in site.cloud.living if one.id not in mine)
    assert not site.backend.machine_workers.is_busy(theirs)


def test_an_interrupted_machine_is_a_loss_and_is_replaced(make: Callable[..., parts.Rented]) -> None:
    site = make()
    site.hold(ORDER)
    taken = next(one for one in site.cloud.living if one.spec == SPOT)
    site.cloud._end(taken, parts.hours(), "interrupted")
    facts = site.until(lambda facts: facts.taken_spot_gpus)
    assert (facts.failure, facts.lost_on_demand_gpus) == (None, 0)
    site.hold(ORDER._replace(attempt=2))
    assert site.living() == {SPOT: 2, ON_DEMAND: 1}
    why = {fact.ticket: fact.why for fact in site.diary.facts if isinstance(fact, Returned)}
    assert why[taken.ticket] == "interrupted"
    given_back(site, ORDER._replace(attempt=2))


def test_another_controller_goes_on_with_the_same_machines(make: Callable[..., parts.Rented]) -> None:
    site = make()
    site.hold(ORDER)
    before = set(site.cloud.instances)
    site.restart(ORDER)
    site.hold(ORDER)
    site.until(lambda facts: len(site.backend.machine_workers.machines.ours or ()) == 3)
    assert set(site.cloud.instances) == before
    site.restart()  # and one that nobody tells of an order gives them all back
    site.until(lambda facts: not site.backend.rented)
    assert site.living() == {}


def test_machines_that_never_join_are_given_back_and_replaced(make: Callable[..., parts.Rented]) -> None:
    site = make(rules=dataclasses.replace(RULES, join_within_hours=5.0 / 3600.0))
    site.cloud.faults = Faults(dud_share=1.0)
    site.backend.hold(ORDER)
    site.until(lambda facts: site.cloud.living)
    site.cloud.faults = Faults()
    site.hold(ORDER)
    assert site.living() == {SPOT: 2, ON_DEMAND: 1}
    assert any("did not join" in fact.why for fact in site.diary.facts if isinstance(fact, Returned))
    given_back(site, ORDER)


def test_a_cloud_full_of_faults_leaks_nothing(make: Callable[..., parts.Rented]) -> None:
    site = make(faults=Faults(lost_share=0.3, throttled_share=0.2, late_hours=0.5 / 3600.0, full_share=0.2,
                              full_hours=1.0 / 3600.0))  # fmt: skip
    site.hold(ORDER)
    site.hold(ORDER._replace(attempt=2, spot_gpus=1))
    site.until(lambda facts: site.living() == {SPOT: 1, ON_DEMAND: 1})
    given_back(site, ORDER._replace(attempt=2, spot_gpus=1))


def test_spot_that_is_not_to_be_had_is_lost_and_on_demand_is_waited_for(
    make: Callable[..., parts.Rented], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slacktide.backends.machines.machine_workers.WAIT_S", 0.1)
    site = make(faults=Faults(full_share=1.0, full_hours=1e-9))
    assert site.backend.room("any") == (math.inf, math.inf)
    site.backend.hold(ORDER)
    facts = site.until(lambda facts: facts.taken_spot_gpus)
    assert (facts.taken_spot_gpus, facts.pending_gpus, facts.gone) == (3, 0, True)
    assert site.backend.room("any").spot_gpus == 0
    site.backend.hold(ORDER._replace(attempt=2, spot_gpus=0))
    facts = site.until(lambda facts: "no on-demand machine is available" in facts.trouble)
    assert facts.pending_gpus == 1
    site.cloud.faults = Faults()
    facts = site.hold(ORDER._replace(attempt=2, spot_gpus=0))
    assert not facts.trouble


def test_a_limit_is_never_passed_and_said(
    make: Callable[..., parts.Rented], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slacktide.backends.machines.machine_workers.WAIT_S", 0.1)
    site = make(rules=dataclasses.replace(RULES, max_machines=2))
    site.backend.hold(ORDER)
    facts = site.until(lambda facts: "max_machines" in facts.trouble)
    assert facts.pending_gpus == 4
    assert len(site.cloud.instances) <= 2
    assert site.backend.room("any") == (4, 2)
