"""A plan as text: its sentences, and tables of the policies, of the GPUs held over time and of the pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slacktide.core.units import format_duration
from slacktide.report import words
from slacktide.report.text.sentences.plan import advice_words, deadline_words, opening, width_words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Grid, TableOf

if TYPE_CHECKING:
    from slacktide.results.plan import HeldAt, JobPlan, Moving

BAR_WIDTH = 24
TIME_ROWS = 8
MOVES = "moves"  # shown instead of a pool for a policy that chooses its pools
POOLS_NOTE = (
    "to stay: mean cost in that pool alone under uniform-progress; "
    "time: share of the time with GPUs, if it moves."
)


def page(plan: JobPlan) -> str:
    """Return the plan as text: what will happen, why, the policies next to each other, the assumptions."""
    parts = (
        *opening(plan),
        _table(plan),
        _curves(plan),
        "" if plan.moving else _gpus(plan),  # where a job may move, its pools say more than its widths
        _pools(plan),
        advice_words(plan),
        _assumptions(plan),
    )
    return "\n\n".join(filter(None, parts))


def _table(plan: JobPlan) -> str:
    table = grid.as_text(policies(plan))
    if plan.moving is not None:
        return table
    head = "Over simulated futures (USD; GPU-hours); on the right, from recent starts:"
    return "\n".join((head, table, f"clairvoyant: perfect foresight; {_best(plan)}."))


def policies(plan: JobPlan) -> Grid:
    """Return one line for each policy."""
    table = TableOf(plan.outlooks)
    table.words("policy", lambda one: words.plain(one.policy, 60) + (" <" if one is plan.outlooks[0] else ""))
    if plan.moving is not None:
        table.words("pool", lambda one: words.plain(one.pool, 40) or MOVES)
    table.number("cost p10", lambda one: f"{one.futures.cost_usd.p10:.2f}")
    table.number("p50", lambda one: f"{one.futures.cost_usd.p50:.2f}")
    table.number("p90", lambda one: f"{one.futures.cost_usd.p90:.2f}")
    if plan.moving is not None:
        table.number("mean", lambda one: f"{one.futures.mean_cost_usd:.2f}")
    table.number("done p50", lambda one: format_duration(one.futures.finish_hours.p50))
    if plan.moving is None:
        table.number("p90", lambda one: format_duration(one.futures.finish_hours.p90))
    table.number("on time", lambda one: f"{one.futures.on_time_share:.0%}")
    if plan.moving is not None:
        table.number("moves", lambda one: f"{one.mean_moves:.1f}")
        table.number("egress", lambda one: f"{one.mean_move_usd:.2f}")
    else:
        table.number("spot", lambda one: f"{one.futures.mean_spot_gpu_hours:.1f}")
        table.number("on dem.", lambda one: f"{one.futures.mean_on_demand_gpu_hours:.1f}")
        table.number("past p50", lambda one: "" if one.history is None else f"{one.history.cost_usd.p50:.2f}")
        table.number("on time", lambda one: "" if one.history is None else f"{one.history.on_time_share:.0%}")
    return table.grid()


def _curves(plan: JobPlan) -> str:
    said = [*deadline_words(plan), *width_words(plan)]
    head = "What would change the cost, on average (with its standard error):"
    return "\n".join((head, *said)) if said else ""


def _best(plan: JobPlan) -> str:
    if plan.clairvoyant_spare_usd is None:
        return "no policy can do better"
    return words.spare(plan.clairvoyant_spare_usd, plan.outlooks[-1].futures.mean_cost_usd) + " on average"


def _gpus(plan: JobPlan) -> str:
    """Draw the mean GPUs held over time: spot as '#', on demand as 'o'."""
    bars = [_bar(part, plan.job.max_gpus) for part in _parts(plan.gpus)]
    return "\n".join(("GPUs held over time, on average (# spot, o on demand):", *bars))


def _parts(held: Sequence[HeldAt]) -> list[Sequence[HeldAt]]:
    size = math.ceil(len(held) / TIME_ROWS)
    return [held[at : at + size] for at in range(0, len(held), size)]


def _bar(part: Sequence[HeldAt], widest: int) -> str:
    spot = sum(held.spot_gpus for held in part) / len(part)
    on_demand = sum(held.on_demand_gpus for held in part) / len(part)
    marks = "#" * round(BAR_WIDTH * spot / widest) + "o" * round(BAR_WIDTH * on_demand / widest)
    counts = f"{spot:5.1f} spot {on_demand:5.1f} on demand"
    return f"  from {format_duration(part[0].hours):>7}  {marks:<{BAR_WIDTH + 1}} {counts}"


def _pools(plan: JobPlan) -> str:
    if plan.moving is not None:
        return f"{grid.as_text(pools(plan.moving))}\n{POOLS_NOTE}"
    if len(plan.pools) < 2:
        return ""
    tried = ", ".join(f"{one.pool} {one.history_p50_cost_usd:.2f}" for one in plan.pools)
    return f"Pools, with the median bill of recent starts under uniform-progress (USD): {tried}."


def pools(moving: Moving) -> Grid:
    """Return one line for each pool: what it offers now, what staying costs, and how long it is used."""
    table = TableOf(moving.pools)
    table.words("pool", lambda pool: words.plain(pool.pool, 60))
    table.number("spot now", lambda pool: words.count(pool.spot_gpus, "GPU"))
    table.number("USD per GPU-hour", lambda pool: f"{pool.spot_usd:.2f}")
    table.number("to stay", lambda pool: "not on time" if pool.stay_usd is None else f"{pool.stay_usd:.2f}")
    table.number("time", lambda pool: f"{pool.held_share:.0%}")
    return table.grid()


def _assumptions(plan: JobPlan) -> str:
    market = f"  - market: {plan.market}"
    return "\n".join(("This assumes that", *(f"  - {sentence}" for sentence in plan.assumptions), market))
