"""The back end of a Ray cluster."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from slacktide.backends import process_table
from slacktide.backends.base import LaunchSpec, backends
from slacktide.backends.machines.backend import MachineBackend, NodeAccess
from slacktide.backends.ray.cluster_note import default_path, find_cluster, of_node, read_note
from slacktide.backends.ray.link import RayLink
from slacktide.core.errors import InputError
from slacktide.core.units import parse_duration_hours

LEASE_S = 30.0
"""How long workers go on without a message of their controller: longer than it takes to start another.
A lost node is waited for as long, unless its provider says that it has ended."""
LEASE = "SLACKTIDE_LEASE"  # the variable that says another length
SHORTEST_S = 2.0
SCAN_S = 0.5  # how often the processes of this machine are looked through for those of a node that is lost


class ClusterAddress(NamedTuple):
    """Where a cluster is, and how it is entered."""

    address: str
    token: Path | None = None
    local: bool = False  # whether all its nodes are on this machine


@backends.register
@dataclass(slots=True)
class Ray(MachineBackend):
    """Nodes of a Ray cluster: that of RAY_ADDRESS, else the one that `slacktide cluster up` started."""

    cluster: ClusterAddress = field(init=False)
    _ended: set[str] = field(init=False, default_factory=set)
    _scanned_at: float = field(init=False, default=-math.inf)

    def node_access(self) -> NodeAccess:
        """Find the cluster; it is connected to when it is first needed."""
        self.cluster = cluster_of(os.environ)
        address, token, _ = self.cluster
        length_s = lease_s(os.environ)
        link = RayLink(address, self.place.owner, length_s, token=token)
        return NodeAccess(link, length_s, address, "" if token is None else str(token))

    def ended_hosts(self) -> Iterable[str]:
        """Return the lost nodes of a cluster on this machine of which no process lives: that can be seen."""
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
        """Get to know a job; raises InputError when there is no cluster, or it cannot be run."""
        if not self.cluster.address:
            raise InputError(
                "there must be a Ray cluster for back end ray, found none; start one on this machine with "
                "`slacktide cluster up`, or set RAY_ADDRESS to the address of yours"
            )
        MachineBackend.enter(self, launch)


def cluster_of(environ: Mapping[str, str]) -> ClusterAddress:
    """Return the cluster that is meant; its address is empty where there is none."""
    if environ.get("RAY_ADDRESS"):
        return ClusterAddress(environ["RAY_ADDRESS"])
    found = find_cluster()
    return ClusterAddress("") if found is None else ClusterAddress(*found, local=True)


def lease_s(environ: Mapping[str, str]) -> float:
    """Return the length of leases: LEASE_S, or what the user wants; raises InputError."""
    text = environ.get(LEASE)
    if not text:
        return LEASE_S
    seconds = parse_duration_hours(text) * 3600.0
    if seconds < SHORTEST_S:
        raise InputError(f"{LEASE} must be at least {SHORTEST_S:g}s, got {text}")
    return seconds
