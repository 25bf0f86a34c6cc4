"""The process that is a client of Ray: it lists the nodes, and passes messages between a link and agents.

It is a process of its own because Ray ends the process that has called `ray.init` when the head of the
cluster dies. It may be killed at any moment: actors, agents and workers go on without it. It ends when its
standard input does.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any, NamedTuple

from slacktide.backends.machines.agent.messages import Host, read_frame, write_frame
from slacktide.backends.ray import actor
from slacktide.backends.ray.node_settings import CLIENT, Beat, Reply, Sending, host_of
from slacktide.simulation.parallel.node_setup import code_archive, code_digest

SPACE = "slacktide"  # the namespace of our actors
FORM = 1
"""Changes when the actor's methods do: actors of another form are left alone and end when idle."""
PAUSE_S = 0.3  # after an error; the actor may be on its way back
STUCK_S = 45.0  # an actor that does not answer for this long is killed, and Ray starts it again
BYTES_PER_S = 1e6  # the slowest network: a large message may take longer than STUCK_S by its size
LOOK_S = 0.5
BEAT_S = 0.2
LIST_S = 0.3
KNOCK_S = 5.0  # how long a head may take to accept a connection


class Package(NamedTuple):
    """Slacktide's own code, as it is sent to nodes."""

    digest: str
    archive: bytes  # a zip file


class NodeMessenger:
    """Sends messages to the agent of one node and receives its answers, in a thread of its own."""

    def __init__(
        self, host: Host, owner: str, lease_s: float, idle_s: float, package: Package,
        reply: Callable[[Reply], None],
    ) -> None:  # fmt: skip
        self.host, self._owner, self._lease_s, self._idle_s = host, owner, lease_s, idle_s
        self._package, self._reply = package, reply
        self._next: bytes | None = None
        self._ended = False
        self.error = ""  # why there was no answer to the last message; empty when there was one
        self._changed = threading.Condition()
        self._actor: Any = None
        threading.Thread(target=self._exchange_all, daemon=True, name=f"to-{host.id[:12]}").start()

    def send(self, frame: bytes) -> None:
        """Send a message; an older one that has not been sent yet is dropped."""
        with self._changed:
            self._next = frame
            self._changed.notify()

    def end(self) -> None:
        """Send nothing more: the node is gone."""
        with self._changed:
            self._ended = True
            self._changed.notify()

    def _exchange_all(self) -> None:
        while (frame := self._next_frame()) is not None:
            try:
                answer = self._exchange(frame)
            except Exception as error:  # whatever Ray raises: there was no answer
                self.error = _last_line(error)
                self._actor = None
                time.sleep(PAUSE_S)
            else:
                if answer is not None:
                    self.error = ""
                    self._reply(Reply(self.host.id, answer))

    def _next_frame(self) -> bytes | None:
        """Wait for a message; None if there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._next is not None)
            frame, self._next = self._next, None
            return None if self._ended else frame

    def _exchange(self, frame: bytes) -> bytes | None:
        """Return the agent's answer to a message; None if the node is gone meanwhile."""
        if self._actor is None:
            self._actor = self._actor_of_node()
        for _ in range(2):
            # None means that the node does not have our code yet, as at first or after an upgrade.
            reference = self._actor.tell.remote(self._package.digest, self._lease_s, frame)
            answer: bytes | None = self._result(reference, len(frame))
            if answer is not None or self._ended:
                return answer
            archive = self._package.archive
            self._result(self._actor.learn.remote(self._package.digest, archive), len(archive))
        return None

    def _result(self, ref: Any, size: int) -> Any:
        """Wait for a result; an actor that does not answer in time is killed, and Ray starts it again."""
        import ray

        give_up = time.monotonic() + STUCK_S + size / BYTES_PER_S
        while not self._ended:
            if ray.wait([ref], timeout=LOOK_S)[0]:
                return ray.get(ref)
            if time.monotonic() > give_up:
                ray.kill(self._actor, no_restart=False)
                raise TimeoutError
        return None

    def _actor_of_node(self) -> Any:
        """Return the actor of this node, made now if there is none."""
        import ray
        from ray import cloudpickle
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        cloudpickle.register_pickle_by_value(actor)
        made = ray.remote(actor.NodeAgent).options(
            name=f"{self._owner}/{self.host.id}/{FORM}", namespace=SPACE, lifetime="detached",
            get_if_exists=True, num_cpus=0, max_restarts=-1, max_task_retries=0,
            scheduling_strategy=NodeAffinitySchedulingStrategy(self.host.id, soft=False),
        )  # fmt: skip
        return made.remote(self._owner, self.host.id, self.host.address, self._idle_s)


def _last_line(error: Exception) -> str:
    """Return an error's last line, which says most: for errors on a node, Ray puts the traceback first."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1].strip()


class Bridge:
    """The client of Ray: lists nodes, and runs a messenger for each."""

    def __init__(self, owner: str, lease_s: float, idle_s: float, out: IO[bytes]) -> None:
        self._owner, self._lease_s, self._idle_s = owner, lease_s, idle_s
        self._out, self._writing = out, threading.Lock()
        self._messengers: dict[str, NodeMessenger] = {}
        self._early: dict[str, bytes] = {}  # messages to nodes that have not been listed yet
        self._changing = threading.Lock()
        self._listed_at: float | None = None
        self._package = Package(code_digest("slacktide"), code_archive("slacktide"))

    def read_messages(self, source: IO[bytes]) -> None:
        """Read messages until there are no more; then end the process, whatever Ray is doing."""
        try:
            while True:
                sending: Sending = read_frame(source)
                with self._changing:
                    messenger = self._messengers.get(sending.host)
                    if messenger is None:
                        self._early[sending.host] = sending.frame
                    else:
                        messenger.send(sending.frame)
        finally:
            os._exit(0)

    def beat(self) -> None:
        """Send a sign of life several times a second."""
        while True:
            listed_at = self._listed_at
            ago_s = 0.0 if listed_at is None else time.monotonic() - listed_at
            self.write(Beat(listed_at is not None, ago_s, trouble=self._trouble()))
            time.sleep(BEAT_S)

    def _trouble(self) -> str:
        """Return why agents do not answer, if none on any node does."""
        with self._changing:
            errors = [messenger.error for messenger in self._messengers.values()]
        return f"agents must run on the nodes, got: {errors[0]}" if errors and all(errors) else ""

    def list_nodes(self) -> None:
        """List the nodes now and then; only this thread blocks when the head is gone."""
        import ray

        before: tuple[Host, ...] | None = None
        while True:
            found = (host_of(node) for node in ray.nodes())
            hosts = tuple(host for host in found if host.gpus or not host.alive)
            self._meet({host.id: host for host in hosts if host.alive})
            self._listed_at = time.monotonic()
            if hosts != before:
                self.write(Beat(True, 0.0, hosts))
                before = hosts
            time.sleep(LIST_S)

    def _meet(self, alive: Mapping[str, Host]) -> None:
        """Start a messenger for each new node, and end those of nodes that are gone."""
        with self._changing:
            for gone in set(self._messengers) - set(alive):
                self._messengers.pop(gone).end()
            for name in set(alive) - set(self._messengers):
                messenger = NodeMessenger(
                    alive[name], self._owner, self._lease_s, self._idle_s, self._package, self.write
                )
                self._messengers[name] = messenger
                if name in self._early:
                    messenger.send(self._early.pop(name))

    def write(self, frame: Beat | Reply) -> None:
        """Send the link a frame; if the link is gone, end the process."""
        try:
            with self._writing:
                write_frame(self._out, frame)
        except OSError:
            os._exit(0)


def connect(address: str) -> str:
    """Become a client of the cluster; return why that failed, empty if it did not."""
    try:
        import ray
    except ImportError:
        return "Ray must be installed, found none; run pip install 'slacktide[ray]'"
    if not is_open(address):
        return (
            f"there must be a Ray cluster at {address}, found none; start one with `slacktide cluster up`, "
            "or give the address of your own"
        )
    try:
        ray.init(
            address=address, namespace=SPACE, log_to_driver=False, configure_logging=False,
            logging_level="ERROR",
        )  # fmt: skip
    except Exception as error:  # Ray raises many kinds
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        return f"the Ray cluster at {address} must let us in, got: {first}"
    return ""


def is_open(address: str) -> bool:
    """Whether an address accepts connections; Ray itself would try for more than a minute."""
    host, _, port = address.removeprefix(CLIENT).rpartition(":")
    if not port.isdecimal():
        return True
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
    except OSError:
        return False
    return True


def main(address: str, owner: str, lease_s: str, idle_s: str) -> None:
    """Pass messages until there are no more."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever Ray prints
    bridge = Bridge(owner, float(lease_s), float(idle_s), out)
    threading.Thread(target=bridge.read_messages, args=(sys.stdin.buffer,), daemon=True).start()
    threading.Thread(target=bridge.beat, daemon=True).start()
    trouble = connect(address)
    if trouble:
        bridge.write(Beat(False, trouble=trouble))
        os._exit(1)
    bridge.list_nodes()


if __name__ == "__main__":
    arguments: Any = sys.argv[1:5]
    main(*arguments)
