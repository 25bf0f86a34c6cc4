"""A plan over pools as a page of text and as JSON: where to start, what moving may save, what it assumes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_duration
from slacktide.report import words
from slacktide.report.text.sentences.reasons import because
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Column, Grid
from slacktide.report.wire import values

if TYPE_CHECKING:
    from slacktide.results.pools_plan import PoolAhead, PoolsOutlook, PoolsPlan

MOVES = "moves"
"""What stands for the pool of a policy that chooses it."""
POOLS_NOTE = (
    "to stay: mean cost in that pool alone under uniform-progress; "
    "time: share of the time with GPUs, if it moves."
)


def page(plan: PoolsPlan) -> str:
    """Return the plan as one screen of text."""
    assumed = (f"  - {sentence}" for sentence in (*plan.assumptions, f"market: {plan.market}"))
    parts = (
        "\n".join(filter(None, (verdict(plan), start(plan), saving(plan)))),
        grid.as_text(outlooks(plan)),
        grid.as_text(pools(plan)) + f"\n{POOLS_NOTE}",
        "\n".join(("This assumes that", *assumed)),
    )
    return "\n\n".join(parts)


def as_json(plan: PoolsPlan) -> dict[str, Any]:
    """Return the plan under its documented keys."""
    first = plan.first
    document: dict[str, Any] = {
        "job": plan.job.name,
        "deadline_hours": plan.job.deadline_hours,
        "market": plan.market,
        "pool": plan.start_pool,
        "policy": plan.policy,
        "first_decision": {
            "spot_gpus": plan.start_gpus[0],
            "on_demand_gpus": plan.start_gpus[1],
            "reason": str(first.reason),
            "tries": list(first.wishes),
        },
        "outlooks": plan.outlooks,
        "pools": [{"name": one.pool, **_without_name(one)} for one in plan.pools],
        "saving": plan.saving,
        "held_over_time": {"slot_hours": plan.slot_hours, "pools": dict(plan.held)},
        "assumptions": list(plan.assumptions),
        "begin": {"slot": plan.begin_slot, "utc": plan.begin_utc.isoformat()},
    }
    plain: dict[str, Any] = values.plain(document)
    return plain


def _without_name(one: PoolAhead) -> dict[str, Any]:
    return {name: value for name, value in values.plain(one).items() if name != "pool"}


def verdict(plan: PoolsPlan) -> str:
    """Say what the job will probably cost, when it will be done, and how sure that is."""
    chosen = plan.outlooks[0]
    cost, finish, runs = chosen.futures.cost_usd, chosen.futures.finish_hours, chosen.futures.runs
    where = f"in {chosen.pool}" if chosen.pool else f"over {len(plan.pools)} pools"
    mean, best = chosen.futures.mean_cost_usd, plan.outlooks[-1].futures.mean_cost_usd
    over = f", {mean / best:.2f}x the cost with perfect foresight over all pools" if best > 0 else ""
    return (
        f"{words.plain(plan.job.name, 60)} with {plan.policy} {where}: probably {cost.p50:.2f} USD "
        f"({cost.p10:.2f} to {cost.p90:.2f}), done after {_hours(finish.p50)} ({_hours(finish.p10)} to "
        f"{_hours(finish.p90)}) of {format_duration(plan.job.deadline_hours)}.\n"
        f"On time in {round(chosen.futures.on_time_share * runs)} of {runs} futures. The mean is {mean:.2f} "
        f"USD (+-{chosen.futures.mean_cost_error_usd:.2f}){over}."
    )


def start(plan: PoolsPlan) -> str:
    """Say where to start, with what, and why."""
    when, why = f"{plan.begin_utc:%Y-%m-%d %H:%M} UTC", because(plan.first.reason.rule)
    if not any(plan.start_gpus):
        return f"Start: at {when} it would hold nothing yet, because {why}."
    held, pool = words.holding(*plan.start_gpus), words.plain(plan.start_pool, 60)
    return f"Start in {pool}: at {when} it would hold {held} there, because {why}."


def saving(plan: PoolsPlan) -> str:
    """Say what moving may save against the best pool to stay in, and how often it would move."""
    found = plan.saving
    if found is None:
        return ""
    moved = next(one for one in plan.outlooks if not one.pool)
    stayed = next(one for one in plan.outlooks if (one.policy, one.pool) == (found.policy, found.pool))
    usual, error = stayed.futures.mean_cost_usd, f"+-{found.error_usd:.2f}"
    what = f"Moving makes no difference that these futures show ({-found.mean_usd:+.2f} USD, {error})"
    if abs(found.mean_usd) > found.error_usd:
        word, share = "save" if found.mean_usd >= 0 else "cost", abs(found.mean_usd) / usual
        what = f"Moving may {word} {abs(found.mean_usd):.2f} USD ({error}), {share:.0%},"
    return (
        f"{what} against {found.policy} in {words.plain(found.pool, 60)} ({usual:.2f} USD), the best that "
        f"stays over the same futures. It would move {moved.mean_moves:.1f} times on average, in "
        f"{found.moving_share:.0%} of the futures at all, and pay {moved.mean_move_usd:.2f} USD for that."
    )


def outlooks(plan: PoolsPlan) -> Grid:
    """Return one line for each policy."""
    columns = (
        Column("policy", right=False), Column("pool", right=False), Column("cost p10"), Column("p50"),
        Column("p90"), Column("mean"), Column("done p50"), Column("on time"), Column("moves"),
        Column("egress"),
    )  # fmt: skip
    return Grid(columns, tuple(_outlook(plan, one) for one in plan.outlooks))


def _outlook(plan: PoolsPlan, one: PoolsOutlook) -> tuple[str, ...]:
    cost = one.futures.cost_usd
    return (
        words.plain(one.policy, 60) + (" <" if one is plan.outlooks[0] else ""),
        words.plain(one.pool, 40) or MOVES,
        *(f"{usd:.2f}" for usd in (cost.p10, cost.p50, cost.p90, one.futures.mean_cost_usd)),
        _hours(one.futures.finish_hours.p50),
        f"{one.futures.on_time_share:.0%}",
        f"{one.mean_moves:.1f}",
        f"{one.mean_move_usd:.2f}",
    )


def pools(plan: PoolsPlan) -> Grid:
    """Return one line for each pool: what it offers now, what staying costs, and how long it is used."""
    columns = (
        Column("pool", right=False), Column("spot now"), Column("USD per GPU-hour"), Column("to stay"),
        Column("time"),
    )  # fmt: skip
    return Grid(columns, tuple(_pool(one) for one in plan.pools))


def _pool(one: PoolAhead) -> tuple[str, ...]:
    return (
        words.plain(one.pool, 60),
        words.count(one.spot_gpus, "GPU"),
        f"{one.spot_usd:.2f}",
        "not on time" if one.stay_usd is None else f"{one.stay_usd:.2f}",
        f"{one.held_share:.0%}",
    )


def _hours(value: float) -> str:
    return words.duration(value) if math.isfinite(value) else "never"
