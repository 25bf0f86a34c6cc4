"""The bill of rented machines as text and as JSON, next to what jobs used of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.bills.job import cents
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid
from slacktide.report.wire import values

if TYPE_CHECKING:
    from slacktide.results.machines.machine_bill import MachineCost, MachineGroup, Spread
    from slacktide.results.machines.machine_use import MachineCosts

COST_COLUMNS = (
    Column("rented in", right=False), Column("kind", right=False), Column("machines"), Column("hours"),
    Column("GPU-hours"), Column("used"), Column("idle GPU-hours"), Column("USD"),
)  # fmt: skip
TIME_COLUMNS = (
    Column("rented in", right=False), Column("joined"), Column("boot"), Column("longest"),
    Column("first progress"), Column("longest"), Column("never joined"), Column("interrupted"),
    Column("no capacity"),
)  # fmt: skip
LONGEST_NAME = 60


def text(costs: MachineCosts, jobs_usd: float) -> str:
    """Return what machines cost and how long they took to be of use; `jobs_usd` is the bill of all payers."""
    return "\n\n".join([grid.as_text(_costs(costs)), grid.as_text(_times(costs)), _summary(costs, jobs_usd)])


def as_json(costs: MachineCosts) -> dict[str, Any]:
    """Return the bill under its documented keys."""
    bill = costs.bill
    return {
        "until_utc": None if bill.until_utc is None else values.utc(bill.until_utc),
        "open": bill.open,
        "total": _amounts(costs, bill.total),
        "pools": [{"pool": one.pool, "capacity": one.capacity, **_amounts(costs, one)} for one in bill.pools],
        "times": [
            {
                "pool": one.pool,
                "next_boot_hours": bill.boot_hours(one.pool),
                "boot": values.plain(one.boot),
                "first_progress": values.plain(costs.use.first_progress(one.pool)),
            }
            for one in bill.by_pool
        ],
        "machines": [_line(one) for one in bill.lines],
    }


def _amounts(costs: MachineCosts, one: MachineGroup) -> dict[str, Any]:
    return {
        "machines": one.machines,
        "hours": one.hours,
        "gpu_hours": one.gpu_hours,
        "used_gpu_hours": costs.used_gpu_hours(one),
        "idle_gpu_hours": costs.idle_gpu_hours(one),
        "used_share": costs.used_share(one),
        "cost_usd": one.cost_usd,
        "never_joined": one.never_joined,
        "interrupted": one.interrupted,
        "no_capacity": one.no_capacity,
    }


def _line(one: MachineCost) -> dict[str, Any]:
    fields: dict[str, Any] = values.plain(one)
    for name in ("rented_utc", "joined_utc", "returned_utc"):
        fields[name] = None if fields[name] is None else values.utc(fields[name])
    return {**fields, "cause": one.cause or None, "why": one.why or None, "cost_usd": one.cost_usd}


def _costs(costs: MachineCosts) -> Grid:
    groups = [*costs.bill.pools, costs.bill.total]
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
        for one in groups
    )
    return Grid(COST_COLUMNS, rows, strong=len(rows) - 1)


def _times(costs: MachineCosts) -> Grid:
    rows = tuple(
        (
            words.plain(one.pool, LONGEST_NAME),
            f"{one.boot.count:,}",
            *_spread(one.boot),
            *_spread(costs.use.first_progress(one.pool)),
            f"{one.never_joined:,}",
            f"{one.interrupted:,}",
            f"{one.no_capacity:,}",
        )
        for one in costs.bill.by_pool
    )
    return Grid(TIME_COLUMNS, rows)


def _spread(one: Spread) -> tuple[str, str]:
    if one.median_hours is None or one.worst_hours is None:
        return words.NOTHING, words.NOTHING
    return words.rounded(one.median_hours), words.rounded(one.worst_hours)


def _share(share: float | None) -> str:
    return words.NOTHING if share is None else words.percent(share)


def _summary(costs: MachineCosts, jobs_usd: float) -> str:
    """Say what jobs used of what was paid, and how the two bills stand to each other."""
    total = costs.bill.total
    used = f"{costs.used_gpu_hours(total):,.2f} of {total.gpu_hours:,.2f}"
    share = _share(costs.used_share(total))
    said = (
        f"machines cost {format_usd(total.cost_usd)}, from rent to return; jobs used {share} of their "
        f"GPU-hours ({used}); the bill at the market's quotes is {format_usd(jobs_usd)}"
    )
    if costs.bill.open:
        verb = "is" if costs.bill.open == 1 else "are"
        said += f"; {words.count(costs.bill.open, 'machine')} {verb} still rented and counted until now"
    return said
