"""A picture of a market: spot GPUs and prices over time, availability by hour, and how long spells last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.market.base import Market, Pool
from slacktide.market.pools.statistics import describe, spells_of
from slacktide.report.figures.drawing import style
from slacktide.report.figures.drawing.style import FAINT, INK, PALETTE, drawable, log_scale, save_picture
from slacktide.report.figures.panels.market import is_steady
from slacktide.report.text.tables.market import spell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_POOLS = 8  # more pools than this do not fit one page; the first are shown, and a note says so
_COLUMNS = 900  # about the picture's width in pixels; of a longer series each column shows the range
_HOURS_OF_DIP = (13, 21)
_SPELL_TICKS = (
    (1 / 60, "1 min"), (1 / 6, "10 min"), (1 / 2, "30 min"), (2, "2 h"), (8, "8 h"),
    (24, "1 d"), (96, "4 d"), (384, "16 d"),
)  # fmt: skip


def plot_market(market: Market, path: str | Path) -> None:
    """Draw a market into a PNG, SVG or PDF file; raises FileError when it cannot be written."""
    save_picture(lambda: _figure(market, market.pools[:MAX_POOLS]), path)


def _figure(market: Market, shown: Sequence[Pool]) -> Figure:
    """Lay out a row for each pool, then the prices, hours of the day and spells of all of them."""
    # Where availability never changes, as in a mere price history, only prices are drawn.
    priced = not any(np.ptp(pool.spot_gpus) for pool in shown)
    tall = 2.0 if len(shown) == 1 else 1.0
    prices = 0.8 if all(is_steady(pool.spot_usd_per_gpu_hour) for pool in shown) else 1.4
    heights = [tall] * len(shown) if priced else [*[tall] * len(shown), prices, 2.5]
    figure = style.titled_figure(_title(market, shown), (11, 1.0 + 1.12 * sum(heights)))
    rows = figure.add_gridspec(len(heights), 2, height_ratios=heights)
    first = None
    for number, pool in enumerate(shown):
        first = axes = figure.add_subplot(rows[number, :], sharex=first)
        (_price if priced else _availability)(axes, pool, PALETTE[number % len(PALETTE)])
        axes.tick_params(axis="x", labelbottom=number == len(heights) - 1)
        if priced and number == 0:
            axes.legend(loc="center right", ncols=2, borderaxespad=1.0)
    if not priced:
        _prices(figure.add_subplot(rows[-2, :], sharex=first), shown)
        _hours(figure.add_subplot(rows[-1, 0]), shown)
        _spells(figure.add_subplot(rows[-1, 1]), shown)
    return figure


def _title(market: Market, shown: Sequence[Pool]) -> str:
    begin, end = min(pool.start for pool in shown), max(pool.end for pool in shown)
    slot = shown[0].slot_hours * 60
    name = drawable(Path(market.source).name, 50)
    title = f"{name}: {begin:%Y-%m-%d} to {end:%Y-%m-%d} UTC, slots of {slot:.4g} min"
    left = len(market) - len(shown)
    return f"{title} (first {len(shown)} of {len(market)} pools)" if left else title


class _Drawn(NamedTuple):
    """A series as it is drawn: its lowest and highest value in each column of the picture."""

    times: Any
    low: Any
    high: Any


def _drawn(pool: Pool, values: Any) -> _Drawn:
    """Gather slots into columns; the last value is repeated so that its step reaches the market's end."""
    width = -(-len(pool) // _COLUMNS)
    starts = np.arange(0, len(pool), width)
    times = np.datetime64(pool.start.replace(tzinfo=None), "us") + (
        np.append(starts, len(pool)) * np.int64(pool.slot_hours * 3.6e9)
    ).astype("m8[us]")
    low, high = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    return _Drawn(times, np.append(low, low[-1]), np.append(high, high[-1]))


def _availability(axes: Axes, pool: Pool, colour: str) -> None:
    drawn = _drawn(pool, pool.spot_gpus)
    axes.fill_between(drawn.times, drawn.high, step="post", color=colour, alpha=0.35, lw=0)
    axes.fill_between(drawn.times, drawn.low, step="post", color=colour, lw=0)
    axes.set_ylim(0, max(1, int(pool.spot_gpus.max())) * 1.08)
    axes.set_ylabel("spot GPUs")
    axes.yaxis.get_major_locator().set_params(integer=True, nbins=4)  # type: ignore[call-arg]
    axes.set_title(_facts(pool), color=INK)
    _dates(axes)


def _facts(pool: Pool) -> str:
    figures = describe(pool)
    facts = [f"spot {figures.any_share:.0%} of the time"]
    if figures.max_spot_gpus > 1:
        half, most = math.ceil(figures.max_spot_gpus / 2), figures.max_spot_gpus
        facts.append(f"≥ {half} GPUs {figures.half_share:.0%}, all {most} {figures.full_share:.0%}")
    facts.append(f"{figures.losses_per_day:.1f} losses a day")
    if figures.up_median_hours is not None:
        facts.append(f"median stay {spell(figures.up_median_hours)}")
    return f"{drawable(pool.name, 48)}:  " + " · ".join(facts)


def _price(axes: Axes, pool: Pool, colour: str) -> None:
    """Draw the price of one pool whose availability never changes."""
    figures = describe(pool)
    _band(axes, pool, colour, "spot")
    _listed(axes, pool, "on demand")
    share = "" if figures.price_share is None else f" ({figures.price_share:.0%} of on demand)"
    axes.set_title(
        f"{drawable(pool.name, 48)}:  {figures.max_spot_gpus} spot GPUs at all times · "
        f"{figures.spot_min_usd:.2f} to {figures.spot_max_usd:.2f}, mean {figures.spot_mean_usd:.2f}{share}",
    )
    axes.set_ylim(0, None)
    axes.set_ylabel("USD/GPU-h")
    _dates(axes)


def _prices(axes: Axes, shown: Sequence[Pool]) -> None:
    listed: list[float] = []
    for number, pool in enumerate(shown):
        _band(axes, pool, PALETTE[number % len(PALETTE)], "spot" if len(shown) == 1 else None)
        # Zones of one cloud share list prices; draw each once.
        mean = float(pool.on_demand_usd_per_gpu_hour.mean())
        if not any(math.isclose(mean, other, rel_tol=0.005) for other in listed):
            _listed(axes, pool, None if listed else "on demand")
            listed.append(mean)
    axes.set_ylim(0, None)
    axes.set_ylabel("USD per GPU-hour")
    which = "" if len(shown) == 1 else " by pool (colours as above)"
    axes.set_title(f"Price: spot{which} against on demand")
    axes.legend(loc="center right", ncols=2, borderaxespad=1.0)
    _dates(axes)


def _band(axes: Axes, pool: Pool, colour: str, label: str | None) -> None:
    spot = _drawn(pool, pool.spot_usd_per_gpu_hour)
    axes.fill_between(spot.times, spot.low, spot.high, step="post", color=colour, alpha=0.35, lw=0)
    axes.step(spot.times, spot.high, where="post", color=colour, lw=1.2, label=label)


def _listed(axes: Axes, pool: Pool, label: str | None) -> None:
    drawn = _drawn(pool, pool.on_demand_usd_per_gpu_hour)
    axes.step(drawn.times, drawn.high, where="post", color=INK, lw=1, ls="--", label=label)


def _dates(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=4, maxticks=10)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    axes.grid(axis="both")
    axes.margins(x=0.005)


def _hours(axes: Axes, shown: Sequence[Pool]) -> None:
    clock = np.arange(25)
    rows = []
    for number, pool in enumerate(shown):
        shares = [np.nan if share is None else share for share in describe(pool).any_share_by_hour]
        rows.append(shares)
        colour = PALETTE[number % len(PALETTE)]
        axes.step(clock, [*shares, shares[-1]], where="post", color=colour, lw=1.3)
        if len(shown) == 1:
            axes.fill_between(clock, [*shares, shares[-1]], step="post", color=colour, alpha=0.3, lw=0)
    if len(shown) > 1:
        mean = _mean_by_hour(np.array(rows))
        axes.step(clock, np.append(mean, mean[-1]), where="post", color=INK, lw=2.4, label="mean")
        axes.legend(loc="lower left", borderaxespad=1.0)
    axes.axvspan(*_HOURS_OF_DIP, color=FAINT, alpha=0.12, lw=0)
    axes.set(xlim=(0, 24), ylim=(0, 1.03), xlabel="hour of the day, UTC", ylabel="share of time with spot")
    axes.set_xticks(range(0, 25, 3))
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_title("Availability by hour (13 to 21 UTC shaded)")
    axes.grid(axis="both")


def _mean_by_hour(rows: Floats) -> Floats:
    seen = ~np.isnan(rows)
    return np.asarray(np.where(seen, rows, 0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))


def _spells(axes: Axes, shown: Sequence[Pool]) -> None:
    for number, pool in enumerate(shown):
        colour = PALETTE[number % len(PALETTE)]
        spells = spells_of(pool)
        _survival(axes, spells.up_hours, colour, "-")
        _survival(axes, spells.down_hours, colour, ":")
    for dash, label in (("-", "with spot"), (":", "without spot")):
        axes.plot([], [], color=INK, ls=dash, label=label)
    log_scale(axes, x="length of a spell")
    low, high = min(pool.slot_hours for pool in shown) * 0.8, max(pool.hours for pool in shown)
    inside = [(hours, label) for hours, label in _SPELL_TICKS if low <= hours <= high]
    axes.set_xticks([hours for hours, _ in inside], [label for _, label in inside])
    axes.minorticks_off()
    axes.set(xlim=(low, high), ylim=(0, 1.03))
    axes.set_ylabel("share that lasts at least that long")
    axes.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.set_title("How long spells last")
    axes.legend(loc="upper right", borderaxespad=1.0)
    axes.grid(axis="both")


def _survival(axes: Axes, hours: Floats, colour: str, dash: str) -> None:
    if not len(hours):
        return
    ordered = np.sort(hours)
    share = 1 - np.arange(len(ordered)) / len(ordered)
    axes.step(np.append(ordered, ordered[-1]), np.append(share, 0), where="pre", color=colour, ls=dash)
