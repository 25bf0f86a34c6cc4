"""Nodes of an existing Ray or KubeRay cluster as machines: they are taken and freed, never started or ended.

Who has which node is noted in the cluster's own key-value store, under the node's id, by a write that fails
if there is a note already. So several journals can share one cluster.

Ray is used by a child process only: when a cluster's head dies, Ray may end the process that talks to it. The
child speaks to the head alone and is no node or job of the cluster, so it may run anywhere the head can be
reached.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from slacktide.journal.state.tickets import MachineKind
from slacktide.providers.base import ListsAllOwners, Machine, NoCapacity, Refused, Renter, providers
from slacktide.providers.library_process import LibraryProcess, serve

MODULE = "slacktide.providers.ray_cluster"  # which is what the child runs, too
ANSWER_S = 15.0  # how long a request may take, the start of the child included


@providers.register
@dataclass(slots=True)
class RayCluster(ListsAllOwners):
    """Takes nodes of an existing Ray or KubeRay cluster, by label, and frees them again."""

    renter: Renter = field(default_factory=Renter)
    address: str = ""  # HOST:PORT of the head; empty: what machines are to join, or $RAY_ADDRESS
    answer_s: float = ANSWER_S  # how long a request may take before the cluster is said to be unreachable
    _child: LibraryProcess = field(init=False, repr=False)

    def __post_init__(self) -> None:
        token = self.renter.token if self._address == self.renter.head else ""
        known = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": token} if token else {}
        self._child = LibraryProcess(MODULE, **known)

    @property
    def _address(self) -> str:
        return self.address or self.renter.head or os.environ.get("RAY_ADDRESS", "")

    def rent(self, ticket: str, spec: MachineKind) -> None:
        """Take a free node with these labels and this many GPUs, unless this ticket has one."""
        self._call("rent", ticket=ticket, spec=list(spec))

    def end(self, ids: Sequence[str]) -> None:
        """Free nodes of this owner."""
        self._call("end", ids=list(ids))

    def _machines(self) -> list[tuple[str, Machine]]:
        return [(row["owner"], machine_of(row)) for row in self._call("list")]

    def _call(self, verb: str, **about: Any) -> Any:
        address = self._address
        if not address:
            raise Refused(
                "ray-cluster must have an address, got none; give address: HOST:PORT, set RAY_ADDRESS, or "
                "start a cluster on this machine with `slacktide cluster up`"
            )
        request = {"verb": verb, "address": address, "owner": self.renter.owner, **about}
        return self._child.call(request, self.answer_s, f"the Ray cluster at {address}")


def machine_of(one: Mapping[str, Any]) -> Machine:
    """Return a taken node, as the child lists it, as a machine."""
    until = one["until_utc"]
    return Machine(
        one["node"],
        one["ticket"],
        MachineKind("spot" if one["kind"] == "spot" else "on-demand", one["pool"], one["gpus"]),
        "up" if one["alive"] else "gone",
        one["address"],
        why="" if one["alive"] else "the node has left the cluster",
        since_utc=datetime.fromisoformat(one["since_utc"]),
        until_utc=None if until is None else datetime.fromisoformat(until),
    )


# ---------------------------------------------------------------- the child process

SPACE = b"slacktide-machines"  # the part of the store that is ours
CALL_S = 5.0
FORGET_S = 3600.0  # how long a node that died stays listed as gone
MARKET, POOL = "market", "pool"  # labels of nodes; a node without one fits any request


class ClusterNode(NamedTuple):
    """A node as the head describes it."""

    id: str
    address: str
    labels: dict[str, str]
    gpus: float
    alive: bool
    ended_ms: int


class NodeClaim(NamedTuple):
    """A note that says which owner and ticket have a node."""

    node: str
    owner: str
    ticket: str
    kind: str
    pool: str
    gpus: int
    since_utc: str


class Head:
    """The head of a cluster: its list of nodes, and its key-value store."""

    def __init__(self, address: str) -> None:
        """Connect; raises Refused where Ray is missing."""
        try:
            raylet: Any = importlib.import_module("ray._raylet")
        except ImportError as error:
            remedy = "pip install 'slacktide[ray]'"
            raise Refused(f"Ray must be installed, got: {error}; {remedy}") from error
        self._client = raylet.GcsClient(address=address)

    def nodes(self) -> dict[str, ClusterNode]:
        """Return all nodes that the head knows of, those that died included."""
        found = self._client.get_all_node_info(timeout=CALL_S)
        return {key.hex(): _node(key.hex(), info) for key, info in found.items()}

    def taken(self) -> list[NodeClaim]:
        """Return the notes about all nodes that are taken."""
        keys = self._client.internal_kv_keys(b"", SPACE, timeout=CALL_S)
        notes = self._client.internal_kv_multi_get(keys, SPACE, timeout=CALL_S) if keys else {}
        return sorted(NodeClaim(**json.loads(note)) for note in notes.values())

    def take(self, one: NodeClaim) -> bool:
        """Note who has a node; False if it is taken already."""
        note = json.dumps(one._asdict()).encode()
        return bool(self._client.internal_kv_put(one.node.encode(), note, False, SPACE, timeout=CALL_S))

    def free(self, node: str) -> None:
        """Remove the note of a node."""
        self._client.internal_kv_del(node.encode(), False, SPACE, timeout=CALL_S)


def _node(name: str, one: Any) -> ClusterNode:
    gpus = dict(one.resources_total).get("GPU", 0.0)
    return ClusterNode(
        name, one.node_manager_address, dict(one.labels), gpus, one.state == 0, one.end_time_ms
    )


def rent(head: Any, request: dict[str, Any]) -> None:
    """Take a free node, unless this ticket has one; labelled ones first, because others fit any request."""
    owner, ticket = request["owner"], request["ticket"]
    kind, pool, gpus = request["spec"]
    nodes, taken = head.nodes(), head.taken()
    _forget(head, owner, nodes, taken)
    if any((claim.owner, claim.ticket) == (owner, ticket) for claim in taken):
        return
    busy = {claim.node for claim in taken}
    free = [
        node
        for node in nodes.values()
        if node.alive and node.id not in busy and _fits(node, kind, pool, gpus)
    ]
    for node in sorted(free, key=lambda node: (-len({MARKET, POOL} & set(node.labels)), node.id)):
        if head.take(NodeClaim(node.id, owner, ticket, kind, pool, gpus, datetime.now(UTC).isoformat())):
            _keep_one(head, owner, ticket)
            return
    raise NoCapacity(f"no node of the cluster with {gpus} GPUs is free in {pool} ({kind})")


def _fits(node: ClusterNode, kind: str, pool: str, gpus: int) -> bool:
    market = node.labels.get(MARKET, kind).replace("ondemand", "on-demand")
    # A slash cannot be in a label; our join command writes a dot.
    pools = (pool, pool.replace("/", "."))
    return node.gpus == gpus and market == kind and node.labels.get(POOL, pool) in pools


def _keep_one(head: Any, owner: str, ticket: str) -> None:
    """Leave one node for a ticket: a process that was believed lost may have taken one for it meanwhile."""
    mine = [claim.node for claim in head.taken() if (claim.owner, claim.ticket) == (owner, ticket)]
    for node in sorted(mine)[1:]:
        head.free(node)


def _forget(head: Any, owner: str, nodes: dict[str, ClusterNode], taken: list[NodeClaim]) -> None:
    """Remove this owner's notes of nodes that died long ago."""
    long_ago_ms = (time.time() - FORGET_S) * 1000
    for claim in taken:
        node = nodes.get(claim.node)
        if claim.owner == owner and (node is None or (not node.alive and node.ended_ms < long_ago_ms)):
            head.free(claim.node)


def end(head: Any, request: dict[str, Any]) -> None:
    """Free nodes of an owner."""
    for claim in head.taken():
        if claim.owner == request["owner"] and claim.node in request["ids"]:
            head.free(claim.node)


def listed(head: Any, _: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every note with the present state of its node."""
    nodes, found = head.nodes(), []
    for claim in head.taken():
        node = nodes.get(claim.node)
        alive = node is not None and node.alive
        ended_ms = 0 if node is None or alive else node.ended_ms
        until = datetime.fromtimestamp(ended_ms / 1000, UTC).isoformat() if ended_ms else None
        address = "" if node is None else node.address
        found.append({**claim._asdict(), "alive": alive, "address": address, "until_utc": until})
    return found


VERBS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {"rent": rent, "end": end, "list": listed}


def answer(request: dict[str, Any], heads: dict[str, Any]) -> Any:
    """Answer one request; heads are kept by their address, until one fails."""
    address = request["address"]
    try:
        if address not in heads:
            heads[address] = Head(address)
        return VERBS[request["verb"]](heads[address], request)
    except (NoCapacity, Refused):
        raise
    except Exception:  # Ray's own: connections, time limits, authentication
        heads.pop(address, None)
        raise


if __name__ == "__main__":
    kept: dict[str, Any] = {}
    serve(lambda request: answer(request, kept))
