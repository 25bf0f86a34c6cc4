"""What rented machines cost: next to what jobs used of them, and to their provider's account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.bills.job import cents
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Grid, left, right
from slacktide.report.text.tables.machines import MACHINE, machine_cells
from slacktide.report.wire.values import document, picked, plain

if TYPE_CHECKING:
    from slacktide.results.machine_bill import AccountRow, MachineAccount, MachineCosts, MachineGroup, Spread

COST_COLUMNS = (
    *left("rented in", "kind"), *right("machines", "hours", "GPU-hours", "used", "idle GPU-hours", "USD"),
)  # fmt: skip
TIME_COLUMNS = (
    *left("rented in"), *right("joined", "boot", "longest", "first progress", "longest", "never joined"),
    *right("interrupted", "no capacity"),
)  # fmt: skip
ACCOUNT_COLUMNS = (
    *MACHINE, *right("rented (UTC)", "boot", "hours", "USD", "provider's hours", "difference"), *left("end"),
)  # fmt: skip
LONGEST_NAME = 60
UNKNOWN = "unknown"


def text(costs: MachineCosts, jobs_usd: float) -> str:
    """Return what machines cost and how long they took to be of use; `jobs_usd` is the bill of all payers."""
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
    rows = tuple(
        (
            words.plain(one.pool, LONGEST_NAME) or "total",
            one.capacity,
            f"{one.machines:,}",
            f"{one.hours:,.2f}",
            f"{one.gpu_hours:,.2f}",
            _share(costs.used_share(one)),
            f"{costs.idle_gpu_hours(one):,.2f}",
            cents(one.cost_usd),
        )
        for one in (*costs.bill.pools, costs.bill.total)
    )
    return Grid(COST_COLUMNS, rows, strong=len(rows) - 1)


def _times(costs: MachineCosts) -> Grid:
    rows = tuple(
        (
            words.plain(one.pool, LONGEST_NAME),
            f"{one.boot.count:,}",
            *_spread(one.boot),
            *_spread(costs.use.first_progress(one.pool)),
            *(f"{count:,}" for count in (one.never_joined, one.interrupted, one.no_capacity)),
        )
        for one in costs.bill.by_pool
    )
    return Grid(TIME_COLUMNS, rows)


def _spread(one: Spread) -> tuple[str, ...]:
    hours = one.median_hours, one.worst_hours
    return tuple(words.NOTHING if each is None else words.rounded(each) for each in hours)


def _share(share: float | None) -> str:
    return words.NOTHING if share is None else words.percent(share)


def _summary(costs: MachineCosts, jobs_usd: float) -> str:
    """Say what jobs used of what was paid, and how the two bills stand to each other."""
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
    """Return a line for each machine, the sums, and one sentence about how far both accounts are apart."""
    if not account.rows:
        return "no machines were ever rented"
    rows = tuple(_account_row(one) for one in account.rows)
    return f"{grid.as_text(Grid(ACCOUNT_COLUMNS, rows))}\n\n{_account_verdict(account)}"


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


def _account_row(one: AccountRow) -> tuple[str, ...]:
    return (
        *machine_cells(one),
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
