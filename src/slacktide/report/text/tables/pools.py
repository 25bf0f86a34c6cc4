"""The pools of a market side by side, as a table and in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slacktide.core.units import format_duration
from slacktide.report import words
from slacktide.report.text.tables.grid import Column, Grid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slacktide.market.base import Pool
    from slacktide.market.pools.statistics import ComparedPool, MoveBetween

SHOWN_PAIRS = 4  # how many pairs of regions are named for each price


def comparison(pools: Sequence[ComparedPool], largest_gpus: int) -> Grid:
    """Return one line for each pool: what it costs, how often it has how many GPUs, and how long."""
    half = max(1, (largest_gpus + 1) // 2)
    columns = (
        Column("pool", right=False), Column("GPU", right=False), Column("region", right=False, breaks=True),
        Column("spot now"), Column("mean"), Column("on demand", narrow="on\ndemand"), Column("≥ 1"),
        Column(f"≥ {half}"), Column(f"≥ {largest_gpus}"), Column("mean up"), Column("mean down"),
        Column("last offer", narrow="last\noffer"),
    )  # fmt: skip
    return Grid(columns, tuple(_row(pool) for pool in pools))


def _row(pool: ComparedPool) -> tuple[str, ...]:
    return (
        words.plain(pool.pool, 60),
        pool.gpu or words.NOTHING,
        words.plain(pool.region, 40) if pool.region != pool.pool else words.NOTHING,
        f"{pool.spot_now_usd:.2f}",
        f"{pool.spot_mean_usd:.2f}",
        f"{pool.on_demand_now_usd:.2f}",
        *(f"{share:.0%}" for share in (pool.any_share, pool.half_of_largest_share, pool.largest_share)),
        _hours(pool.up_mean_hours),
        _hours(pool.down_mean_hours),
        words.count(pool.spot_now_gpus, "GPU"),
    )


def _hours(hours: float | None) -> str:
    return words.NOTHING if hours is None else words.about(hours)


def comparison_words(largest_gpus: int) -> str:
    """Say how to read the table."""
    return (
        "Prices are USD per GPU-hour; ≥ n: share of time with at least n spot GPUs, up to the most that any "
        f"pool ever had, {largest_gpus}; mean up and down: how long spot stays, and stays away."
    )


def stock_words(pools: Sequence[Pool]) -> list[str]:
    """Say for how much of the time each pool had on-demand GPUs, where its trace limits them."""
    from slacktide.market.pools.statistics import describe

    said = []
    for pool in pools:
        figures = describe(pool)
        if figures.on_demand_any_share is not None and figures.on_demand_mean_gpus is not None:
            share, mean = figures.on_demand_any_share, figures.on_demand_mean_gpus
            said.append(
                f"{words.plain(pool.name, 60)}: on-demand GPUs were there {share:.1%} of the time, "
                f"{mean:.1f} on average while they were limited."
            )
    return said


def moves_words(moves: Sequence[MoveBetween]) -> list[str]:
    """Say what moving a checkpoint between the pools costs, one sentence for each price."""
    prices: dict[tuple[float, float], list[MoveBetween]] = {}
    for move in moves:
        prices.setdefault((move.usd_per_gb, move.minutes_per_100_gb), []).append(move)
    return [_sentence(usd, minutes, pairs) for (usd, minutes), pairs in sorted(prices.items())]


def _sentence(usd: float, minutes: float, pairs: Sequence[MoveBetween]) -> str:
    named = ", ".join(_pair(pair) for pair in pairs[:SHOWN_PAIRS])
    more = f" and {len(pairs) - SHOWN_PAIRS} more" if len(pairs) > SHOWN_PAIRS else ""
    time = f"100 GB take {format_duration(round(minutes) / 60)}" if minutes > 0 else "at once"
    return f"A move costs {usd:g} USD per GB, {time}: {named}{more}."


def _pair(pair: MoveBetween) -> str:
    region, other = words.plain(pair.region, 40), words.plain(pair.other, 40)
    return f"within {region}" if pair.region == pair.other else f"{region} to {other}"
