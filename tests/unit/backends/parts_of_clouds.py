"""A cloud whose machines are folders of this one: agents as plain processes, and a provider of them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from slacktide.backends import process_table
from slacktide.backends.base import BackendPlace, BackendStatus, LaunchSpec
from slacktide.backends.machines.agent.messages import Host
from slacktide.backends.machines.backend import MachineBackend, NodeAccess
from slacktide.core.types import Order
from slacktide.journal.state.tickets import MachineKind, MemoryMachineLog
from slacktide.providers.base import Renter, Renting, Rules
from slacktide.testing.fake_provider import Cloud, Fake, Faults
from tests.parts_of_agents import LocalAgents

from .conftest import wait_for

LEASE_S = 3.0
STAYS = "echo ready; sleep 600"
RULES = Rules(
    usd_per_hour={("spot", "zone"): 1.0, ("on-demand", "zone"): 3.0},
    first_wait_hours=0.3 / 3600.0,
    longest_wait_hours=1.0 / 3600.0,
    join_within_hours=60.0 / 3600.0,
)
SPECS = (MachineKind("spot", "zone", 2), MachineKind("on-demand", "zone", 1))


def hours() -> float:
    """Return the time of the cloud's clock."""
    return time.time() / 3600.0


class CloudLink(LocalAgents):
    """Finds the machines of a cloud once they are up, with an agent on each; an end ends all there."""

    def __init__(self, cloud: Cloud, root: Path, owner: str, lease_s: float) -> None:
        super().__init__((), root, owner, lease_s)
        self._cloud = cloud
        self.labelled = True
        """Whether machines say with which ticket they were rented."""

    def hosts(self) -> Sequence[Host]:
        """Look at the cloud."""
        for one in list(self._cloud.instances.values()):
            up = one.state(hours(), self._cloud.boot_hours) == "up"
            if up and one.id not in self._hosts:
                self._hosts[one.id] = Host(
                    one.id, one.spec.kind, "zone", one.spec.gpus, "127.0.0.1", one.ticket
                )
                self.agents[one.id] = self._start(one.id)
            elif not up and one.id in self._hosts and self._hosts[one.id].alive:
                self.lose(one.id)
                end_all(f"{self._owner}.{one.id}")
        return super().hosts()


def end_all(mark: str) -> None:
    """Kill all processes of a machine: its agent, what guards it, and its workers."""
    subprocess.run(["pkill", "-9", "-f", mark], check=False)
    while found := [seen for seen in process_table.scan() if (seen.marker or "").startswith(mark)]:
        for seen in found:
            with suppress(ProcessLookupError):
                os.kill(seen.process.pid, signal.SIGKILL)


@dataclass(slots=True)
class OnLink(MachineBackend):
    """A back end on a link that is given."""

    given: NodeAccess

    def node_access(self) -> NodeAccess:
        """Return it."""
        return self.given


class Rented:
    """A controller that rents the machines that it needs."""

    def __init__(self, folder: Path, faults: Faults | None = None, rules: Rules = RULES) -> None:
        self.folder, self.owner, self.rules = folder, uuid.uuid4().hex, rules
        self.cloud = Cloud(hours, faults=faults)
        self.diary = MemoryMachineLog()
        self.begin()

    def begin(self) -> None:
        """Start a controller; what it knows is in the diary and on disk."""
        provider = Fake(Renter(owner=self.owner), cloud=self.cloud)
        place = BackendPlace(
            folder=self.folder / "runs", owner=self.owner, now_hours=hours, diary=self.diary,
            renting=lambda head, token: Renting(provider, self.rules, SPECS),
        )  # fmt: skip
        self.link = link = CloudLink(self.cloud, self.folder / "machines", self.owner, LEASE_S)
        self.backend = OnLink(place, NodeAccess(link, LEASE_S))
        launch = LaunchSpec(job="job", run=STAYS, workdir=str(self.folder), grace_s=1.0)
        self.backend.enter(launch)

    def restart(self, *orders: Order) -> None:
        """Forget the controller; the next one recovers as an engine does."""
        self.backend.close()
        self.begin()
        self.backend.sweep(orders)
        self.backend.look([order.job for order in orders])
        for order in orders:
            self.backend.hold(order)

    def until(self, condition: Callable[[BackendStatus], object]) -> BackendStatus:
        """Look until a condition holds."""
        seen: list[BackendStatus] = []
        wait_for(
            lambda: seen and condition(seen[-1]),
            lambda: seen.append(self.backend.look(["job"])["job"]),
        )
        return seen[-1]

    def hold(self, order: Order) -> BackendStatus:
        """Order, and wait until all of it is held."""
        self.backend.hold(order)
        wanted = order.attempt, order.spot_gpus, order.on_demand_gpus
        return self.until(lambda facts: (facts.attempt, facts.spot_gpus, facts.on_demand_gpus) == wanted)

    def living(self) -> dict[MachineKind, int]:
        """Return how many machines of each kind are paid for."""
        specs = [one.spec for one in self.cloud.living]
        return {spec: specs.count(spec) for spec in SPECS if spec in specs}

    def close(self) -> None:
        """Leave nothing behind."""
        self.backend.close()
        end_all(self.owner)
