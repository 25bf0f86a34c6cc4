"""The machines of a stream: nodes that are requested, come, are used, stand idle and are given back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Ints
from slacktide.core.compiled import compilable
from slacktide.physics.ledger import Use


@compilable
def granted(held: Ints, wanted: Ints, gpus: int) -> Ints:
    """Return how many GPUs each job gets while there are fewer usable GPUs than are wanted.

    A job that should have fewer gives them up at once. Then, in the order of the jobs, each that should have
    more gets all that it wants or keeps what it has: a partial start would cost a restart. A later job may
    take GPUs that are too few for an earlier one.
    """
    given = np.minimum(held, wanted)
    free = gpus - given.sum()
    for job in range(len(wanted)):
        more = wanted[job] - given[job]
        if 0 < more <= free:
            given[job] = wanted[job]
            free -= more
    return given


class Nodes(NamedTuple):
    """A number of nodes and their common time: when they will be ready, or since when they are idle."""

    hours: float
    nodes: int


class Unused(NamedTuple):
    """GPUs that are paid for and that no job holds, by reason."""

    boot: int  # on nodes that are not ready yet
    idle: int  # on nodes that no job uses
    rounding: int  # on nodes that are partly used


UNUSED: tuple[Use, ...] = ("boot", "idle", "rounding")  # what the ledger calls the parts of `Unused`


@dataclass(slots=True)
class Cluster:
    """Nodes in the order in which they are used; only their counts matter.

    - A node is paid for from the request on and can be used after the provisioning time.
    - A node on its way that is no longer needed is cancelled, the newest first.
    - A node that is no longer needed is kept for the grace time. The one idle last is used first, so
      that those idle for long can go.
    """

    node_gpus: int
    provisioning_hours: float
    grace_hours: float
    ready: int = 0
    coming: int = 0
    idle: int = 0  # ready nodes that are not needed
    last_call: bool = False  # whether no more jobs will come
    peak: int = 0
    billed_gpu_hours: float = 0.0
    idle_gpu_hours: float = 0.0
    fragmented_gpu_hours: float = 0.0
    on_their_way: tuple[Nodes, ...] = ()  # when how many nodes will be ready, the next ones first
    standing_idle: tuple[Nodes, ...] = ()  # since when how many nodes are idle, the longest first

    @classmethod
    def of(cls, fleet: Fleet) -> Cluster:
        return cls(fleet.node_gpus, fleet.provisioning_hours, fleet.idle_grace_hours)

    def take_form(self, node_gpus: int, provisioning_hours: float, grace_hours: float) -> None:
        """Rent nodes of another size from now on, with other times of provisioning and grace."""
        self.node_gpus, self.provisioning_hours, self.grace_hours = node_gpus, provisioning_hours, grace_hours

    @property
    def rented(self) -> int:
        return self.ready + self.coming

    @property
    def next_hours(self) -> float:
        """When the next node will be ready or be given back."""
        comes = self.on_their_way[0].hours if self.on_their_way else math.inf
        goes = self.standing_idle[0].hours + self.grace_hours if self.standing_idle else math.inf
        return min(comes, goes)

    def nodes_for(self, gpus: int) -> int:
        return -(-gpus // self.node_gpus)

    def pass_time(self, hours: float, held_gpus: int) -> None:
        """Count the GPU-hours that are paid for, and those of them that stayed unused."""
        boot, idle, rounding = self.unused(held_gpus)
        self.billed_gpu_hours += (held_gpus + boot + idle + rounding) * hours
        self.fragmented_gpu_hours += rounding * hours
        self.idle_gpu_hours += (boot + idle) * hours

    def unused(self, held_gpus: int) -> Unused:
        """Return the GPUs that are paid for but unused while jobs hold this many."""
        used = self.nodes_for(held_gpus) * self.node_gpus
        idle = 0 if self.last_call else self.ready * self.node_gpus - used
        return Unused(self.coming * self.node_gpus, idle, used - held_gpus)

    def arrive(self, now_hours: float) -> bool:
        """Add nodes that are ready by now and give back those past their grace; return whether any came."""
        before = self.ready
        while self.on_their_way and self.on_their_way[0].hours <= now_hours:
            count = self.on_their_way[0].nodes
            self.on_their_way = self.on_their_way[1:]
            self.coming -= count
            self.ready += count
        came = self.ready > before
        self._give_back(now_hours)
        return came

    def resize(self, nodes: int, now_hours: float) -> None:
        """Request, cancel or release nodes to have this many, those on their way included."""
        if nodes - self.ready > self.coming:
            self._request(nodes - self.rented, now_hours)
        elif self.coming:
            self._cancel(self.coming - max(0, nodes - self.ready))
        spare = max(0, self.ready - nodes)
        if spare > self.idle:
            self.standing_idle += (Nodes(now_hours, spare - self.idle),)
            self.idle = spare
        elif spare < self.idle:
            self._use(self.idle - spare)
        self._give_back(now_hours)
        self.peak = max(self.peak, self.rented)

    def keep_nothing(self, now_hours: float) -> None:
        """From now on give idle nodes back at once, and pay only for nodes that are used or on their way."""
        self.grace_hours = 0.0
        self.last_call = True
        self._give_back(now_hours)

    def _request(self, nodes: int, now_hours: float) -> None:
        if self.provisioning_hours == 0.0:
            self.ready += nodes
            return
        self.coming += nodes
        self.on_their_way += (Nodes(now_hours + self.provisioning_hours, nodes),)

    def _cancel(self, nodes: int) -> None:
        self.coming -= nodes
        self.on_their_way = _without_last(self.on_their_way, nodes)

    def _use(self, nodes: int) -> None:
        self.idle -= nodes
        self.standing_idle = _without_last(self.standing_idle, nodes)

    def _give_back(self, now_hours: float) -> None:
        while self.standing_idle and self.standing_idle[0].hours + self.grace_hours <= now_hours:
            count = self.standing_idle[0].nodes
            self.standing_idle = self.standing_idle[1:]
            self.ready -= count
            self.idle -= count


def _without_last(row: tuple[Nodes, ...], nodes: int) -> tuple[Nodes, ...]:
    """Return a row of nodes without this many of its last ones."""
    while nodes > 0:
        *rest, last = row
        row = tuple(rest) if last.nodes <= nodes else (*rest, last._replace(nodes=last.nodes - nodes))
        nodes -= last.nodes
    return row
