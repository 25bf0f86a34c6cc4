"""What rented machines cost, compared with what jobs used of them and with their provider's account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.bills.job import cents
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Grid, TableOf
from slacktide.report.text.tables.machines import add_machine
from slacktide.report.wire.values import document, picked, plain

if TYPE_CHECKING:
    from slacktide.results.machine_bill import AccountRow, MachineAccount, MachineCosts, MachineGroup

LONGEST_NAME = 60
UNKNOWN = "unknown"


def text(costs: MachineCosts, jobs_usd: float) -> str:
    """Return what machines cost and how long they took to start; `jobs_usd` is the bill of all payers."""
    return "\n\n".join([grid.as_text(_costs(costs)), grid.as_text(_times(costs)), _summary(costs, jobs_usd)])


def as_json(costs: MachineCosts) -> dict[str, Any]:
    """Return the bill under its documented keys."""
    bill = costs.bill
    times = [
        {
            "pool": one.pool,
            "next_boot_hours": bill.boot_hours(one.pool),
            "boot": one.boot,
            "first_progress": costs.use.first_progress(one.pool),
        }
        for one in bill.by_pool
    ]
    machines = [
        {**plain(one), "cause": one.cause or None, "why": one.why or None, "cost_usd": one.cost_usd}
        for one in bill.lines
    ]
    fields = {
        **picked(bill, "until_utc", "open"),
        "total": _amounts(costs, bill.total),
        "pools": [{**picked(one, "pool", "capacity"), **_amounts(costs, one)} for one in bill.pools],
        "times": times,
        "machines": machines,
    }
    return document(fields)


def _amounts(costs: MachineCosts, one: MachineGroup) -> dict[str, Any]:
    return {
        **picked(one, "machines", "hours", "gpu_hours"),
        "used_gpu_hours": costs.used_gpu_hours(one),
        "idle_gpu_hours": costs.idle_gpu_hours(one),
        "used_share": costs.used_share(one),
        **picked(one, "cost_usd", "never_joined", "interrupted", "no_capacity"),
    }


def _costs(costs: MachineCosts) -> Grid:
    table = TableOf((*costs.bill.pools, costs.bill.total))
    table.words("rented in", lambda group: words.plain(group.pool, LONGEST_NAME) or "total")
    table.words("kind", lambda group: group.capacity)
    table.number("machines", lambda group: f"{group.machines:,}")
    table.number("hours", lambda group: f"{group.hours:,.2f}")
    table.number("GPU-hours", lambda group: f"{group.gpu_hours:,.2f}")
    table.number("used", lambda group: _share(costs.used_share(group)))
    table.number("idle GPU-hours", lambda group: f"{costs.idle_gpu_hours(group):,.2f}")
    table.number("USD", lambda group: cents(group.cost_usd))
    return table.grid()


def _times(costs: MachineCosts) -> Grid:
    table = TableOf(costs.bill.by_pool)
    table.words("rented in", lambda group: words.plain(group.pool, LONGEST_NAME))
    table.number("joined", lambda group: f"{group.boot.count:,}")
    table.number("boot", lambda group: _hours(group.boot.median_hours))
    table.number("longest", lambda group: _hours(group.boot.worst_hours))
    table.number("first progress", lambda group: _hours(costs.use.first_progress(group.pool).median_hours))
    table.number("longest", lambda group: _hours(costs.use.first_progress(group.pool).worst_hours))
    table.number("never joined", lambda group: f"{group.never_joined:,}")
    table.number("interrupted", lambda group: f"{group.interrupted:,}")
    table.number("no capacity", lambda group: f"{group.no_capacity:,}")
    return table.grid()


def _hours(hours: float | None) -> str:
    return words.NOTHING if hours is None else words.rounded(hours)


def _share(share: float | None) -> str:
    return words.NOTHING if share is None else words.percent(share)


def _summary(costs: MachineCosts, jobs_usd: float) -> str:
    """Say how much of the rented GPU-hours jobs used, and what the machines and the jobs cost."""
    total, still = costs.bill.total, costs.bill.open
    used = f"{costs.used_gpu_hours(total):,.2f} of {total.gpu_hours:,.2f}"
    verb = "is" if still == 1 else "are"
    rented = f"; {words.count(still, 'machine')} {verb} still rented and counted until now" if still else ""
    return (
        f"machines cost {format_usd(total.cost_usd)}, from rent to return; jobs used "
        f"{_share(costs.used_share(total))} of their GPU-hours ({used}); the bill at the market's quotes is "
        f"{format_usd(jobs_usd)}{rented}"
    )


def account_text(account: MachineAccount) -> str:
    """Return a line for each machine, and one sentence with the sums and the difference of the accounts."""
    if not account.rows:
        return "no machines were ever rented"
    table = TableOf(account.rows)
    add_machine(table)
    table.number("rented (UTC)", _rented)
    table.number("boot", lambda row: _hours(row.boot_hours))
    table.number("hours", lambda row: f"{row.our_hours:,.2f}")
    table.number("USD", lambda row: cents(row.our_usd))
    table.number("provider's hours", _their_hours)
    table.number("difference", _difference)
    table.words("end", _end)
    return f"{grid.as_text(table.grid())}\n\n{_account_verdict(account)}"


def account_json(account: MachineAccount) -> dict[str, Any]:
    """Return both accounts under their documented keys."""
    further = "in_journal", "our_usd", "their_usd", "difference_share"
    rows = [
        {**plain(one), "cause": one.cause or None, "why": one.why or None, **picked(one, *further)}
        for one in account.rows
    ]
    fields = {
        "until_utc": account.until_utc,
        "machines": rows,
        **picked(account, "hours", "cost_usd"),
        "compared": len(account.known),
        **picked(account, "unknown", "our_hours", "their_hours", "our_usd", "their_usd", "difference_share"),
    }
    return document(fields)


def _account_verdict(account: MachineAccount) -> str:
    """Say what the machines cost, how the provider's hours differ, and how many it does not list."""
    known, unknown = len(account.known), account.unknown
    said = (
        f"{words.count(len(account.rows), 'machine')}: {account.hours:,.2f} hours and "
        f"{format_usd(account.cost_usd)} by the journal"
    )
    if known:
        of_those, share = f"for {known:,} of them " if unknown else "", account.difference_share
        apart = "that cannot be compared" if share is None else f"a difference of {_signed(share)}"
        said += (
            f"; {of_those}the provider counts {account.their_hours:,.2f} hours and "
            f"{format_usd(account.their_usd)}, the journal {account.our_hours:,.2f} and "
            f"{format_usd(account.our_usd)}: {apart}"
        )
    if not unknown:
        return said
    verb, them = ("is", "it") if unknown == 1 else ("are", "them")
    return f"{said}; {unknown:,} {verb} not compared: the provider no longer lists {them}, or gives no times"


def _rented(row: AccountRow) -> str:
    return words.NOTHING if row.rented_utc is None else words.short_time(row.rented_utc)


def _their_hours(row: AccountRow) -> str:
    return UNKNOWN if row.their_hours is None else f"{row.their_hours:,.2f}"


def _difference(row: AccountRow) -> str:
    return UNKNOWN if row.difference_share is None else _signed(row.difference_share)


def _end(one: AccountRow) -> str:
    if not one.in_journal:
        return "not in the journal"
    return "still rented" if one.returned_utc is None else words.plain(one.why or one.cause, 40)


def _signed(share: float) -> str:
    """Write a difference to a tenth of a percent, as `+0.3 %`."""
    percent = f"{abs(share) * 100:.1f} %"
    return percent if percent == "0.0 %" else f"{'−' if share < 0 else '+'}{percent}"
