"""What the panels of a picture share: headings, keys, the deadline's mark and ticks of money."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.figures.drawing.scene import Scene
from slacktide.report.figures.drawing.style import INK, Look

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.lines import Line2D

ROOM_FOR_LABEL = 0.12  # the share of the time axis that the label of a mark takes


def headline(ax: Axes, text: str, *, colour: str = INK, size: float = 10) -> None:
    """Write a panel's heading above its left corner."""
    ax.annotate(
        text, (0, 1), (0, 4), "axes fraction", "offset points", weight="bold", color=colour, size=size
    )


def aside(ax: Axes, text: str) -> None:
    """Write on the heading's line, at the right end."""
    ax.annotate(text, (1, 1), (0, 4), "axes fraction", "offset points", ha="right", size=8.5)


def legend_above(ax: Axes, keys: Sequence[Artist] | None = None) -> None:
    """Put the key on the heading's line, at the right end, where it hides nothing."""
    keys = ax.get_legend_handles_labels()[0] if keys is None else keys
    ax.legend(
        handles=keys, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=max(4, len(keys)), borderaxespad=0.4
    )


def line_key(look: Look, label: str) -> Line2D:
    """Return the key of a run's line."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=look.colour, ls=look.dash, lw=2.2, label=label)


def key_below(ax: Axes, heading: str, keys: Sequence[Artist]) -> None:
    """Fill a panel with a heading and a key in columns below it, where the key hides no line."""
    ax.set_axis_off()
    headline(ax, heading)
    legend = ax.legend(handles=list(keys), loc="upper left", ncols=_columns(keys), handlelength=2.6)
    legend.set_bbox_to_anchor((0.0, 0.95), ax.transAxes)


def key_in(keys: Sequence[Artist]) -> float:
    """Return the height in inches of a panel that `key_below` fills."""
    return 0.06 + 0.185 * math.ceil(len(keys) / _columns(keys))


def _columns(keys: Sequence[Artist]) -> int:
    """Return how many columns of a key fit side by side."""
    return max(1, min(5, 150 // (max(len(str(key.get_label())) for key in keys) + 7)))


def deadline(ax: Axes, scene: Scene, *, label: bool = False) -> None:
    """Mark the deadline, and when a late result becomes worthless, where the time axis reaches them."""
    job = scene.job
    marks = {"deadline": job.deadline_hours}
    if not job.hard and job.worthless_after_hours is not None:
        marks["worthless"] = job.worthless_after_hours
    end = 0.0
    for name, hours in marks.items():
        if hours > scene.end_hours * 1.001:
            continue
        ax.axvline(hours, color=INK, lw=0.9, alpha=0.8)
        # Of two labels that would overlap only the first is written: it matters more.
        if label and hours - end > ROOM_FOR_LABEL * scene.end_hours:
            text = f"{name} {words.duration(hours)}"
            top = ax.get_xaxis_transform()
            ax.annotate(text, (hours, 1), (0, 3), top, "offset points", ha="right", size=8)
            end = hours


def cut_at(most: float, shown: int) -> str:
    """Say that values above what the axis shows are drawn at its end; empty where there are none."""
    return f" (more than {shown}: shown as {shown})" if most > shown else ""


def from_zero(ax: Axes, most: float) -> None:
    """Let the axis begin at zero and leave a little room above the greatest value."""
    ax.set_ylim(0.0, most * 1.08 if most > 0 else 1.0)


def usd_ticks(axis: Axis, most: int) -> None:
    """Label an axis of money with at most about this many round amounts."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(lambda usd, _: format_usd(usd).removesuffix(".00"))


def whole_ticks(ax: Axes) -> None:
    """Label the vertical axis with a few whole numbers."""
    from matplotlib.ticker import MaxNLocator

    ax.yaxis.set_major_locator(MaxNLocator(3, integer=True))
