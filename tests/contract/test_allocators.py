"""Every registered allocator against every check of the contract."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from slacktide.allocate.base import allocators
from slacktide.budget.fleet import Fleet
from slacktide.checks import ALLOCATOR_CHECKS, CheckFailed, check_allocator, stream_cases
from slacktide.checks.allocator import AllocatorCheck
from slacktide.deciding import AnyAllocator, Arrived, Fact, FleetView, Wanted, needs_market

EVERY: dict[str, AnyAllocator] = {
    **{name: made for name in allocators if not needs_market(made := allocators.make(name))},
    "fifo of eight": allocators.make({"fifo": {"cluster_gpus": 8, "gpus": 3}}),
    "srpt of eight": allocators.make({"srpt": {"cluster_gpus": 8, "gpus": 2}}),
    "equi of eight": allocators.make({"equi": {"cluster_gpus": 8}}),
    "band in rounds": allocators.make(
        {"efficiency-band": {"efficiency": 0.9, "band_share": 0.02, "round_hours": 0.3}}
    ),
}


@pytest.mark.parametrize("check", ALLOCATOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("allocator", EVERY.values(), ids=EVERY)
def test_an_allocator_keeps_the_contract(allocator: AnyAllocator, check: AllocatorCheck) -> None:
    rng = np.random.default_rng(7)
    for case in stream_cases(7, 20):
        check(allocator, case, rng)


def test_every_allocator_says_what_it_does() -> None:
    for name in allocators:
        assert allocators.summary(name).endswith(".")


class Greedy:
    """Gives a width that not every class may have."""

    def decide(self, view: FleetView) -> Wanted:
        return Wanted(np.full(len(view.jobs.ids), 3))


class Crowded:
    """Shares out a cluster twice."""

    def rent_gpus(self, view: FleetView) -> int:
        return 8

    def decide(self, view: FleetView) -> Wanted:
        return Wanted(view.allowed(1000))


class Moody:
    """Decides differently the second time."""

    asked = 0

    def decide(self, view: FleetView) -> Wanted:
        type(self).asked += 1
        return Wanted(view.allowed(1000 if self.asked % 2 else 4))


class Sizes:
    """Knows sizes without declaring it: the run's own stream gives them away."""

    def decide(self, view: FleetView) -> Wanted:
        frame = sys._getframe()
        while "self" not in frame.f_locals or not hasattr(frame.f_locals["self"], "stream"):
            assert frame.f_back is not None
            frame = frame.f_back
        large = frame.f_locals["self"].stream.size[view.jobs.ids] > 1.0
        return Wanted(np.where(large, view.allowed(1000), view.allowed(1)))


class Stubborn:
    """Lets everybody wait."""

    def decide(self, view: FleetView) -> Wanted:
        return Wanted(view.allowed(0))


class Silent:
    """Learns, and cannot write down what it knows."""

    wake_hours = np.inf

    def begin(self, fleet: Fleet) -> Silent:
        return type(self)()

    def __init__(self) -> None:
        self.arrivals = 0

    def learn(self, fact: Fact) -> None:
        self.arrivals += isinstance(fact, Arrived)

    def decide(self, view: FleetView) -> Wanted:
        return Wanted(view.allowed(2 if self.arrivals > 6 else 1))


class Forgetful(Silent):
    """Writes down nothing of what it decides by."""

    def remember(self) -> Mapping[str, Any]:
        return {}

    def recall(self, memory: Mapping[str, Any]) -> None:
        pass


@pytest.mark.parametrize(
    ("allocator", "words"),
    [
        (Greedy(), "a width must be 0 or in"),
        (Crowded(), "add up to at most"),
        (Moody(), "same decisions"),
        (Sizes(), "sizes of unfinished jobs"),
        (Stubborn(), "wait forever"),
        (Silent(), "must have remember and recall"),
        (Forgetful(), "must continue from what it saved"),
    ],
    ids=["greedy", "crowded", "moody", "sizes", "stubborn", "silent", "forgetful"],
)
def test_checks_catch_an_allocator_that_breaks_the_contract(allocator: AnyAllocator, words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        check_allocator(allocator)
