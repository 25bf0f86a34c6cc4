"""Agents as plain processes of this machine, spoken to over pipes: machines without any carrier."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from slacktide.backends.machines.agent.messages import AgentMessage, read_frame, write_frame
from slacktide.backends.machines.link.base import Host, HostAnswer

CLOSE_S = 10.0


class AgentProcess:
    """An agent, a thread that writes to it and one that reads from it."""

    def __init__(self, host: str, command: Sequence[str], answers: queue.SimpleQueue[HostAnswer]) -> None:
        self.host = host
        self._answers = answers
        self._messages: queue.SimpleQueue[AgentMessage | None] = queue.SimpleQueue()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._threads = [threading.Thread(target=task, daemon=True) for task in (self._write, self._read)]
        for thread in self._threads:
            thread.start()

    def send(self, message: AgentMessage) -> None:
        """Write a message as soon as the one before is written."""
        self._messages.put(message)

    def close(self) -> None:
        """Close the agent's input, and wait for its end."""
        self._messages.put(None)
        self._threads[-1].join(CLOSE_S)
        if self._threads[-1].is_alive():
            self.process.kill()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        assert self.process.stdin
        with suppress(OSError, ValueError):
            while (message := self._messages.get()) is not None:
                write_frame(self.process.stdin, message)
        with suppress(OSError):
            self.process.stdin.close()

    def _read(self) -> None:
        assert self.process.stdout
        with suppress(EOFError, OSError, ValueError):
            while True:
                self._answers.put(HostAnswer(self.host, read_frame(self.process.stdout)))
        self.process.stdout.close()
        self.process.wait()


class Pipes:
    """A link to agents that it starts itself, one for each machine that it is given."""

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
            self.agents[host].close()
            self.agents[host] = self._start(host)
        self.agents[host].send(message)

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
            agent.close()

    def _start(self, host: str) -> AgentProcess:
        command = [sys.executable, "-m", "slacktide.backends.machines.agent.serve", str(self._root / host)]
        owner = f"{self._owner}.{host}"
        return AgentProcess(host, [*command, owner, f"{self._lease_s:g}"], self._answers)
