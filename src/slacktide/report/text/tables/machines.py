"""Rented machines as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid
from slacktide.report.wire import values
from slacktide.results.machines.machines import MachineStatus

NONE = "no machines are rented"
COLUMNS = (
    Column("machine", right=False), Column("ticket", right=False), Column("kind", right=False),
    Column("pool", right=False), Column("GPUs"), Column("state", right=False), Column("for"),
    Column("USD/h"), Column("cost so far"),
)  # fmt: skip
OWNER = Column("owner", right=False)
CHOICES = (
    Column("kind", right=False), Column("pool", right=False), Column("GPUs"), Column("USD/h"),
    Column("could be rented"),
)  # fmt: skip


def text(listed: Sequence[MachineStatus], *, owners: bool = False) -> str:
    """Return the machines as aligned plain text, a line each; `owners` names whose they are."""
    return grid.as_text(table_of(listed, owners=owners)) if listed else NONE


def table_of(listed: Sequence[MachineStatus], *, owners: bool = False) -> Grid:
    """Return the machines as a table, a row each."""
    columns = (OWNER, *COLUMNS) if owners else COLUMNS
    return Grid(columns, tuple((words.plain(one.owner, 20),) * owners + _row(one) for one in listed))


def as_json(one: MachineStatus) -> dict[str, Any]:
    """Return a machine under its documented keys."""
    fields: dict[str, Any] = values.plain(one)
    return fields


def choices(rows: Sequence[tuple[str, str, int, float, float]]) -> str:
    """Return what could be rented: kind, pool, GPUs, price, and how many more the limits allow."""
    return grid.as_text(
        Grid(
            CHOICES,
            tuple(
                (kind, words.plain(pool, 60), str(gpus), f"{price:.2f}", _most(most))
                for kind, pool, gpus, price, most in rows
            ),
        )
    )


def _most(most: float) -> str:
    return "any number" if math.isinf(most) else f"{most:g} more"


def _row(one: MachineStatus) -> tuple[str, ...]:
    return (
        words.plain(one.machine or "-", 40),
        words.plain(one.ticket or "-", 40),
        one.capacity,
        words.plain(one.pool, 60),
        str(one.gpus),
        _state(one),
        words.rounded(one.hours) if one.since_utc else "-",
        f"{one.usd_per_hour:.2f}",
        format_usd(one.cost_usd),
    )


def _state(one: MachineStatus) -> str:
    state = "ready" if one.joined else one.state
    ended = f" ({words.plain(one.why, 40)})" if one.why else ""
    return f"{state}{ended}, no open ticket" if one.orphan else f"{state}{ended}"
