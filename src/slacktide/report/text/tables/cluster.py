"""A local cluster as text and as JSON."""

from __future__ import annotations

from typing import Any

from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid
from slacktide.report.wire import values
from slacktide.results.machines.cluster import ClusterStatus, NodeStatus

COLUMNS = (
    Column("node", right=False), Column("kind", right=False), Column("GPUs"), Column("state", right=False),
    Column("workers"), Column("id", right=False),
)  # fmt: skip
SHORT_ID = 12


def text(status: ClusterStatus) -> str:
    """Return the address and the nodes, a line each."""
    if not status.up:
        first = "the cluster has lost the process that started it; clear it with `slacktide cluster down`"
    else:
        first = f"cluster at {status.address}, on loopback only"
    return "\n".join([first, "", grid.as_text(Grid(COLUMNS, tuple(_row(node) for node in status.nodes)))])


def as_json(status: ClusterStatus | None) -> dict[str, Any]:
    """Return a cluster under its documented keys."""
    if status is None:
        return {"up": False, "address": None, "token_path": None, "nodes": []}
    fields: dict[str, Any] = values.plain(status)
    return fields


def _row(node: NodeStatus) -> tuple[str, ...]:
    state = "alive" if node.alive else "dead"
    return node.name, node.capacity, str(node.gpus), state, str(node.workers), node.id[:SHORT_ID]
