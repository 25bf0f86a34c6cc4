"""What stream policies share: what they are shown, what they are told, and the register.

A policy knows no simulator, no engine and no clock: whoever runs it hands it views and events.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from slacktide.arrays import Floats, Ints
from slacktide.budget.fleet import Fleet
from slacktide.errors import InputError
from slacktide.register import Register


class FleetView(NamedTuple):
    """All jobs that are present, in the order of their arrival; one entry of each array for each job.

    The arrays are read-only and good only until the decision is made: who remembers must copy.
    """

    fleet: Fleet
    now_hours: float
    ids: Ints
    class_index: Ints
    number: Ints
    """How many jobs of its class came before this one."""
    stage: Ints
    """The row of each job's phase in the fleet's tables."""
    arrival_hours: Floats
    width: Ints
    """GPUs held; 0 for a job that waits."""
    attained_gpu_hours: Floats
    """Work done so far, over all phases."""
    remaining_gpu_hours: Floats | None
    """Work still to be done; only for policies that declare `needs_sizes`."""
    ready_gpus: int
    """GPUs of the nodes that can be used now."""
    rented_gpus: int
    """GPUs that are paid for: those of the nodes on their way included."""
    spent_gpu_hours: float
    """GPU-hours that were paid for since the run began."""

    def allowed(self, wanted: Ints | int) -> Ints:
        """Return for each job the widest width it may have that is no wider than wanted, or its narrowest."""
        stages = self.fleet.stages
        narrower = stages.narrower[self.stage, np.clip(wanted, 0, stages.narrower.shape[1] - 1)]
        return np.where(np.asarray(wanted) > 0, np.maximum(narrower, stages.least[self.stage]), 0)

    @property
    def phase(self) -> Ints:
        """Which of its class's phases each job is in."""
        phase: Ints = self.stage - self.fleet.stages.first[self.class_index]
        return phase


class Arrived(NamedTuple):
    """A job came."""

    now_hours: float
    id: int
    class_index: int


class Progressed(NamedTuple):
    """A job did some work at one width in one phase; pauses are not counted in the hours."""

    now_hours: float
    id: int
    class_index: int
    phase: int
    gpus: int
    hours: float
    work_gpu_hours: float


class Finished(NamedTuple):
    """A job is done."""

    now_hours: float
    id: int
    class_index: int


StreamEvent: TypeAlias = Arrived | Progressed | Finished


@runtime_checkable
class StreamPolicy(Protocol):
    """Decides how wide each job that is present should be; 0 means that it waits."""

    def decide(self, view: FleetView) -> Ints: ...


@runtime_checkable
class ClusterPolicy(StreamPolicy, Protocol):
    """A stream policy that also says how many GPUs to keep rented, whether jobs use them or not."""

    def rent_gpus(self, view: FleetView) -> int:
        """Return the size of the cluster; asked before each decision."""
        ...


@runtime_checkable
class LearningPolicy(StreamPolicy, Protocol):
    """A stream policy that remembers what happened; the same events and views again make it the same."""

    @property
    def wake_hours(self) -> float:
        """When it wants to be told of all progress and asked again, at the latest."""
        ...

    def learn(self, event: StreamEvent) -> None: ...


@runtime_checkable
class RememberingPolicy(StreamPolicy, Protocol):
    """A stream policy that can write down all that it knows; whoever learns must be able to.

    A new one of the same policy and fleet that recalls it decides the same from then on, to the last bit.
    """

    def remember(self) -> Mapping[str, Any]:
        """Return all that it knows as JSON values, sharing nothing with it."""
        ...

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Know what was written down, and nothing else."""
        ...


@runtime_checkable
class PreparedStreamPolicy(Protocol):
    """A stream policy that works something out for a fleet first, or starts to remember."""

    def begin(self, fleet: Fleet) -> StreamPolicy:
        """Return what decides in one run."""
        ...


AnyStreamPolicy: TypeAlias = StreamPolicy | PreparedStreamPolicy

stream_policies: Register[AnyStreamPolicy] = Register(
    "stream policy", package="slacktide.budget.policy", entry_points="slacktide.stream_policies"
)
"""All known stream policies; `@stream_policies.register` adds one."""


def begin(policy: AnyStreamPolicy, fleet: Fleet) -> StreamPolicy:
    """Return what decides in one run of a policy."""
    return policy.begin(fleet) if isinstance(policy, PreparedStreamPolicy) else policy


def needs_sizes(policy: AnyStreamPolicy) -> bool:
    """Whether a policy declares that it must know how much work each job has left."""
    return bool(getattr(policy, "needs_sizes", False))


class Ways(NamedTuple):
    """Widths that are settled when a job arrives: one or two ways for each class.

    Job n of a class goes the wide way iff floor((n + 1) p) > floor(n p) for the share p, so that after
    any number of jobs the count of wide ones is off by less than one; a coin would be off by its root.
    """

    narrow: Ints
    """[stage]: the width of jobs that go the narrow way."""
    wide: Ints
    wide_share: Floats
    """[class]: share of the jobs that go the wide way."""

    def are_wide(self, class_index: Ints, number: Ints) -> np.typing.NDArray[np.bool_]:
        """Whether each job goes the wide way."""
        share = self.wide_share[class_index]
        return np.floor((number + 1) * share) > np.floor(number * share)


@runtime_checkable
class SettledPolicy(StreamPolicy, Protocol):
    """A stream policy whose jobs never depend on one another, so that a run needs no events."""

    @property
    def ways(self) -> Ways: ...


@dataclass(frozen=True, slots=True)
class SettledWidths:
    """Every job starts at once on the width that was settled for it, and changes it only with its phase."""

    ways: Ways

    def decide(self, view: FleetView) -> Ints:
        stage = view.stage
        narrow, wide, share = self.ways
        if not share.any():
            return narrow[stage]
        return np.where(self.ways.are_wide(view.class_index, view.number), wide[stage], narrow[stage])


def cluster_size(fleet: Fleet, cluster_gpus: int | None) -> int:
    """Return the size of a fixed cluster: what was given, else the whole GPUs of the budget."""
    if cluster_gpus is not None:
        at_least_one("cluster_gpus", cluster_gpus)
        return cluster_gpus
    if not 1 <= fleet.budget_gpus < math.inf:
        raise InputError(
            f"a fixed cluster must have at least one GPU, got a budget of {fleet.budget_gpus:g}; "
            "give cluster_gpus"
        )
    return int(fleet.budget_gpus)


def allowed_widths(fleet: Fleet, gpus: int) -> Ints:
    """Return for each stage the allowed width that is nearest below this many GPUs, or the least."""
    narrower = fleet.stages.narrower
    widths: Ints = np.maximum(narrower[:, min(gpus, narrower.shape[1] - 1)], fleet.stages.least)
    return widths


def fitting_widths(fleet: Fleet, gpus: int, size_gpus: int) -> Ints:
    """Return `allowed_widths` no wider than a cluster; raises InputError where a class does not fit."""
    widths = allowed_widths(fleet, min(gpus, size_gpus))
    widest = max(fleet.classes, key=lambda one: one.widths[0])
    if widest.widths[0] > size_gpus:
        raise InputError(
            f"a cluster must have room for every class, got {size_gpus} GPUs and class {widest.name!r}, "
            f"which needs {widest.widths[0]}"
        )
    return widths


def at_least_one(name: str, gpus: float) -> None:
    """Check a policy's count of GPUs."""
    if not gpus >= 1:
        raise InputError(f"{name} must be >= 1, got {gpus:g}")
