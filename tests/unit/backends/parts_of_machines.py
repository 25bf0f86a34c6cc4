"""Machines whose messages can be lost, and a controller over them: agents as plain processes."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from slacktide.backends import process_table
from slacktide.backends.base import BackendPlace, BackendStatus, LaunchSpec
from slacktide.backends.machines.agent.messages import AgentMessage, Host, HostAnswer
from slacktide.backends.machines.backend import NodeAccess
from slacktide.core.types import Order
from tests.parts_of_agents import LocalAgents
from tests.parts_of_files import pids_below

from .conftest import wait_for
from .parts_of_clouds import OnLink

LONG_S = 600.0
STAYS = "echo ready; sleep 600"
TWO = Order("job", 1, "here", 2, 0)


class Cut(LocalAgents):
    """Pipes that can lose what is said, or what is answered."""

    deaf: frozenset[str] = frozenset()
    mute: frozenset[str] = frozenset()
    on_say: Callable[[str, AgentMessage], None] = staticmethod(lambda host, say: None)
    alter: Callable[[str, AgentMessage], AgentMessage] = staticmethod(lambda host, say: say)
    loses_packs = False

    def send(self, host: str, say: AgentMessage) -> None:
        """Say this, unless it is lost."""
        self.on_say(host, say)
        say = self.alter(host, say)
        if self.loses_packs:
            say = say._replace(packs={})
        if host not in self.deaf:
            super().send(host, say)

    def answers(self) -> Sequence[HostAnswer]:
        """Return what was answered and not lost."""
        return [heard for heard in super().answers() if heard.host not in self.mute]


class Site:
    """A journal, a few machines, and a controller that looks as an engine does."""

    def __init__(self, folder: Path, lease_s: float, names: str = "abc", gpus: int = 1) -> None:
        self.folder, self.owner, self.lease_s = folder, uuid.uuid4().hex, lease_s
        self.names, self.gpus = names, gpus
        self.most = self._looks = 0
        """The most workers that ever lived at once."""
        self.begin()

    def begin(self) -> None:
        """Start a controller; what it knows is on disk."""
        hosts = [Host(name, None, None, self.gpus, "127.0.0.1") for name in self.names]
        self.link = Cut(hosts, self.folder / "machines", self.owner, self.lease_s)
        self.connect()

    def connect(self) -> None:
        """Make a controller that speaks over the link that there is."""
        place = BackendPlace(folder=self.folder / "runs", owner=self.owner, now_hours=lambda: 0.0)
        self.backend = OnLink(place, NodeAccess(self.link, self.lease_s))

    def run(self, command: str = STAYS, order: Order = TWO) -> BackendStatus:
        """Enter a job and order its first workers."""
        self.backend.enter(LaunchSpec(job="job", run=command, workdir=str(self.folder), grace_s=1.0))
        return self.hold(order)

    def hold(self, order: Order) -> BackendStatus:
        """Order workers, and look until they are there."""
        self.backend.hold(order)
        wanted = order.attempt, order.spot_gpus

        # Processes are found by their environment, which a new one does not have for a moment.
        def are_there(facts: BackendStatus) -> bool:
            return facts.gone or len({seen.marker for seen in self.living()}) >= order.spot_gpus

        return self.until(lambda facts: (facts.attempt, facts.spot_gpus) == wanted and are_there(facts))

    def look(self) -> BackendStatus:
        """Look, and count now and then who lives."""
        self._looks += 1
        if self._looks % 16 == 0:
            self.most = max(self.most, len({seen.marker for seen in self.living()}))
        return self.backend.look(["job"])["job"]

    def host_of(self, rank: int) -> str:
        """Return the machine that carries a rank."""
        found = {str(seen.marker).split("/")[-1]: str(seen.marker).split("/")[0] for seen in self.living()}
        return found[str(rank)].split(".")[1]

    def until(self, condition: Callable[[BackendStatus], object]) -> BackendStatus:
        """Look until a condition holds, and return what was seen then."""
        seen: list[BackendStatus] = []
        wait_for(lambda: seen and condition(seen[-1]), lambda: seen.append(self.look()))
        return seen[-1]

    def living(self, host: str = "") -> list[process_table.SeenProcess]:
        """Return the workers that live, of one machine or all."""
        mine = f"{self.owner}.{host}"
        return [seen for seen in process_table.scan() if (seen.marker or "").startswith(mine)]

    def supervisors(self) -> set[int]:
        """Return those who registered as workers and live: what they start comes and goes."""
        alive = {seen.process.pid for seen in self.living()}
        return pids_below(self.folder / "machines", "rank-*.pid") & alive

    def carriers(self) -> list[str]:
        """Return the machines that carry workers."""
        return sorted({str(seen.marker).split("/")[0].split(".")[1] for seen in self.living()})

    def clear(self) -> None:
        """Leave nothing behind."""
        for agent in self.link.agents.values():
            agent.process.send_signal(signal.SIGCONT)
        self.backend.close()
        for host in self.names:
            self.kill(host)

    def kill(self, host: str) -> None:
        """Lose a machine with all that runs on it; nobody there says another word."""
        self.link.deaf |= {host}
        self.link.agents[host].process.kill()
        subprocess.run(["pkill", "-9", "-f", f"{self.owner}.{host}"], check=False)
        while self.living(host):
            for seen in self.living(host):
                with suppress(ProcessLookupError):
                    os.kill(seen.process.pid, signal.SIGKILL)
