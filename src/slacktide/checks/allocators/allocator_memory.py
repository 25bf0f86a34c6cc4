"""Allocators whose decisions must be the same: run again, pickled, or replaced half-way by a new one."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from slacktide.allocators.view import (
    Admitting,
    AnyAllocator,
    Decision,
    Fact,
    FleetView,
    Learning,
    Sizing,
    begin,
    needs_sizes,
)
from slacktide.budget.fleet import Fleet
from slacktide.checks.base import Timed, must_agree
from slacktide.core.types import Refusal


class Moving:
    """Runs an allocator that remembers; after one of its calls a new one goes on from what it wrote down."""

    def __init__(self, allocator: AnyAllocator, fleet: Fleet, at: int) -> None:
        self.allocator, self.fleet, self.at = allocator, fleet, at
        self.calls = 0
        """How often the allocator was called so far, for whatever."""
        self.run: Any = begin(allocator, fleet)
        self.needs_sizes = needs_sizes(self.run)

    def decide(self, view: FleetView) -> Decision:
        decision: Decision = self.run.decide(view)
        self.called()
        return decision

    def called(self) -> None:
        """Count a call, and replace the allocator if it was the one."""
        self.calls += 1
        if self.calls == self.at:
            # Through JSON, as the journal keeps it: tuples come back as lists, and no NaN is taken.
            written = json.dumps(self.run.remember(), allow_nan=False)
            self.run = begin(self.allocator, self.fleet)
            self.run.recall(json.loads(written))


class MovingLearner(Moving):
    """One that learns."""

    @property
    def wake_hours(self) -> float:
        return float(self.run.wake_hours)

    def learn(self, fact: Fact) -> None:
        self.run.learn(fact)
        self.called()


class MovingCluster(Moving):
    """One that sizes a cluster."""

    def rent_gpus(self, view: FleetView) -> int:
        gpus: int = self.run.rent_gpus(view)
        self.called()
        return gpus


class MovingLearnerOfCluster(MovingLearner, MovingCluster):
    """One that does both."""


class MovingPromises(Moving):
    """One that makes promises."""

    def admit(self, view: FleetView) -> Refusal | None:
        refusal: Refusal | None = self.run.admit(view)
        self.called()
        return refusal


def moving(allocator: AnyAllocator, fleet: Fleet, at: int) -> Moving:
    """Return the allocator, to be replaced after this many calls; it can do what the allocator can."""
    run = begin(allocator, fleet)
    if isinstance(run, Admitting):
        return MovingPromises(allocator, fleet, at)
    learns, sizes = isinstance(run, Learning), isinstance(run, Sizing)
    if learns:
        return (MovingLearnerOfCluster if sizes else MovingLearner)(allocator, fleet, at)
    return (MovingCluster if sizes else Moving)(allocator, fleet, at)


def must_decide_the_same_again(
    allocator: AnyAllocator, decide: Callable[[AnyAllocator], Sequence[Timed]], message: str
) -> None:
    """See that an allocator decides the same in a second run, also after pickling."""
    first = decide(allocator)
    # Made after the first run, so that what that left behind in the allocator travels with the copy.
    twin: AnyAllocator = pickle.loads(pickle.dumps(allocator))
    for again in (decide(allocator), decide(twin)):
        must_agree(first, again, np.inf, message)


def must_go_on_from_memory(
    allocator: AnyAllocator,
    fleet: Fleet,
    decide: Callable[[AnyAllocator], Sequence[Timed]],
    case: object,
    rng: np.random.Generator,
) -> None:
    """See that what an allocator writes down at any moment is all that a new one needs to decide the same."""
    # Call 0 never comes: this one is never replaced, and only counts its calls.
    stayed = moving(allocator, fleet, at=0)
    first = decide(stayed)
    moved = moving(allocator, fleet, at=int(rng.integers(1, stayed.calls + 1)))
    message = f"an allocator must continue from what it saved after {moved.at} calls in {case}"
    must_agree(first, decide(moved), np.inf, message)
