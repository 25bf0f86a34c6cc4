"""The panels of a job that may move: what each pool offered, and a band that says where the job was when.

Pools are distinguished by letters as well as by colours.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

import numpy as np

from slacktide.market.base import Pool
from slacktide.report import words
from slacktide.report.figures.drawing.scene import Scene, Steps, merged
from slacktide.report.figures.drawing.style import INK, drawable
from slacktide.report.figures.panels.parts import cut_at, deadline
from slacktide.results.run import RunResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

# Tol's light colours: distinct for colour-blind readers, and dark letters can be read on them.
COLOURS = ("#77aadd", "#ee8866", "#44bb99", "#eedd88", "#ffaabb", "#99ddff", "#bbcc33", "#aaaa00", "#dddddd")
HATCHES = ("", "///", "...")  # second and third time round the colours a pool is hatched
ROOM = 1.95  # height of a row with a band, in widest holdings
MOVED = ">"  # the mark of a move
LETTER_SHARE = 0.012  # a stay shorter than this share of the time axis has no room for its letter


def letter(at: int) -> str:
    """Return the letter of a pool: A to Z, then A2 and so on."""
    turn, place = divmod(at, len(ascii_uppercase))
    return ascii_uppercase[place] + (str(turn + 1) if turn else "")


def look(at: int) -> dict[str, Any]:
    """Return the colour and hatch of a pool."""
    turn, place = divmod(at, len(COLOURS))
    return {"facecolor": COLOURS[place], "hatch": HATCHES[turn % len(HATCHES)], "edgecolor": INK, "lw": 0.0}


def keys(scene: Scene) -> list[Patch]:
    """Return what names the pools: letter, name and spot price."""
    from matplotlib.patches import Patch

    return [
        Patch(**look(at), label=f"{letter(at)}  {drawable(pool.name, 34)}, {_price(scene, pool)}")
        for at, pool in enumerate(scene.pools)
    ]


def heading(scene: Scene) -> str:
    """Name the panel of all pools."""
    widest = scene.job.max_gpus
    most = max(quote.spot_gpus for pool in scene.pools for quote in _quotes(scene, pool))
    return f"Spot GPUs available in each pool{cut_at(most, widest)}, with its spot price per GPU-hour"


def _price(scene: Scene, pool: Pool) -> str:
    usd = [quote.spot_usd_per_gpu_hour for quote in _quotes(scene, pool)]
    return words.usd_span(min(usd), max(usd))


def _quotes(scene: Scene, pool: Pool) -> Sequence[Any]:
    """Return what a pool quoted in the slots of the scene; nothing to be had before its record."""
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
        ax.stairs(base + 0.86 * share.values, share.edges, baseline=base, fill=True, **look(at))
        ax.axhline(base, color=INK, lw=0.3)
    ax.set_ylim(0.0, float(len(scene.pools)))
    ax.set_yticks(
        [len(scene.pools) - 0.6 - at for at in range(len(scene.pools))],
        [letter(at) for at in range(len(scene.pools))],
    )
    ax.tick_params(axis="y", length=0)
    deadline(ax, scene)


def band(ax: Axes, scene: Scene, run: RunResult, low: float, high: float) -> None:
    """Draw where a run was when, as a band between two heights, with moves marked."""
    names = [pool.name for pool in scene.pools]
    top = low + 0.8 * (high - low)
    for number, stay in enumerate(run.stays):
        at = names.index(stay.pool)
        hours = stay.to_hours - stay.from_hours
        ax.broken_barh([(stay.from_hours, hours)], (low, top - low), **look(at))
        middle = (low + top) / 2
        if hours > LETTER_SHARE * scene.end_hours:
            ax.text(
                stay.from_hours + hours / 2,
                middle,
                letter(at),
                ha="center",
                va="center",
                size=8,
                clip_on=True,
            )
        if number:
            ax.plot([stay.from_hours] * 2, [low, top], color=INK, lw=1.2)
            ax.plot([stay.from_hours], [top], color=INK, ls="", marker=MOVED, ms=5.5, mew=0, clip_on=False)
