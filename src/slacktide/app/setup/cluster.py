"""Starts, shows and ends a local Ray cluster for tests, and kills a node of it."""

from __future__ import annotations

from slacktide.backends.ray.cluster_note import ClusterNote
from slacktide.core.errors import InputError
from slacktide.results.status import ClusterStatus, NodeStatus
from slacktide.testing import local_cluster


def start_cluster(spot: int, on_demand: int, gpus: int) -> tuple[ClusterStatus, bool]:
    """Start a cluster of these nodes, unless there is one; return its state and whether it was started now.

    `gpus` is how many GPUs each node claims to have; they are not real. Raises InputError if Ray is missing,
    and BackendError if it does not start.
    """
    note, started = local_cluster.start(spot, on_demand, gpus)
    return _status(note), started


def cluster_status() -> ClusterStatus | None:
    """Return the state of the cluster; None if there is none."""
    note = local_cluster.find()
    return None if note is None else _status(note)


def kill_node(name: str) -> NodeStatus:
    """Kill a node and everything that runs on it, and return its state before that; raises InputError."""
    note = local_cluster.find()
    if note is None:
        raise InputError("there must be a local cluster, found none; start one with `slacktide cluster up`")
    before = _status(note)
    killed = local_cluster.kill_node(note, name)
    return next(node for node in before.nodes if node.id == killed.id)


def end_cluster() -> bool:
    """End the cluster and everything that runs on it; return False if there was none."""
    return local_cluster.end()


def _status(note: ClusterNote) -> ClusterStatus:
    nodes = tuple(
        NodeStatus(
            name=state.node.name, id=state.node.id, capacity=state.node.kind, gpus=state.node.gpus,
            alive=state.alive, workers=state.workers,
        )
        for state in local_cluster.look(note)
    )  # fmt: skip
    return ClusterStatus(up=note.is_up, address=note.address, token_path=str(note.token), nodes=nodes)
