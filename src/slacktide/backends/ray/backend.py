"""The back end of a Ray cluster, and its link to the nodes through a bridge process.

If the bridge ends, or sends nothing for some seconds, it is killed and started again. Nothing here waits for
Ray, for the bridge or for a node.
"""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from slacktide.backends import process_table
from slacktide.backends.base import LaunchSpec, backends
from slacktide.backends.machines.agent.messages import AgentAnswer, AgentMessage, Host, HostAnswer
from slacktide.backends.machines.backend import MachineBackend, NodeAccess
from slacktide.backends.machines.frame_process import FrameProcess
from slacktide.backends.ray.cluster_note import ClusterAddress, default_path, find_cluster, of_node, read_note
from slacktide.backends.ray.node_settings import Beat, Reply, Sending, client_environ
from slacktide.core.errors import InputError
from slacktide.core.units import parse_duration_hours

BEGIN_S = 30.0  # how long Python may take to start on a busy machine
REFUSED = ("InvalidAuthToken", "Unauthenticated", "AuthenticationError")
"""What Ray prints if a token is wrong or missing; it goes on trying all the same."""
KEPT_LINES = 50
SILENT_S = 5.0  # a bridge that has sent nothing for this long is killed
CONNECT_S = 60.0  # a bridge that has no connection after this long is killed too
HEAD_S = 5.0  # after this long without a list of nodes, the head is reported not to answer
DEAD_KEPT_S = 600.0  # how long nodes that are gone stay listed
IDLE_S = 1800.0
"""After this long without a controller the agents of a journal end; the next controller starts them."""
PAUSES_S = (0.2, 1.0, 3.0, 5.0)  # before a bridge is started again; longer each time until one connects
WATCH_S = 0.1


class Start(NamedTuple):
    """The settings of a bridge process."""

    address: str
    owner: str
    lease_s: float
    idle_s: float
    token: Path | None


class BridgeProcess:
    """A bridge process and the threads that exchange frames with it."""

    def __init__(self, start: Start, on_frame: Callable[[BridgeProcess, Beat | Reply], None]) -> None:
        self._start, self._on_frame = start, on_frame
        command = [sys.executable, "-m", "slacktide.backends.ray.bridge", start.address, start.owner]
        self._began = time.monotonic()
        self._last_frame_at: float | None = None
        self._trouble = ""
        self._printed: deque[str] = deque(maxlen=KEPT_LINES)
        self._child = FrameProcess(
            [*command, f"{start.lease_s:g}", f"{start.idle_s:g}"],
            self._receive,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env=client_environ(os.environ, start.address, start.token),
        )
        # Standard error is read all the time: Ray prints a lot, and would wait when the pipe is full.
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._drainer.start()

    @property
    def pid(self) -> int:
        """Its process, which leads a group and a session of its own."""
        return self._child.process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._child.process.poll() is None

    @property
    def age_s(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self._began

    @property
    def silent_s(self) -> float:
        """For how long it has sent nothing, not counting BEGIN_S for its start."""
        if self._last_frame_at is None:
            return max(0.0, self.age_s - BEGIN_S)
        return time.monotonic() - self._last_frame_at

    def why(self) -> str:
        """Return why it cannot connect, as a sentence; empty if that is not known."""
        if any(word in line for line in list(self._printed) for word in REFUSED):
            where = f"into {self._start.token}" if self._start.token else "where RAY_AUTH_TOKEN_PATH says"
            return (
                f"the Ray cluster at {self._start.address} must be given its token, got another or none; "
                f"put the right one {where}"
            )
        return self._trouble

    def send(self, host: str, message: AgentMessage) -> None:
        """Send a message to a node; an older one to it that has not been written yet is dropped."""
        self._child.send(host, Sending(host, pickle.dumps(message)))

    def kill(self) -> None:
        """End it at once, with all that it started."""
        self._child.kill_session()
        self._drainer.join()
        assert self._child.process.stderr
        self._child.process.stderr.close()

    def _receive(self, frame: Beat | Reply) -> None:
        self._last_frame_at = time.monotonic()
        if isinstance(frame, Beat) and frame.trouble:
            self._trouble = frame.trouble
        self._on_frame(self, frame)

    def _drain(self) -> None:
        assert self._child.process.stderr
        for line in self._child.process.stderr:
            self._printed.append(line.decode(errors="replace"))


class RayLink:
    """Sends messages to the agents on the nodes of a Ray cluster, and receives their answers."""

    def __init__(
        self, address: str, owner: str, lease_s: float, *, token: Path | None = None,
        idle_s: float = IDLE_S, silent_s: float = SILENT_S,
    ) -> None:  # fmt: skip
        """Connect to the cluster at `address`, as `host:port`, with the token in a file if one is given.

        `owner` is the journal's id; agents end their workers `lease_s` after their last answer arrived here.
        """
        self._start = Start(address, owner, lease_s, idle_s, token)
        self._silent_s = silent_s
        self._lock = threading.Lock()
        self._hosts: dict[str, Host] = {}
        self._dead_since: dict[str, float] = {}
        self._answers: deque[HostAnswer] = deque()
        self._beat = Beat(False)
        self._why = f"the Ray cluster at {address} is being connected to"
        self._closed = threading.Event()
        self._bridge: BridgeProcess | None = None
        self._keeper: threading.Thread | None = None

    def hosts(self) -> Sequence[Host]:
        """List the nodes with GPUs; those that are gone stay for ten minutes."""
        self._begin()
        now = time.monotonic()
        with self._lock:
            for name, since in list(self._dead_since.items()):
                if now - since > DEAD_KEPT_S:
                    self._hosts.pop(name, None)
            return list(self._hosts.values())

    def send(self, host: str, message: AgentMessage) -> None:
        """Send this to the agent of a node. A message that has not been delivered yet is dropped."""
        with self._lock:
            bridge = self._bridge
        if bridge is not None:
            bridge.send(host, message)

    def answers(self) -> Sequence[HostAnswer]:
        """Return the answers since the last call, in the order in which they came."""
        with self._lock:
            found = list(self._answers)
            self._answers.clear()
        return found

    @property
    def trouble(self) -> str:
        """Why no node can be reached just now, as a sentence; empty if some can."""
        self._begin()
        address = self._start.address
        with self._lock:
            if not self._beat.connected:
                return self._why
            if self._beat.listed_ago_s > HEAD_S:
                return f"the head of the Ray cluster at {address} does not answer"
            if not any(host.alive for host in self._hosts.values()):
                return (
                    f"the Ray cluster at {address} must have nodes with GPUs, found none; start nodes with "
                    "--num-gpus, or with the label slacktide-gpus"
                )
            return self._beat.trouble

    def close(self) -> None:
        """End the bridge; agents and workers stay."""
        self._closed.set()
        with self._lock:
            bridge = self._bridge
        if bridge is not None:
            bridge.kill()
        if self._keeper is not None:
            self._keeper.join()

    def _begin(self) -> None:
        """Connect at the first call: a command that only reads logs needs no cluster."""
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._keep, daemon=True, name="ray-link")
            self._keeper.start()

    def _keep(self) -> None:
        """Run a bridge, and start another whenever it has ended or is of no use, until the link is closed."""
        failures = 0
        while not self._closed.is_set():
            bridge = BridgeProcess(self._start, self._receive)
            with self._lock:
                self._bridge = bridge
            connected = self._watch(bridge)
            bridge.kill()
            with self._lock:
                self._bridge, self._beat = None, Beat(False)
                self._why = bridge.why() or self._lost(connected)
            failures = 1 if connected else failures + 1
            self._closed.wait(PAUSES_S[min(failures, len(PAUSES_S)) - 1])

    def _watch(self, bridge: BridgeProcess) -> bool:
        """Wait until a bridge has ended or is of no use any more; return whether it was ever connected."""
        connected = False
        while bridge.alive and not self._closed.wait(WATCH_S):
            with self._lock:
                connected = connected or self._beat.connected
                if not connected and (why := bridge.why()):
                    self._why = why
            if bridge.silent_s > self._silent_s or (not connected and bridge.age_s > CONNECT_S):
                break
        return connected

    def _lost(self, connected: bool) -> str:
        if not connected:
            return f"the Ray cluster at {self._start.address} must answer, got nothing; it is tried again"
        return f"the connection to the Ray cluster at {self._start.address} was lost; it is made again"

    def _receive(self, bridge: BridgeProcess, frame: Beat | Reply) -> None:
        """Take in what a bridge sends, if it is still the current one."""
        answer: AgentAnswer | None = pickle.loads(frame.frame) if isinstance(frame, Reply) else None
        with self._lock:
            if bridge is not self._bridge:
                return
            if isinstance(frame, Reply) and answer is not None:
                self._answers.append(HostAnswer(frame.host, answer))
            elif isinstance(frame, Beat):
                self._beat = frame
                if frame.hosts is not None:
                    self._list(frame.hosts)

    def _list(self, listed: Sequence[Host]) -> None:
        """Update the nodes; one that is no longer alive or no longer listed is gone from now on."""
        now = time.monotonic()
        alive = {host.id: host for host in listed if host.alive}
        gone = {host.id: host for host in listed if not host.alive}
        for name, host in {**gone, **self._hosts}.items():
            if name not in alive and name not in self._dead_since:
                self._dead_since[name] = now
                self._hosts[name] = host._replace(alive=False)
        self._hosts.update(alive)


LEASE_S = 30.0
"""How long workers go on without a message from their controller: longer than it takes to start another one.
A lost node is waited for this long, unless its provider says that it has ended."""
LEASE = "SLACKTIDE_LEASE"  # the variable that sets another length
SHORTEST_S = 2.0
SCAN_S = 0.5  # how often this machine's processes are searched for those of a lost node


@backends.register
@dataclass(slots=True)
class Ray(MachineBackend):
    """Nodes of a Ray cluster: that of RAY_ADDRESS, else the one that `slacktide cluster up` started."""

    cluster: ClusterAddress = field(init=False)
    _ended: set[str] = field(init=False, default_factory=set)
    _scanned_at: float = field(init=False, default=-math.inf)

    def node_access(self) -> NodeAccess:
        """Find the cluster, to which the link connects when it is first needed."""
        self.cluster = find_cluster()
        address, token, _ = self.cluster
        length_s = lease_s(os.environ)
        link = RayLink(address, self.place.owner, length_s, token=token)
        return NodeAccess(link, length_s, address, "" if token is None else str(token))

    def ended_hosts(self) -> Iterable[str]:
        """Return the lost nodes without a living process; only known for a cluster on this machine."""
        if not self.cluster.local:
            return ()
        lost = {machine.host.id for machine in self.machine_workers.machines.all() if not machine.host.alive}
        if lost - self._ended and time.monotonic() - self._scanned_at > SCAN_S:
            self._scanned_at = time.monotonic()
            note, seen = read_note(default_path()), list(process_table.scan())
            nodes = [node for node in note.nodes if node.id in lost] if note is not None else []
            self._ended |= {node.id for node in nodes if not of_node(node, seen)}
        return self._ended

    def enter(self, launch: LaunchSpec) -> None:
        """Register a job; raises InputError when there is no cluster, or it cannot be run."""
        if not self.cluster.address:
            raise InputError(
                "there must be a Ray cluster for back end ray, found none; start one on this machine with "
                "`slacktide cluster up`, or set RAY_ADDRESS to the address of yours"
            )
        MachineBackend.enter(self, launch)


def lease_s(environ: Mapping[str, str]) -> float:
    """Return the length of leases: what the user's variable says, else LEASE_S; raises InputError."""
    text = environ.get(LEASE)
    if not text:
        return LEASE_S
    seconds = parse_duration_hours(text) * 3600.0
    if seconds < SHORTEST_S:
        raise InputError(f"{LEASE} must be at least {SHORTEST_S:g}s, got {text}")
    return seconds
