"""A link to agents that are processes of this machine, over pipes."""

from __future__ import annotations

import queue
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from slacktide.backends.machines.agent.messages import AgentMessage, Host, HostAnswer
from slacktide.backends.machines.frame_process import FrameProcess

CLOSE_S = 10.0


class LocalAgents:
    """A link to agents that are processes of this machine, over pipes."""

    def __init__(self, hosts: Sequence[Host], root: Path, owner: str, lease_s: float) -> None:
        """Start the agents; each keeps its files in a folder of its own under `root`."""
        self._hosts = {host.id: host for host in hosts}
        self._root, self._owner, self._lease_s = root, owner, lease_s
        self._answers: queue.SimpleQueue[HostAnswer] = queue.SimpleQueue()
        self.agents = {name: self._start(name) for name in self._hosts}
        self.trouble = ""

    def hosts(self) -> Sequence[Host]:
        """List the machines."""
        return tuple(self._hosts.values())

    def send(self, host: str, message: AgentMessage) -> None:
        """Say this to an agent; one that has ended is started again."""
        if self.agents[host].process.poll() is not None:
            self.agents[host].close(CLOSE_S)
            self.agents[host] = self._start(host)
        self.agents[host].send(host, message)

    def answers(self) -> Sequence[HostAnswer]:
        """Return what was answered since the last call."""
        found: list[HostAnswer] = []
        with suppress(queue.Empty):
            while True:
                found.append(self._answers.get_nowait())
        return found

    def lose(self, host: str) -> None:
        """Take a machine for down from now on."""
        self._hosts[host] = self._hosts[host]._replace(alive=False)

    def close(self) -> None:
        """End the agents; workers stay."""
        for agent in self.agents.values():
            agent.close(CLOSE_S)

    def _start(self, host: str) -> FrameProcess:
        command = [sys.executable, "-m", "slacktide.backends.machines.agent.serve", str(self._root / host)]
        owner = f"{self._owner}.{host}"
        return FrameProcess(
            [*command, owner, f"{self._lease_s:g}"],
            lambda answer: self._answers.put(HostAnswer(host, answer)),
        )
