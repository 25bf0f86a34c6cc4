"""An allocator that is replaced half-way by a new one, which knows only what the first wrote down."""

from __future__ import annotations

import json
from typing import Any

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
