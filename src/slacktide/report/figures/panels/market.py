"""The panels of the market: its prices, and the spot GPUs of one pool or of each pool.

Pools between which a job may move have letters as well as colours: in a strip for each, and in a band that
shows in which pool the job was over time.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.market.base import Pool
from slacktide.report import words
from slacktide.report.figures.drawing.scene import Scene, Steps, merged
from slacktide.report.figures.drawing.style import FAINT, INK, drawable
from slacktide.report.figures.panels import parts
from slacktide.report.figures.panels.parts import aside, cut_at, deadline, headline, legend_above, usd_ticks
from slacktide.results.run import RunResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

STEADY_SHARE = 0.05
"""Prices that vary by less than this share would be flat lines: they are written, not drawn."""
WIDEST_SEEN = 3
"""Spot GPUs are drawn up to this many times the job's maximum width; the job cannot use the rest."""
# Tol's light colours: distinct for colour-blind readers, and dark letters can be read on them.
COLOURS = ("#77aadd", "#ee8866", "#44bb99", "#eedd88", "#ffaabb", "#99ddff", "#bbcc33", "#aaaa00", "#dddddd")
HATCHES = ("", "///", "...")  # pools are hatched when the colours repeat
ROOM_WITH_POOLS = 1.95  # height of a row with a band, as a multiple of the job's maximum width
MOVED = ">"  # the mark of a move
LETTER_SHARE = 0.012  # a stay shorter than this share of the time axis has no room for its letter


def is_steady(*prices_usd: Floats) -> bool:
    """Whether prices hardly move, so that one sentence can state them."""
    return all(float(np.ptp(usd)) <= STEADY_SHARE * float(np.max(usd)) for usd in prices_usd)


def steady_price(ax: Axes, scene: Scene) -> None:
    """Write prices that hardly move as a line of text."""
    ax.set_axis_off()
    headline(ax, "Price per GPU-hour")
    spot, listed = (
        words.usd_span(float(np.min(usd)), float(np.max(usd)))
        for usd in (scene.spot_price().values, scene.on_demand_price().values)
    )
    aside(ax, f"spot {spot}, on demand {listed}, throughout")


def price(ax: Axes, scene: Scene) -> None:
    """Draw the spot and on-demand price; spot is faint where none was available."""
    spot, gpus = merged(scene.spot_price(), scene.offered())
    (listed,) = merged(scene.on_demand_price())
    had = np.where(gpus.values > 0, spot.values, np.nan)
    ax.stairs(spot.values, spot.edges, baseline=None, color=FAINT, lw=0.8)
    ax.stairs(had, spot.edges, baseline=None, color=INK, lw=1.5, label="spot")
    ax.stairs(
        listed.values, listed.edges, baseline=None, color=INK, lw=1.2, ls=(0, (4, 2)), label="on demand"
    )
    if np.isnan(had).any():
        ax.plot([], [], color=FAINT, lw=0.8, label="spot, none available")
    parts.from_zero(ax, float(max(spot.values.max(), listed.values.max())))
    usd_ticks(ax.yaxis, 4)
    headline(ax, "Price per GPU-hour")
    legend_above(ax)
    deadline(ax, scene)


def obtainable(ax: Axes, scene: Scene) -> None:
    """Draw how many spot GPUs were available, and the widest the job may be."""
    (gpus,) = merged(scene.offered())
    widest = scene.job.max_gpus
    most = min(float(gpus.values.max()), float(WIDEST_SEEN * widest))
    drawn = np.minimum(gpus.values, most)
    ax.stairs(drawn, gpus.edges, fill=True, color=FAINT, alpha=0.35, lw=0)
    ax.stairs(drawn, gpus.edges, baseline=None, color=FAINT, lw=0.9)
    ax.axhline(widest, color=INK, lw=0.9, ls=(0, (1, 2)), label=f"widest the job may be: {widest}")
    parts.from_zero(ax, max(most, float(widest)))
    parts.whole_ticks(ax)
    headline(ax, f"Spot GPUs available{cut_at(float(gpus.values.max()), int(most))}")
    legend_above(ax)
    deadline(ax, scene)


def pool_letter(at: int) -> str:
    """Return the letter of a pool: A to Z, then A2 and so on."""
    turn, place = divmod(at, len(ascii_uppercase))
    return ascii_uppercase[place] + (str(turn + 1) if turn else "")


def pool_look(at: int) -> dict[str, Any]:
    """Return the colour and hatch of a pool."""
    turn, place = divmod(at, len(COLOURS))
    return {"facecolor": COLOURS[place], "hatch": HATCHES[turn % len(HATCHES)], "edgecolor": INK, "lw": 0.0}


def pool_keys(scene: Scene) -> list[Patch]:
    """Return the legend of the pools: letter, name and spot price."""
    from matplotlib.patches import Patch

    return [
        Patch(
            **pool_look(at), label=f"{pool_letter(at)}  {drawable(pool.name, 34)}, {_pool_price(scene, pool)}"
        )
        for at, pool in enumerate(scene.pools)
    ]


def pools_heading(scene: Scene) -> str:
    """Return the heading of the panel of all pools."""
    widest = scene.job.max_gpus
    most = max(quote.spot_gpus for pool in scene.pools for quote in _quotes(scene, pool))
    return f"Spot GPUs available in each pool{cut_at(most, widest)}, with its spot price per GPU-hour"


def _pool_price(scene: Scene, pool: Pool) -> str:
    usd = [quote.spot_usd_per_gpu_hour for quote in _quotes(scene, pool)]
    return words.usd_span(min(usd), max(usd))


def _quotes(scene: Scene, pool: Pool) -> Sequence[Any]:
    """Return a pool's quotes in the slots of the scene; before its record begins it offers no GPUs."""
    begins = round((scene.start - pool.start).total_seconds() / 3600 / pool.slot_hours)
    slots = range(begins, begins + len(scene.quotes))
    return [pool.quote(slot) if slot >= 0 else pool.quote(0)._replace(spot_gpus=0) for slot in slots]


def strips_in(scene: Scene) -> float:
    """Return the height of the panel of all pools."""
    return 0.23 * len(scene.pools)


def strips(ax: Axes, scene: Scene) -> None:
    """Draw a strip for each pool: how many spot GPUs it offered, up to the widest the job may be."""
    widest = scene.job.max_gpus
    for at, pool in enumerate(scene.pools):
        gpus = np.array([min(quote.spot_gpus, widest) / widest for quote in _quotes(scene, pool)])
        (share,) = merged(Steps(gpus, scene.edges))
        base = len(scene.pools) - 1.0 - at
        ax.stairs(base + 0.86 * share.values, share.edges, baseline=base, fill=True, **pool_look(at))
        ax.axhline(base, color=INK, lw=0.3)
    ax.set_ylim(0.0, float(len(scene.pools)))
    ax.set_yticks(
        [len(scene.pools) - 0.6 - at for at in range(len(scene.pools))],
        [pool_letter(at) for at in range(len(scene.pools))],
    )
    ax.tick_params(axis="y", length=0)
    deadline(ax, scene)


def pool_band(ax: Axes, scene: Scene, run: RunResult, low: float, high: float) -> None:
    """Draw in which pool a run was over time, as a band between two heights, with moves marked."""
    names = [pool.name for pool in scene.pools]
    top = low + 0.8 * (high - low)
    for number, stay in enumerate(run.stays):
        at = names.index(stay.pool)
        hours = stay.to_hours - stay.from_hours
        ax.broken_barh([(stay.from_hours, hours)], (low, top - low), **pool_look(at))
        if hours > LETTER_SHARE * scene.end_hours:
            middle = stay.from_hours + hours / 2, (low + top) / 2
            ax.text(*middle, pool_letter(at), ha="center", va="center", size=8, clip_on=True)
        if number:
            ax.plot([stay.from_hours] * 2, [low, top], color=INK, lw=1.2)
            ax.plot([stay.from_hours], [top], color=INK, ls="", marker=MOVED, ms=5.5, mew=0, clip_on=False)
