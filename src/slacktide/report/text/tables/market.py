"""A market as a page of text: all about one pool, or several side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slacktide.market.pools.statistics import describe, largest_gpus, moves_between, side_by_side
from slacktide.report.text.tables import grid, pools

if TYPE_CHECKING:
    from slacktide.market.base import Market
    from slacktide.market.pools.statistics import PoolFigures

COLUMNS = (
    "days",
    "GPUs",
    "any",
    "half",
    "full",
    "losses a day",
    "median up",
    "mean up",
    "mean down",
    "USD per GPU-hour",
    "of on demand",
)


def page(found: Market) -> list[Any]:
    """Return things to print: the pool or pools, their on-demand stock, and what was assumed."""
    return [
        *(_one(found) if len(found) == 1 else _several(found)),
        *pools.stock_words(found.pools),
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
    return [
        table,
        "any, half, full: share of time with at least one, half, all of the most GPUs ever available",
    ]


def _several(found: Market) -> list[Any]:
    """Show the pools side by side, and what moves between them cost."""
    most = largest_gpus(found)
    return [
        grid.as_rich(pools.comparison(side_by_side(found), most), title=_title(found)),
        pools.comparison_words(most),
        *pools.moves_words(moves_between(found)),
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
        _span(figures.up_median_hours),
        _span(figures.up_mean_hours),
        _span(figures.down_mean_hours),
        f"{mean:.2f}" if low == high else f"{mean:.2f} ({low:.2f}..{high:.2f})",
        "-" if figures.price_share is None else f"{figures.price_share:.0%}",
    ]


def _span(hours: float | None) -> str:
    if hours is None:
        return "-"
    return f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.1f} h"
