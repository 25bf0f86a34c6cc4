"""Rented machines, what could be rented, and the nodes of a local cluster, as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid, left, right
from slacktide.report.wire.values import document

if TYPE_CHECKING:
    from slacktide.results.machine_bill import AccountRow
    from slacktide.results.status import ClusterStatus, MachineStatus

NONE = "no machines are rented"
MACHINE = (*left("machine", "ticket", "kind", "pool"), *right("GPUs"))
COLUMNS = (*MACHINE, Column("state", right=False), Column("for"), Column("USD/h"), Column("cost so far"))
OWNER = Column("owner", right=False)
CHOICES = (*left("kind", "pool"), *right("GPUs", "USD/h", "could be rented"))
NODES = (*left("node", "kind"), *right("GPUs"), *left("state"), *right("workers"), *left("id"))
SHORT_ID = 12


def text(listed: Sequence[MachineStatus], *, owners: bool = False) -> str:
    """Return the machines as aligned plain text, a line each; `owners` names whose they are."""
    columns = (OWNER, *COLUMNS) if owners else COLUMNS
    rows = ((words.plain(one.owner, 20),) * owners + _row(one) for one in listed)
    return grid.as_text(Grid(columns, tuple(rows))) if listed else NONE


def choices(rows: Sequence[tuple[str, str, int, float, float]]) -> str:
    """Return what could be rented: kind, pool, GPUs, price, and how many more the limits allow."""
    cells = []
    for kind, pool, gpus, price, most in rows:
        more = "any number" if math.isinf(most) else f"{most:g} more"
        cells.append((kind, words.plain(pool, 60), str(gpus), f"{price:.2f}", more))
    return grid.as_text(Grid(CHOICES, tuple(cells)))


def machine_cells(one: MachineStatus | AccountRow) -> tuple[str, ...]:
    """Return the cells below MACHINE: which machine it is, and of what kind."""
    names = words.plain(one.machine or "-", 40), words.plain(one.ticket or "-", 40)
    return (*names, one.capacity, words.plain(one.pool, 60), str(one.gpus))


def _row(one: MachineStatus) -> tuple[str, ...]:
    hours = words.rounded(one.hours) if one.since_utc else "-"
    return (*machine_cells(one), _state(one), hours, f"{one.usd_per_hour:.2f}", format_usd(one.cost_usd))


def _state(one: MachineStatus) -> str:
    state = "ready" if one.joined else one.state
    ended = f" ({words.plain(one.why, 40)})" if one.why else ""
    return f"{state}{ended}, no open ticket" if one.orphan else f"{state}{ended}"


def cluster_text(status: ClusterStatus) -> str:
    """Return the address of a cluster and its nodes, a line each."""
    first = "the cluster has lost the process that started it; clear it with `slacktide cluster down`"
    if status.up:
        first = f"cluster at {status.address}, on loopback only"
    rows = (
        (
            node.name,
            node.capacity,
            str(node.gpus),
            "alive" if node.alive else "dead",
            str(node.workers),
            node.id[:SHORT_ID],
        )
        for node in status.nodes
    )
    return f"{first}\n\n{grid.as_text(Grid(NODES, tuple(rows)))}"


def cluster_json(status: ClusterStatus | None) -> dict[str, Any]:
    """Return a cluster under its documented keys."""
    if status is None:
        return {"up": False, "address": None, "token_path": None, "nodes": []}
    return document(status)
