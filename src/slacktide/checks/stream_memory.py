"""A stream policy that is replaced half-way by a new one, which knows only what the first wrote down."""

from __future__ import annotations

import json
from typing import Any

from slacktide.arrays import Ints
from slacktide.budget.fleet import Fleet
from slacktide.budget.policy.base import (
    AnyStreamPolicy,
    ClusterPolicy,
    FleetView,
    LearningPolicy,
    StreamEvent,
    begin,
    needs_sizes,
)


class Moving:
    """Runs a policy that remembers; after one of its calls a new one goes on from what it wrote down."""

    def __init__(self, policy: AnyStreamPolicy, fleet: Fleet, at: int) -> None:
        self.policy, self.fleet, self.at = policy, fleet, at
        self.calls = 0
        """How often the policy was called so far, for whatever."""
        self.run: Any = begin(policy, fleet)
        self.needs_sizes = needs_sizes(self.run)

    def decide(self, view: FleetView) -> Ints:
        widths: Ints = self.run.decide(view)
        self.called()
        return widths

    def called(self) -> None:
        """Count a call, and replace the policy if it was the one."""
        self.calls += 1
        if self.calls == self.at:
            written = json.dumps(self.run.remember(), allow_nan=False)
            self.run = begin(self.policy, self.fleet)
            self.run.recall(json.loads(written))


class MovingLearner(Moving):
    """One that learns."""

    @property
    def wake_hours(self) -> float:
        return float(self.run.wake_hours)

    def learn(self, event: StreamEvent) -> None:
        self.run.learn(event)
        self.called()


class MovingCluster(Moving):
    """One that sizes a cluster."""

    def rent_gpus(self, view: FleetView) -> int:
        gpus: int = self.run.rent_gpus(view)
        self.called()
        return gpus


class MovingLearnerOfCluster(MovingLearner, MovingCluster):
    """One that does both."""


def moving(policy: AnyStreamPolicy, fleet: Fleet, at: int) -> Moving:
    """Return the policy, to be replaced after so many calls; it can do what the policy can."""
    run = begin(policy, fleet)
    learns, sizes = isinstance(run, LearningPolicy), isinstance(run, ClusterPolicy)
    if learns:
        return (MovingLearnerOfCluster if sizes else MovingLearner)(policy, fleet, at)
    return (MovingCluster if sizes else Moving)(policy, fleet, at)
