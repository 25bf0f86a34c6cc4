"""Machines by the journal and by their provider's account, as a table and as JSON."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.bills.job import cents
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid
from slacktide.report.wire import values

if TYPE_CHECKING:
    from slacktide.results.machines.machine_account import AccountRow, MachineAccount

NONE = "no machines were ever rented"
COLUMNS = (
    Column("machine", right=False), Column("ticket", right=False), Column("kind", right=False),
    Column("pool", right=False), Column("GPUs"), Column("rented (UTC)"), Column("boot"), Column("hours"),
    Column("USD"), Column("provider's hours"), Column("difference"), Column("end", right=False),
)  # fmt: skip
UNKNOWN = "unknown"


def text(account: MachineAccount) -> str:
    """Return a line for each machine, the sums, and one sentence about how far both accounts are apart."""
    if not account.rows:
        return NONE
    table = grid.as_text(Grid(COLUMNS, tuple(_row(one) for one in account.rows)))
    return f"{table}\n\n{verdict(account)}"


def verdict(account: MachineAccount) -> str:
    """Say what the machines cost, how the provider's hours differ, and how many it does not list."""
    known, unknown = len(account.known), account.unknown
    said = (
        f"{words.count(len(account.rows), 'machine')}: {account.hours:,.2f} hours and "
        f"{format_usd(account.cost_usd)} by the journal"
    )
    if known:
        of_those = f"for {known:,} of them " if unknown else ""
        said += (
            f"; {of_those}the provider counts {account.their_hours:,.2f} hours and "
            f"{format_usd(account.their_usd)}, the journal {account.our_hours:,.2f} and "
            f"{format_usd(account.our_usd)}: {_apart(account.difference_share)}"
        )
    return f"{said}; {_not_compared(unknown)}" if unknown else said


def _not_compared(unknown: int) -> str:
    verb, them = ("is", "it") if unknown == 1 else ("are", "them")
    return f"{unknown:,} {verb} not compared: the provider no longer lists {them}, or gives no times"


def as_json(account: MachineAccount) -> dict[str, Any]:
    """Return both accounts under their documented keys."""
    return {
        "until_utc": None if account.until_utc is None else values.utc(account.until_utc),
        "machines": [_fields(one) for one in account.rows],
        "hours": account.hours,
        "cost_usd": account.cost_usd,
        "compared": len(account.known),
        "unknown": account.unknown,
        **{name: getattr(account, name) for name in ("our_hours", "their_hours", "our_usd", "their_usd")},
        "difference_share": account.difference_share,
    }


def _fields(one: AccountRow) -> dict[str, Any]:
    fields = {field.name: getattr(one, field.name) for field in dataclasses.fields(one)}
    for name in ("rented_utc", "returned_utc"):
        fields[name] = None if fields[name] is None else values.utc(fields[name])
    return {
        **fields,
        "cause": one.cause or None,
        "why": one.why or None,
        "in_journal": one.in_journal,
        "our_usd": one.our_usd,
        "their_usd": one.their_usd,
        "difference_share": one.difference_share,
    }


def _row(one: AccountRow) -> tuple[str, ...]:
    return (
        words.plain(one.machine or "-", 40),
        words.plain(one.ticket or "-", 40),
        one.capacity,
        words.plain(one.pool, 60),
        str(one.gpus),
        words.NOTHING if one.rented_utc is None else words.short_time(one.rented_utc),
        words.NOTHING if one.boot_hours is None else words.rounded(one.boot_hours),
        f"{one.our_hours:,.2f}",
        cents(one.our_usd),
        UNKNOWN if one.their_hours is None else f"{one.their_hours:,.2f}",
        UNKNOWN if one.difference_share is None else _signed(one.difference_share),
        _end(one),
    )


def _end(one: AccountRow) -> str:
    if not one.in_journal:
        return "not in the journal"
    return "still rented" if one.returned_utc is None else words.plain(one.why or one.cause, 40)


def _signed(share: float) -> str:
    """Write a difference to a tenth of a percent, as `+0.3 %`."""
    percent = f"{abs(share) * 100:.1f} %"
    return percent if percent == "0.0 %" else f"{'−' if share < 0 else '+'}{percent}"


def _apart(share: float | None) -> str:
    return "that cannot be compared" if share is None else f"a difference of {_signed(share)}"
