"""The way to simulated machines: messages are late, lost or come twice, and whole machines are cut off.

It behaves as Ray does: a node that is cut off for some seconds is taken for gone, and when it can be reached
again it comes back under another name, with another agent, while the old one's workers may still live.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from campaigns.machines.node import Node
from campaigns.machines.truth import Truth
from slacktide.backends.machines.agent.messages import AgentMessage, Host, HostAnswer
from slacktide.testing.fake_provider import NOTICE_HOURS, Cloud, FakeInstance

GIVEN_UP_S = 8.0
"""A node that was cut off for so long is taken for gone by its carrier."""
NOTICED_S = 3.0
"""How long after its end a machine is known to be gone."""
FORGOTTEN_S = 600.0
"""How long after its end a machine is not listed any more."""
HOUR_S = 3600.0


@dataclass(slots=True)
class Faults:
    """How often messages and machines have accidents."""

    lost_share: float = 0.0
    twice_share: float = 0.0
    late_share: float = 0.0
    """Messages that are on their way for up to a minute; the others for up to a second."""
    cuts_per_hour: float = 0.0
    """Of each machine: one way or both, for up to a minute."""
    agent_deaths_per_hour: float = 0.0
    outages_per_hour: float = 0.0
    """Of the way to all machines."""


@dataclass(slots=True)
class Machine:
    """A machine, and what its carrier believes of it."""

    instance: FakeInstance
    nodes: list[Node]
    """The last one is the present one; those before it have been given up."""
    cut_from: float = math.inf
    cut_until: float = -math.inf
    ways: str = ""
    """Which ways are cut: `in`, `out` or both."""
    believed: bool = True
    dead_since: float = math.inf
    agent_back_at: float = math.inf
    hosts: dict[str, Host] = field(default_factory=dict)

    def is_cut(self, way: str, now: float) -> bool:
        """Whether nothing passes one way."""
        return self.cut_from <= now < self.cut_until and way in self.ways


class Network:
    """All machines of a cloud, as messages reach them; it outlives controllers."""

    def __init__(
        self, cloud: Cloud, truth: Truth, rng: random.Random, now: Callable[[], float], root: Path,
        owner: str, lease_s: float,
    ) -> None:  # fmt: skip
        self.cloud, self.truth, self.rng, self.now = cloud, truth, rng, now
        self._root, self._owner, self._lease_s = root, owner, lease_s
        self.faults = Faults()
        self.machines: dict[str, Machine] = {}
        self._of_node: dict[str, Machine] = {}
        self._flying: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.out_until = -math.inf
        self.link: SimulatedLink | None = None
        self.counts: dict[str, int] = {"cuts": 0, "agent deaths": 0, "outages": 0}

    def pass_time(self, seconds: float) -> None:
        """Let machines boot and end, accidents happen and messages arrive."""
        now = self.now()
        self.cloud.pass_time()
        for one in self.cloud.instances.values():
            self._age(one, now, seconds)
        if self._happens(self.faults.outages_per_hour, seconds):
            self.out_until = now + self.rng.uniform(1.0, 2.0 * self._lease_s)
            self.counts["outages"] += 1
        while self._flying and self._flying[0][0] <= now:
            heapq.heappop(self._flying)[2]()
        for machine in self.machines.values():
            for node in machine.nodes:
                node.tick()

    def _happens(self, per_hour: float, seconds: float) -> bool:
        return per_hour > 0.0 and self.rng.random() < -math.expm1(-per_hour * seconds / HOUR_S)

    def _age(self, one: FakeInstance, now: float, seconds: float) -> None:
        machine = self.machines.get(one.id)
        state = one.state(now / HOUR_S, self.cloud.boot_hours)
        if machine is None:
            if state == "up":
                self.machines[one.id] = Machine(one, [])
                self._join(self.machines[one.id])
            return
        if state == "gone":
            if machine.dead_since == math.inf:
                machine.dead_since = now
                for node in machine.nodes:
                    node.die()
            machine.believed = now - machine.dead_since < NOTICED_S
            return
        self._harm(machine, now, seconds)

    def _harm(self, machine: Machine, now: float, seconds: float) -> None:
        node, one = machine.nodes[-1], machine.instance
        left_s = (one.noticed_hours + NOTICE_HOURS) * HOUR_S - now
        node.notice_s = max(0.0, left_s) if one.noticed_hours < math.inf else None
        if now >= machine.cut_until and self._happens(self.faults.cuts_per_hour, seconds):
            machine.cut_from, machine.ways = now, self.rng.choice(["in", "out", "in out"])
            machine.cut_until = now + self.rng.choice([2.0, 6.0, 20.0, 60.0])
            self.counts["cuts"] += 1
        if machine.cut_from <= now < machine.cut_until:
            machine.believed = now - machine.cut_from < GIVEN_UP_S
        elif not machine.believed:
            self._join(machine)
        if node.agent is not None and self._happens(self.faults.agent_deaths_per_hour, seconds):
            node.agent, machine.agent_back_at = None, now + self.rng.uniform(0.0, 2.0 * self._lease_s)
            self.counts["agent deaths"] += 1
        if node.agent is None and now >= machine.agent_back_at:
            node.start_agent()

    def _join(self, machine: Machine) -> None:
        one = machine.instance
        name = f"{one.id}.{len(machine.nodes) + 1}"
        machine.nodes.append(Node(name, self._root, self._owner, self._lease_s, self.truth, self.now))
        machine.believed = True
        machine.hosts[name] = Host(name, one.spec.kind, one.spec.pool, one.spec.gpus, "127.0.0.1", one.ticket)
        self._of_node[name] = machine

    def hosts(self) -> list[Host]:
        """List the machines as their carrier believes them to be."""
        found = []
        for machine in self.machines.values():
            if self.now() - machine.dead_since > FORGOTTEN_S:
                continue
            for node in machine.nodes:
                alive = machine.believed and node is machine.nodes[-1]
                found.append(machine.hosts[node.name]._replace(alive=alive))
        return found

    def send(self, link: SimulatedLink, host: str, say: AgentMessage) -> None:
        """Put a message on its way, perhaps twice or never."""
        for _ in range(self._copies()):
            self._fly(lambda: self._arrive(link, host, say))

    def _copies(self) -> int:
        drawn = self.rng.random()
        lost, twice = self.faults.lost_share, self.faults.twice_share
        return 0 if drawn < lost or self.now() < self.out_until else 2 if drawn < lost + twice else 1

    def _fly(self, arrive: Callable[[], None]) -> None:
        late = self.rng.random() < self.faults.late_share
        at = self.now() + self.rng.uniform(0.0, 60.0 if late else 1.0)
        heapq.heappush(self._flying, (at, next(self._numbers), arrive))

    def _arrive(self, link: SimulatedLink, host: str, say: AgentMessage) -> None:
        machine = self._of_node[host]
        if machine.is_cut("in", self.now()):
            return
        node = next(one for one in machine.nodes if one.name == host)
        answer = node.tell(say)
        if answer is not None and not machine.is_cut("out", self.now()):
            for _ in range(self._copies()):
                self._fly(lambda: link.hear(HostAnswer(host, answer)))


class SimulatedLink:
    """The link of one controller; what comes after its end is heard by nobody."""

    def __init__(self, network: Network) -> None:
        self._network, self._answers, self._closed = network, list[HostAnswer](), False
        self.trouble = ""

    def hosts(self) -> Sequence[Host]:
        """List the machines."""
        return self._network.hosts()

    def send(self, host: str, say: AgentMessage) -> None:
        """Send a message."""
        self._network.send(self, host, say)

    def hear(self, heard: HostAnswer) -> None:
        """Keep an answer until it is asked for."""
        if not self._closed and self._network.now() >= self._network.out_until:
            self._answers.append(heard)

    def answers(self) -> Sequence[HostAnswer]:
        """Return what was answered since the last call."""
        found, self._answers = self._answers, []
        return found

    def close(self) -> None:
        """Hear nothing any more."""
        self._closed = True
