"""A market as text and JSON: all about one pool, or several side by side, and what it costs to move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_duration
from slacktide.market.pools.statistics import describe, largest_gpus, moves_between, side_by_side
from slacktide.report import words
from slacktide.report.text.tables import grid
from slacktide.report.text.tables.grid import Grid, TableOf
from slacktide.report.wire.values import picked, utc

if TYPE_CHECKING:
    from slacktide.market.base import Market, Pool
    from slacktide.market.pools.statistics import ComparedPool, MoveBetween, PoolFigures

COLUMNS = (
    "days", "GPUs", "any", "half", "full", "losses a day", "median up", "mean up", "mean down",
    "USD per GPU-hour", "of on demand",
)  # fmt: skip
COMPARED = (
    "gpu", "region", "spot_now_usd", "on_demand_now_usd", "spot_now_gpus", "half_of_largest_share",
    "largest_share",
)  # fmt: skip
"""Keys of a pool in JSON that only a comparison of pools gives."""
SHOWN_PAIRS = 4  # how many pairs of regions are named for each price


def page(found: Market) -> list[Any]:
    """Return things to print: the pool or pools, their on-demand stock, and what was assumed."""
    return [
        *(_one(found) if len(found) == 1 else _several(found)),
        *stock_words(found.pools),
        *(f"assumed: {sentence}" for sentence in found.assumptions),
    ]


def _one(found: Market) -> list[Any]:
    from rich.table import Table

    table = Table(title=_title(found), title_justify="left")
    table.add_column("pool", no_wrap=True)
    for title in COLUMNS:
        table.add_column(title, justify="right", no_wrap=title not in ("losses a day", "of on demand"))
    for pool in found.pools:
        table.add_row(pool.name, *_cells(describe(pool)))
    legend = "any, half, full: share of time with at least one, half, all of the most GPUs ever available"
    return [table, legend]


def _several(found: Market) -> list[Any]:
    most = largest_gpus(found)
    return [
        grid.as_rich(comparison(side_by_side(found), most), title=_title(found)),
        _how_to_read(most),
        *moves_words(moves_between(found)),
        "More about one of them: --pool NAME.",
    ]


def _title(found: Market) -> str:
    begin, end = min(pool.start for pool in found.pools), max(pool.end for pool in found.pools)
    slot = found.pools[0].slot_hours * 60
    return f"{found.source}: {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, slots of {slot:.4g} min"


def _cells(figures: PoolFigures) -> list[str]:
    low, mean, high = figures.spot_min_usd, figures.spot_mean_usd, figures.spot_max_usd
    return [
        f"{figures.hours / 24:.1f}",
        f"{figures.max_spot_gpus}",
        f"{figures.any_share:.0%}",
        f"{figures.half_share:.0%}",
        f"{figures.full_share:.0%}",
        f"{figures.losses_per_day:.1f}",
        spell(figures.up_median_hours),
        spell(figures.up_mean_hours),
        spell(figures.down_mean_hours),
        f"{mean:.2f}" if low == high else f"{mean:.2f} ({low:.2f}..{high:.2f})",
        "-" if figures.price_share is None else f"{figures.price_share:.0%}",
    ]


def spell(hours: float | None) -> str:
    """Write how long spot stayed, or stayed away."""
    if hours is None:
        return "-"
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.1f} h"


def as_json(found: Market) -> dict[str, Any]:
    """Return the figures of a market under the documented keys."""
    compared = {one.pool: one for one in side_by_side(found)}
    return {
        "source": found.source,
        "assumptions": list(found.assumptions),
        "largest_spot_gpus": largest_gpus(found),
        "moves": [asdict(move) for move in moves_between(found)],
        "pools": [
            {
                "name": pool.name,
                "start": utc(pool.start),
                "end": utc(pool.end),
                "slot_hours": pool.slot_hours,
                **asdict(describe(pool)),
                **picked(compared[pool.name], *COMPARED),
            }
            for pool in found.pools
        ],
    }


def comparison(pools: Sequence[ComparedPool], largest_gpus: int) -> Grid:
    """Return one line for each pool: its prices, how often it has spot GPUs, and for how long."""
    half = max(1, (largest_gpus + 1) // 2)
    table = TableOf(pools)
    table.words("pool", lambda pool: words.plain(pool.pool, 60))
    table.words("GPU", lambda pool: pool.gpu or words.NOTHING)
    table.words("region", _region, breaks=True)
    table.number("spot now", lambda pool: f"{pool.spot_now_usd:.2f}")
    table.number("mean", lambda pool: f"{pool.spot_mean_usd:.2f}")
    table.number("on demand", lambda pool: f"{pool.on_demand_now_usd:.2f}", narrow="on\ndemand")
    table.number("≥ 1", lambda pool: f"{pool.any_share:.0%}")
    table.number(f"≥ {half}", lambda pool: f"{pool.half_of_largest_share:.0%}")
    table.number(f"≥ {largest_gpus}", lambda pool: f"{pool.largest_share:.0%}")
    table.number("mean up", lambda pool: _hours(pool.up_mean_hours))
    table.number("mean down", lambda pool: _hours(pool.down_mean_hours))
    table.number("last offer", lambda pool: words.count(pool.spot_now_gpus, "GPU"), narrow="last\noffer")
    return table.grid()


def _region(pool: ComparedPool) -> str:
    return words.plain(pool.region, 40) if pool.region != pool.pool else words.NOTHING


def _hours(hours: float | None) -> str:
    return words.NOTHING if hours is None else words.about(hours)


def _how_to_read(largest_gpus: int) -> str:
    return (
        "Prices are USD per GPU-hour; ≥ n: share of time with at least n spot GPUs, up to the most that any "
        f"pool ever had, {largest_gpus}; mean up and down: how long spot stays, and stays away."
    )


def stock_words(pools: Sequence[Pool]) -> list[str]:
    """Say for how much of the time each pool had on-demand GPUs, where its trace limits them."""
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
    named = words.listed([_pair(pair) for pair in pairs], SHOWN_PAIRS)
    time = f"100 GB take {format_duration(round(minutes) / 60)}" if minutes > 0 else "at once"
    return f"A move costs {usd:g} USD per GB, {time}: {named}."


def _pair(pair: MoveBetween) -> str:
    region, other = words.plain(pair.region, 40), words.plain(pair.other, 40)
    return f"within {region}" if pair.region == pair.other else f"{region} to {other}"
