"""The process that is a client of Ray: it lists the nodes, and carries messages between a link and agents.

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
from collections.abc import Mapping
from typing import IO, Any

from slacktide.backends.machines.agent.messages import read_frame, write_frame
from slacktide.backends.machines.link.base import Host
from slacktide.backends.ray.carrier import SPACE, AgentCarrier
from slacktide.backends.ray.frames import Beat, Reply, Sending
from slacktide.backends.ray.nodes import host_of
from slacktide.backends.ray.package import packed

BEAT_S = 0.2
LIST_S = 0.3
KNOCK_S = 5.0
"""How long a head may take to accept a connection."""
CLIENT = "ray://"


class Bridge:
    """All that the process has to do."""

    def __init__(self, address: str, owner: str, lease_s: float, idle_s: float, out: IO[bytes]) -> None:
        self._address, self._owner, self._lease_s, self._idle_s = address, owner, lease_s, idle_s
        self._out, self._writing = out, threading.Lock()
        self._carriers: dict[str, AgentCarrier] = {}
        self._early: dict[str, bytes] = {}
        """What is to be said to nodes that have not been listed yet."""
        self._changing = threading.Lock()
        self._listed_at: float | None = None
        self._package = packed()

    def read_messages(self, source: IO[bytes]) -> None:
        """Take messages over until there are no more; then end the process, whatever Ray is doing."""
        try:
            while True:
                sending: Sending = read_frame(source)
                with self._changing:
                    carrier = self._carriers.get(sending.host)
                    if carrier is None:
                        self._early[sending.host] = sending.frame
                    else:
                        carrier.send(sending.frame)
        finally:
            os._exit(0)

    def beat(self) -> None:
        """Say several times a second that we live."""
        while True:
            listed_at = self._listed_at
            ago_s = 0.0 if listed_at is None else time.monotonic() - listed_at
            self.write(Beat(listed_at is not None, ago_s, trouble=self._trouble()))
            time.sleep(BEAT_S)

    def _trouble(self) -> str:
        """Return why no agent answers, if that is so of all nodes."""
        with self._changing:
            errors = [carrier.error for carrier in self._carriers.values()]
        return f"agents must run on the nodes, got: {errors[0]}" if errors and all(errors) else ""

    def list_nodes(self) -> None:
        """List the nodes now and then; this is what blocks when the head is gone."""
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
        """Have a carrier for each node that is up."""
        with self._changing:
            for gone in set(self._carriers) - set(alive):
                self._carriers.pop(gone).end()
            for name in set(alive) - set(self._carriers):
                carrier = AgentCarrier(
                    alive[name], self._owner, self._lease_s, self._idle_s, self._package, self.write
                )
                self._carriers[name] = carrier
                if name in self._early:
                    carrier.send(self._early.pop(name))

    def write(self, frame: Beat | Reply) -> None:
        """Send the link a frame; when the link is gone, the process ends."""
        try:
            with self._writing:
                write_frame(self._out, frame)
        except OSError:
            os._exit(0)


def connect(address: str) -> str:
    """Become a client of the cluster; return why that was not possible, if so."""
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
    """Carry messages until there are no more."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever Ray prints
    bridge = Bridge(address, owner, float(lease_s), float(idle_s), out)
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
