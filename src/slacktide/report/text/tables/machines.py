"""Rented machines, what could be rented, and the nodes of a local cluster, as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid
from slacktide.report.wire.values import document

if TYPE_CHECKING:
    from slacktide.results.machine_bill import AccountRow
    from slacktide.results.status import ClusterStatus, MachineStatus

NONE = "no machines are rented"
MACHINE = (
    Column("machine", right=False), Column("ticket", right=False), Column("kind", right=False),
    Column("pool", right=False), Column("GPUs"),
)  # fmt: skip
COLUMNS = (*MACHINE, Column("state", right=False), Column("for"), Column("USD/h"), Column("cost so far"))
OWNER = Column("owner", right=False)
CHOICES = (
    Column("kind", right=False), Column("pool", right=False), Column("GPUs"), Column("USD/h"),
    Column("could be rented"),
)  # fmt: skip
NODES = (
    Column("node", right=False), Column("kind", right=False), Column("GPUs"), Column("state", right=False),
    Column("workers"), Column("id", right=False),
)  # fmt: skip
SHORT_ID = 12


def text(listed: Sequence[MachineStatus], *, owners: bool = False) -> str:
    """Return the machines as aligned plain text, a line each; `owners` names whose they are."""
    columns = (OWNER, *COLUMNS) if owners else COLUMNS
    rows = ((words.plain(one.owner, 20),) * owners + _row(one) for one in listed)
    return grid.as_text(Grid(columns, tuple(rows))) if listed else NONE


def choices(rows: Sequence[tuple[str, str, int, float, float]]) -> str:
    """Return what could be rented: kind, pool, GPUs, price, and how many more the limits allow."""
    cells = (
        (kind, words.plain(pool, 60), str(gpus), f"{price:.2f}", _most(most))
        for kind, pool, gpus, price, most in rows
    )
    return grid.as_text(Grid(CHOICES, tuple(cells)))


def machine_cells(one: MachineStatus | AccountRow) -> tuple[str, ...]:
    """Return the cells below MACHINE: which machine it is, and of what kind."""
    names = words.plain(one.machine or "-", 40), words.plain(one.ticket or "-", 40)
    return (*names, one.capacity, words.plain(one.pool, 60), str(one.gpus))


def _most(most: float) -> str:
    return "any number" if math.isinf(most) else f"{most:g} more"


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
