"""How pictures look: colours, type, ticks of time, and the short names of policies."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from slacktide.core.files import write_whole
from slacktide.core.units import format_duration
from slacktide.report import words
from slacktide.report.file_formats import picture_format
from slacktide.results.run import CLAIRVOYANT, IN_THE_POOL, ON_DEMAND_ALONE, OVER_POOLS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK = "#1b1f24"
FAINT = "#8b929a"
GREY = "#55585c"
"""The clairvoyant's colour."""
PAPER = "#ffffff"
# Okabe and Ito's colours without yellow and black, then two of Tol's: distinct for colour-blind
# readers, and none too light for a thin line on white.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#999933")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (6, 1.5, 1.5, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Neighbours differ in dash and marker as well as in colour, for those who see no colours."""

STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign is money here
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.0,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "grid.color": FAINT,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.borderaxespad": 0.0,
    "legend.borderpad": 0.0,
    "svg.fonttype": "path",
    "svg.hashsalt": "slacktide",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "auto",
}


class Look(NamedTuple):
    """The colour, dash and marker by which a policy is known in every panel."""

    colour: str
    dash: str | tuple[int, tuple[float, ...]]
    marker: str = "o"


YARDSTICKS = {
    CLAIRVOYANT: Look(GREY, "-"),
    OVER_POOLS: Look(GREY, "-"),
    IN_THE_POOL: Look(GREY, (0, (1.5, 1))),
    ON_DEMAND_ALONE: Look(INK, (0, (4, 2))),
}
"""The looks of what every policy is compared with."""


def looks(policies: Iterable[str]) -> dict[str, Look]:
    """Give every policy its look: a colour of its own, or ink and grey for what it is compared with."""
    found: dict[str, Look] = {}
    for name in policies:
        found[name] = YARDSTICKS.get(name) or look(sum(one not in YARDSTICKS for one in found))
    return found


def look(number: int) -> Look:
    """Return the look of the policy of this number; where colours repeat, their dashes differ."""
    turn, place = divmod(number, len(PALETTE))
    return Look(PALETTE[place], DASHES[(number + turn) % len(DASHES)], MARKERS[place])


@contextmanager
def drawing() -> Iterator[None]:
    """Draw in our style, whatever the user's settings of matplotlib are; these are restored afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def titled_figure(title: str, size_in: tuple[float, float]) -> Figure:
    """Return an empty figure with a bold title that makes room for all its labels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size_in, layout="constrained")
    figure.suptitle(title, fontsize=11, fontweight="bold", x=0.012, ha="left")
    return figure


NAMELESS = {
    "png": {"Software": "Slacktide"},
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}
"""Metadata of pictures: nothing that differs from one drawing to the next."""


def save_picture(make: Callable[[], Figure], path: str | os.PathLike[str], dots_per_in: float = 120) -> None:
    """Draw a figure in our style on white, into a file in the format of its ending.

    Raises InputError for an ending that is not known, and FileError when the file cannot be written.
    """
    kind, buffer = picture_format(path), io.BytesIO()
    with drawing():
        figure = make()
        figure.set_facecolor(PAPER)
        figure.savefig(buffer, format=kind, dpi=dots_per_in, metadata=NAMELESS[kind])
    write_whole(path, buffer.getvalue())


def drawable(text: str, limit: int = 0) -> str:
    """Return text that the picture's font can show; other characters become a question mark."""
    known = _charmap()
    return "".join(char if ord(char) in known else "?" for char in words.plain(text, limit))


@cache
def _charmap() -> frozenset[int]:
    from matplotlib.font_manager import findfont
    from matplotlib.ft2font import FT2Font

    return frozenset(FT2Font(findfont("DejaVu Sans")).get_charmap())


def short_names(policies: Iterable[str], limit: int = 44) -> dict[str, str]:
    """Give each policy a short name: `ahap`, or `ahap (window 3)` where another one is an `ahap` too.

    Only the parameters in which policies of the same name differ are shown.
    """
    names = list(dict.fromkeys(policies))
    alike = Counter(_stem(name) for name in names)
    short = {name: _stem(name) for name in names}
    for stem in (stem for stem, count in alike.items() if count > 1):
        short |= _distinguished([name for name in names if _stem(name) == stem])
    # Names that are still the same, because their parameters could not be read, are not shortened.
    twice = Counter(short.values())
    return {name: drawable(said if twice[said] == 1 else name, limit) for name, said in short.items()}


def _stem(name: str) -> str:
    return name.partition("(")[0].strip() or name


def _distinguished(names: Sequence[str]) -> dict[str, str]:
    """Name policies of the same stem by the parameters in which they differ."""
    settings = {name: _parameters(name) for name in names}
    differ = [
        key
        for key in dict.fromkeys(key for found in settings.values() for key in found)
        if len({found.get(key) for found in settings.values()}) > 1
    ]
    said = {
        name: ", ".join(f"{key.replace('_', ' ')} {found[key]}" for key in differ if key in found)
        for name, found in settings.items()
    }
    return {name: f"{_stem(name)} ({differs})" if differs else _stem(name) for name, differs in said.items()}


def _parameters(name: str) -> dict[str, str]:
    """Read the parameters of `ahap(window=3,inner=other(a=1))`; an inner comma does not separate them."""
    depth, parts = 0, [""]
    for char in name.partition("(")[2].removesuffix(")"):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    pairs = (part.partition("=") for part in parts if "=" in part)
    return {key.strip(): value.strip() for key, _, value in pairs}


def log_scale(ax: Axes, *, x: str = "", y: str = "", base: float = 10) -> None:
    """Give each axis that gets a label here a log scale, and say so in the label."""
    if x:
        ax.set_xscale("log", base=base)
        ax.set_xlabel(f"{x} (log scale)")
    if y:
        ax.set_yscale("log", base=base)
        ax.set_ylabel(f"{y} (log scale)")


def percent_ticks(axis: Axis, most: int = 7, *, signed: bool = False) -> None:
    """Label an axis of shares with at most about this many round percentages; no label is rounded."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(most, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(lambda share, _: f"{100 * share:{'+' if signed and share else ''}.4g}%")


def duration_ticks(axis: Axis) -> None:
    """Label the ticks of an axis of hours as `2h30m`, and its minor ticks not at all."""
    axis.set_major_formatter(lambda hours, _: format_duration(round(hours * 3600) / 3600))
    axis.set_minor_formatter(lambda hours, _: "")


TICK_MINUTES = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 4320, 10080, 20160, 40320)


def tick_hours(end: float, most: int = 10) -> list[float]:
    """Return round times from the start to the end, at most this many."""
    fitting = [minutes / 60 for minutes in TICK_MINUTES if end / (minutes / 60) <= most]
    step = fitting[0] if fitting else end / most
    if end < TICK_MINUTES[0] / 60:
        step = end / 4
    return [number * step for number in range(int(end / step + 1e-9) + 1)]


def tick_labels(hours: Iterable[float], start: datetime) -> list[str]:
    """Label ticks with the time since the start, the UTC clock below it, and the date where it changes."""
    since = [round(tick * 3600, 3) for tick in hours]
    begin = start.astimezone(UTC).replace(microsecond=0)
    times = [begin + timedelta(seconds=seconds) for seconds in since]
    clock = "%H:%M:%S" if any(time.second for time in times) else "%H:%M"
    labels: list[str] = []
    for place, (seconds, time) in enumerate(zip(since, times, strict=True)):
        new_day = place == 0 or time.date() != times[place - 1].date()
        date = f"\n{time:%a} {time.day} {time:%b}" if new_day else ""
        labels.append(f"{format_duration(seconds / 3600) if seconds else 'start'}\n{time:{clock}}{date}")
    return labels


def time_axis(ax: Axes, end: float, *, start: datetime | None) -> None:
    """Give an axis the shared time ticks; labels only where a start is given."""
    ticks = tick_hours(end)
    ax.set_xlim(0.0, end * 1.015)
    ax.set_xticks(ticks, tick_labels(ticks, start) if start else [""] * len(ticks))
    ax.tick_params(axis="x", length=3 if start else 0)
    ax.grid(axis="x")
