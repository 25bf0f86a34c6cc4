"""Every registered allocator against every check of the contract."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.allocators.view import (
    Admitting,
    AnyAllocator,
    Arrived,
    Fact,
    FleetView,
    SiteView,
    Standing,
    Wanted,
    begin,
    keeps_deadlines,
    needs_market,
)
from slacktide.budget.fleet import Fleet
from slacktide.checks import (
    ALLOCATOR_CHECKS,
    SITE_CHECKS,
    CheckFailed,
    check_allocator,
    site_cases,
    stream_cases,
)
from slacktide.checks.allocators.allocator import AllocatorCheck, SiteCheck
from slacktide.core.types import Refusal
from tests.parts_of_effort import examples

EVERY: dict[str, AnyAllocator] = {
    **{name: made for name in allocators if not needs_market(made := allocators.make(name))},
    "fifo of eight": allocators.make({"fifo": {"cluster_gpus": 8, "gpus": 3}}),
    "srpt of eight": allocators.make({"srpt": {"cluster_gpus": 8, "gpus": 2}}),
    "equi of eight": allocators.make({"equi": {"cluster_gpus": 8}}),
    "band in rounds": allocators.make(
        {"efficiency-band": {"efficiency": 0.9, "band_share": 0.02, "round_hours": 0.3}}
    ),
}

ON_A_MARKET: dict[str, AnyAllocator] = {
    **{name: made for name in allocators if needs_market(made := allocators.make(name))},
    "patient on one": allocators.make({"patient-spot": {"width": 1, "wait_hours": 0.2}}),
    "each alone on eight": allocators.make({"each-alone": {"width": 8}}),
    "earliest of eight": allocators.make({"earliest-deadline": {"width": 8}}),
    "expensive hours": allocators.make({"on-demand-widths": {"usd_per_job_hour": 100.0}}),
}


@pytest.mark.parametrize("check", ALLOCATOR_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("allocator", EVERY.values(), ids=EVERY)
def test_an_allocator_keeps_the_contract(allocator: AnyAllocator, check: AllocatorCheck) -> None:
    rng = np.random.default_rng(7)
    for case in stream_cases(7, examples(20)):
        check(allocator, case, rng)


@pytest.mark.parametrize("check", SITE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("allocator", ON_A_MARKET.values(), ids=ON_A_MARKET)
def test_an_allocator_on_a_market_keeps_the_contract(allocator: AnyAllocator, check: SiteCheck) -> None:
    rng = np.random.default_rng(7)
    for case in site_cases(7, examples(20)):
        check(allocator, case, rng)


@pytest.mark.parametrize("allocator", ON_A_MARKET.values(), ids=ON_A_MARKET)
def test_every_allocator_on_a_market_promises_deadlines(allocator: AnyAllocator) -> None:
    fleet = next(site_cases(0, 1)).scene.fleet
    assert fleet is not None
    assert keeps_deadlines(allocator) or isinstance(begin(allocator, fleet), Admitting)


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
        while not hasattr(frame.f_locals.get("world"), "stream"):
            assert frame.f_back is not None
            frame = frame.f_back
        large = frame.f_locals["world"].stream.size[view.jobs.ids] > 1.0
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


class OnDemand:
    """Gives every job its fastest width on demand where it is; those below break one promise each."""

    needs_market = True

    def decide(self, view: FleetView) -> Wanted:
        site = seen(view)
        return Wanted(site.kinds.fastest[site.jobs.kind, site.jobs.pool])


def seen(view: FleetView) -> SiteView:
    """Return the market that is shown."""
    assert view.site is not None
    return view.site


class Misfit(OnDemand):
    """Gives a width that not every job may have."""

    def decide(self, view: FleetView) -> Wanted:
        return Wanted(np.full(len(view.jobs.ids), 3))


class Stray(OnDemand):
    """Sends jobs where they may not be."""

    def decide(self, view: FleetView) -> Wanted:
        site = seen(view)
        last = np.full(len(view.jobs.ids), len(site.pools) - 1)
        width = np.array([max(site.kinds.fit[kind].max(axis=1)) for kind in site.jobs.kind])
        there = site.kinds.fit[site.jobs.kind, last].max(axis=1)
        return Wanted(np.where(there > 0, there, width), pool=last)


class Elsewhere(OnDemand):
    """Names a pool that is not there."""

    def decide(self, view: FleetView) -> Wanted:
        return super().decide(view)._replace(pool=np.full(len(view.jobs.ids), 99))


class Owing(OnDemand):
    """Wants less than nothing."""

    def decide(self, view: FleetView) -> Wanted:
        return Wanted(np.full(len(view.jobs.ids), -1))


class Oversold(OnDemand):
    """Gives every job all the spot of the pool that it is in."""

    def decide(self, view: FleetView) -> Wanted:
        site = seen(view)
        offered = np.array([pool.quote.spot_gpus for pool in site.pools])[site.jobs.pool]
        most = np.minimum(offered, site.kinds.fit.shape[2] - 1)
        return Wanted(np.zeros_like(most), site.kinds.fit[site.jobs.kind, site.jobs.pool, most])


class Idle(OnDemand):
    """Lets everybody wait."""

    def decide(self, view: FleetView) -> Wanted:
        return Wanted(np.zeros(len(view.jobs.ids), dtype=np.int64))


class Late(OnDemand):
    """Says that it keeps deadlines, and begins in the third slot."""

    keeps_deadlines = True

    def decide(self, view: FleetView) -> Wanted:
        return super().decide(view) if seen(view).slot > 2 else Idle().decide(view)


class Easy(OnDemand):
    """Admits whatever comes."""

    def admit(self, view: FleetView) -> Refusal | None:
        return None


class Spendthrift(OnDemand):
    """Names a price of money and does not look at it."""

    @property
    def standing(self) -> Standing:
        return Standing()


class Changing(OnDemand):
    """Decides differently the second time."""

    asked = 0

    def decide(self, view: FleetView) -> Wanted:
        type(self).asked += 1
        site, fastest = seen(view), super().decide(view).on_demand_gpus
        tables = site.kinds.fit[site.jobs.kind, site.jobs.pool]
        least = np.array([min(table[table > 0]) for table in tables])
        held = site.jobs.on_demand_gpus
        return Wanted(np.where(held > 0, held, fastest if self.asked % 2 else least))


class Foreseeing(OnDemand):
    """Waits for cheap hours of the future: the run's own scene gives them away."""

    def decide(self, view: FleetView) -> Wanted:
        frame = sys._getframe()
        while not hasattr(frame.f_locals.get("world"), "scene"):
            assert frame.f_back is not None
            frame = frame.f_back
        usd = frame.f_locals["world"].scene.quotes.on_demand_usd[:, 0]
        now = min(seen(view).slot, len(usd) - 1)
        wanted = super().decide(view)
        waits = now < 20 and usd[now : now + 9].min() < usd[now]
        return wanted._replace(on_demand_gpus=0 * wanted.on_demand_gpus) if waits else wanted


class Amnesic(OnDemand):
    """Decides by how often it was asked, and does not write that down."""

    def __init__(self) -> None:
        self.asked = 0

    def begin(self, fleet: Fleet) -> Amnesic:
        return type(self)()

    def decide(self, view: FleetView) -> Wanted:
        self.asked += 1
        wanted = super().decide(view)
        return wanted if self.asked > 3 else wanted._replace(on_demand_gpus=0 * wanted.on_demand_gpus)

    def remember(self) -> Mapping[str, Any]:
        return {}

    def recall(self, memory: Mapping[str, Any]) -> None:
        pass


@pytest.mark.parametrize(
    ("allocator", "words"),
    [
        (Misfit(), "a width must be 0 or in"),
        (Stray(), "a pool that it may be in"),
        (Elsewhere(), "one of . pools"),
        (Owing(), "counts of GPUs must be >= 0"),
        (Oversold(), "must add up to at most"),
        (Idle(), "every job must finish"),
        (Late(), "by its hard deadline"),
        (Easy(), "by its hard deadline"),
        (Spendthrift(), "no more than the budget"),
        (Changing(), "same decisions"),
        (Foreseeing(), "must not see the future"),
        (Amnesic(), "must continue from what it saved"),
    ],
    ids=lambda one: type(one).__name__ if needs_market(one) else "",
)
def test_checks_catch_an_allocator_on_a_market_that_breaks_the_contract(
    allocator: AnyAllocator, words: str
) -> None:
    with pytest.raises(CheckFailed, match=words):
        check_allocator(allocator)


def test_an_allocator_on_a_market_that_promises_nothing_may_be_late() -> None:
    check_allocator(OnDemand(), examples=5)
