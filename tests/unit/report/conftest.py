"""Small back-tests for the reports: everyday ones and odd ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.results.comparison import Comparison
from slacktide.simulation.compare import Starts, compare
from tests import build

START = datetime(2025, 10, 4, 22, 40, tzinfo=UTC)
POLICIES = ("on-demand", "maximal-spot", "uniform-progress")
NASTY = "<script>alert('job')</script> $x$ [red] \x1b[31m\n日本"

Make = Callable[..., Comparison]


def pool(name: str = "zone-a", *, slots: int = 60, slot_hours: float = 0.5, usd: float = 2.0) -> Pool:
    """Return a pool whose spot comes and goes, the same every time."""
    generator = np.random.default_rng(7)
    gpus = np.abs(np.cumsum(generator.integers(-2, 3, slots))) % 9
    spot = usd * (1 + 0.1 * np.sin(np.arange(slots)))
    return Pool(name, slot_hours, spot, np.full(slots, 5 * usd), gpus, START)


def job(**changes: Any) -> Job:
    """Return an everyday job, with changes."""
    usual = {
        "name": "llama-lora", "work_gpu_hours": 30.0, "deadline_hours": 8.0, "widths": tuple(range(1, 9)),
        "restart_hours": 0.1, "checkpoint_hours": 0.5,
    }  # fmt: skip
    return build.job(**{**usual, **changes})


def make(
    *, pools: tuple[Pool, ...] = (), starts: int = 4, policies: tuple[str, ...] = POLICIES, **changes: Any
) -> Comparison:
    """Run a back-test of the everyday job with changes."""
    market = Market(pools or (pool(),), "trace.csv", ("The on-demand price was not in the file.",))
    return compare(job(**changes), market, policies, starts=Starts(count=starts))


def copies(comparison: Comparison, count: int) -> Comparison:
    """Return a back-test with the last policy under several more names."""
    source = comparison.summary[-2].policy
    names = [f"copy-{number}(window=4,commitment=2,price_threshold=0.6)" for number in range(count)]
    again = dataclasses.replace

    def more(things: tuple[Any, ...]) -> tuple[Any, ...]:
        found = [again(thing, policy=name) for name in names for thing in things if thing.policy == source]
        return (*things[:-1], *found, things[-1])

    return again(
        comparison,
        summary=more(comparison.summary),
        runs=more(tuple(comparison.runs)),
        detail=more(comparison.detail),
    )


ODD: dict[str, Callable[[], Comparison]] = {
    "one slot": lambda: make(
        pools=(pool(slots=1, slot_hours=1.0),),
        policies=("on-demand",),
        starts=1,
        work_gpu_hours=0.5,
        deadline_hours=1.0,
        widths=(1,),
    ),
    "many slots": lambda: make(
        pools=(pool(slots=1600, slot_hours=1 / 6),), starts=2, work_gpu_hours=600.0, deadline_hours=250.0
    ),
    "free market": lambda: make(pools=(pool(usd=0.0),)),
    "money ends": lambda: make(max_cost_usd=20.0),
    "money ends at once": lambda: make(max_cost_usd=0.001, billing="slot"),
    "late": lambda: make(work_gpu_hours=500.0),
    "soft": lambda: make(value_usd=300.0, worthless_after_hours=9.0),
    "two pools": lambda: make(pools=(pool(), pool("b <i>", slot_hours=0.25, slots=80)), starts=2),
    "nasty names": lambda: make(name=NASTY, pools=(pool(NASTY),), starts=1),
    "eight policies": lambda: copies(make(starts=1), 5),
    "seconds": lambda: make(
        pools=(pool(slot_hours=0.002),), work_gpu_hours=0.002, deadline_hours=0.01, restart_hours=0.0
    ),
}


@pytest.fixture(scope="session")
def comparison() -> Comparison:
    """An everyday back-test."""
    return make()


@pytest.fixture(scope="session", params=sorted(ODD))
def odd(request: pytest.FixtureRequest) -> Comparison:
    """One odd back-test after the other."""
    return ODD[request.param]()
