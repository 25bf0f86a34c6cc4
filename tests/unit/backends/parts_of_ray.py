"""A controller that speaks to the nodes of a Ray cluster with plain messages, and looks at processes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path

from slacktide.backends import process_table
from slacktide.backends.base import LaunchSpec
from slacktide.backends.machines.agent.messages import AgentAnswer, AgentMessage, AgentTask, Host, LaunchPack
from slacktide.backends.ray.backend import RayLink
from slacktide.backends.workers.launch import Launch, SetPart

from .conftest import wait_for

LONG_S = 600.0
PAUSE_S = 0.05
SLEEPS = 'echo "rank $RANK of $WORLD_SIZE"; cat greeting; sleep 600'
NAME = ("job", 1, 0)


def slacktide(*arguments: str, code: int = 0) -> str:
    """Run a command as a user does; return what it prints."""
    command = [sys.executable, "-m", "slacktide", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def pack() -> LaunchPack:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("greeting", "hello\n")
    spec, nowhere = LaunchSpec(job="job", run=SLEEPS, grace_s=5.0), Path("/nowhere")
    launch = Launch(spec=spec, workdir=nowhere, checkpoint_dir=nowhere, secrets={"TOKEN": "s3cret"})
    return LaunchPack(launch, made.getvalue())


class Controller:
    """Wants two workers of one job on one node."""

    def __init__(self, link: RayLink) -> None:
        self.link = link
        self.numbers: dict[str, int] = {}
        self.answers: dict[str, AgentAnswer] = {}
        self.wanted = ""

    def host(self, kind: str) -> Host:
        (found,) = [host for host in self.link.hosts() if host.kind == kind]
        return found

    def want_on(self, host: Host) -> None:
        self.wanted = host.id

    def step(self) -> None:
        """Say to every node what is wanted, and take over what comes."""
        time.sleep(PAUSE_S)
        for host, answer in self.link.answers():
            self.answers[host] = answer
        for one in self.link.hosts():
            last = self.answers.get(one.id)
            lacking = last.lacking if last else ()
            part = SetPart((0, 1), ("127.0.0.1", "127.0.0.1"), 4711)
            tasks = (AgentTask("job", 1, ("spot", "spot"), part, "v1"),) if one.id == self.wanted else ()
            number = self.numbers[one.id] = self.numbers.get(one.id, 0) + 1
            heard, packs = last.token if last else "", dict.fromkeys(lacking, pack())
            self.link.send(
                one.id, AgentMessage(number, last_token=heard, tasks=tasks, packs=packs, read={NAME: 0})
            )

    def until(self, condition: Callable[[], object]) -> None:
        wait_for(condition, self.step)

    def until_heeded_anew(self) -> AgentAnswer:
        """Wait for an answer to something that is said from now on; return it."""
        self.step()
        said = self.numbers[self.wanted]

        def accepted() -> bool:
            last = self.answers.get(self.wanted)
            return last is not None and last.accepted and last.number > said and not last.lacking

        self.until(accepted)
        return self.answers[self.wanted]

    def until_running(self) -> None:
        self.until(lambda: self.until_heeded_anew().jobs["job"].phase == "running")


class Processes:
    """The processes of one owner on one node, as they are now."""

    def __init__(self, owner: str, node: str) -> None:
        self.name = f"{owner}.{node[:12]}"

    def workers(self) -> dict[int, str]:
        """Return the living processes of workers that lead a session, by pid: supervisors."""
        return {
            seen.process.pid: seen.process.started
            for seen in process_table.scan()
            if (seen.marker or "").startswith(f"{self.name}/") and seen.session == seen.process.pid
        }

    def any_worker(self) -> bool:
        return any((seen.marker or "").startswith(f"{self.name}/") for seen in process_table.scan())

    def agents(self) -> list[process_table.SeenProcess]:
        """Return the agents, which Ray's actor has started; there is one, except while they change."""
        return [seen for seen in process_table.scan() if self._serves(seen.process.pid)]

    def is_replaced(self, old: process_table.SeenProcess) -> bool:
        """Whether there is another agent, and only that."""
        found = [seen.process for seen in self.agents()]
        return len(found) == 1 and found[0] != old.process

    def _serves(self, pid: int) -> bool:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return b"slacktide.backends.machines.agent.serve" in words and self.name.encode() in words


def new_owner() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"


def listened_on(pids: set[int]) -> set[str]:
    """Return the addresses, as the kernel writes them, on which these processes accept connections."""
    inodes = {link for pid in pids for link in _sockets(pid)}
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                found.add(fields[1].partition(":")[0])
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
"""127.0.0.1, the same inside of IPv6, and ::1, as the kernel writes them."""


def _sockets(pid: int) -> list[str]:
    try:
        return [os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:  # gone meanwhile
        return []
