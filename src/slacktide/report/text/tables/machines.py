"""Rented machines, what could be rented, and the nodes of a local cluster, as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import TableOf
from slacktide.report.wire.values import document

if TYPE_CHECKING:
    from slacktide.results.machine_bill import AccountRow
    from slacktide.results.status import ClusterStatus, MachineStatus

NONE = "no machines are rented"
SHORT_ID = 12


def text(listed: Sequence[MachineStatus], *, owners: bool = False) -> str:
    """Return the machines as aligned plain text, a line each; `owners` adds a column with their owners."""
    if not listed:
        return NONE
    table = TableOf(listed)
    if owners:
        table.words("owner", lambda machine: words.plain(machine.owner, 20))
    add_machine(table)
    table.words("state", _state)
    table.number("for", lambda machine: words.rounded(machine.hours) if machine.since_utc else "-")
    table.number("USD/h", lambda machine: f"{machine.usd_per_hour:.2f}")
    table.number("cost so far", lambda machine: format_usd(machine.cost_usd))
    return grid.as_text(table.grid())


def choices(listed: Sequence[tuple[str, str, int, float, float]]) -> str:
    """Return what could be rented: kind, pool, GPUs, price, and how many more the limits allow."""
    table = TableOf(listed)
    table.words("kind", lambda choice: choice[0])
    table.words("pool", lambda choice: words.plain(choice[1], 60))
    table.number("GPUs", lambda choice: str(choice[2]))
    table.number("USD/h", lambda choice: f"{choice[3]:.2f}")
    table.number("could be rented", lambda choice: _limit(choice[4]))
    return grid.as_text(table.grid())


def _limit(machines: float) -> str:
    return "any number" if math.isinf(machines) else f"{machines:g} more"


def add_machine(table: TableOf[MachineStatus] | TableOf[AccountRow]) -> None:
    """Add the columns that say which machine it is, and of what kind."""
    table.words("machine", lambda machine: words.plain(machine.machine or "-", 40))
    table.words("ticket", lambda machine: words.plain(machine.ticket or "-", 40))
    table.words("kind", lambda machine: machine.capacity)
    table.words("pool", lambda machine: words.plain(machine.pool, 60))
    table.number("GPUs", lambda machine: str(machine.gpus))


def _state(one: MachineStatus) -> str:
    state = "ready" if one.joined else one.state
    ended = f" ({words.plain(one.why, 40)})" if one.why else ""
    return f"{state}{ended}, no open ticket" if one.orphan else f"{state}{ended}"


def cluster_text(status: ClusterStatus) -> str:
    """Return the address of a cluster and its nodes, a line each."""
    first = "the cluster has lost the process that started it; clear it with `slacktide cluster down`"
    if status.up:
        first = f"cluster at {status.address}, on loopback only"
    table = TableOf(status.nodes)
    table.words("node", lambda node: node.name)
    table.words("kind", lambda node: node.capacity)
    table.number("GPUs", lambda node: str(node.gpus))
    table.words("state", lambda node: "alive" if node.alive else "dead")
    table.number("workers", lambda node: str(node.workers))
    table.words("id", lambda node: node.id[:SHORT_ID])
    return f"{first}\n\n{grid.as_text(table.grid())}"


def cluster_json(status: ClusterStatus | None) -> dict[str, Any]:
    """Return a cluster under its documented keys."""
    if status is None:
        return {"up": False, "address": None, "token_path": None, "nodes": []}
    return document(status)
