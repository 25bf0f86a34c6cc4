"""The live view of a run: market, GPUs held, progress against the line, spend, and what happened last."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.text import Text

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.results.status import Standing

SPOT_STYLE, ON_DEMAND_STYLE = "bright_cyan", "dark_orange"
HEALTH_STYLE = {
    "measuring": "cyan", "on-time": "green", "at-risk": "yellow", "late-expected": "bold yellow",
    "late": "bold red",
}  # fmt: skip
LABEL_WIDTH = 11
SMALLEST_BAR = 8
STATUS_STYLE = {
    "succeeded": "green", "failed": "bold red", "deadline_missed": "bold red", "cancelled": "yellow",
}  # fmt: skip
LAST_LINES = 8
LAST_ROWS = 10  # how many rows the last events take at most; a long one takes two
NARROW = 56  # on a terminal narrower than this even a single job is one row
INDENT = " " * 18  # of an event's second row, so that it begins below the sentence, after time and actor


class Glyphs(NamedTuple):
    """The characters that a view is drawn with."""

    levels: str  # from nothing to full, for small bars side by side
    spot: str
    on_demand: str
    free: str
    done: str
    left: str
    line: str  # where the straight line to the deadline stands
    dot: str
    minus: str


FANCY = Glyphs(" ▁▂▃▄▅▆▇█", "■", "▣", "·", "━", "─", "┃", " · ", "−")
ASCII = Glyphs(" .:-=+*#@", "#", "O", ".", "=", "-", "|", " - ", "-")


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture of the live view: jobs, and the last lines of what happened; it fits any width."""

    standings: Sequence[Standing]
    lines: Sequence[str]
    speed: float = 1.0
    note: str = ""  # shown below the jobs in bold, such as that the run is being stopped

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        glyphs = ASCII if options.ascii_only else FANCY
        width = options.max_width
        if len(self.standings) == 1 and width >= NARROW:
            yield _whole(self, self.standings[0], glyphs, width)
        else:
            yield from (line_of(one, glyphs, width) for one in self.standings)
        if self.note:
            yield trimmed(Text(f" {self.note}", "bold yellow"))
        yield from (trimmed(Text(row)) for row in _last_rows(self.lines, width))


def _whole(view: Frame, one: Standing, glyphs: Glyphs, width: int) -> RenderableType:
    return Panel(
        Group(*rows_of(one, glyphs, width - 4)),
        box=box.ROUNDED,
        title=_title(one, glyphs),
        title_align="left",
        subtitle=_clock(one, view.speed),
        subtitle_align="right",
        width=width,
    )


def _title(one: Standing, glyphs: Glyphs) -> Text:
    state = words.state(one.status, one.health)
    style = STATUS_STYLE.get(one.status) or HEALTH_STYLE.get(one.health, "")
    name, policy = words.plain(one.name, 30), words.plain(one.policy, 40)
    return Text.assemble((name, "bold"), glyphs.dot, policy, glyphs.dot, (state, style))


def _clock(one: Standing, speed: float) -> Text:
    fast = f", {speed:g} times as fast" if speed != 1 else ""
    within = "" if words.open_ended(one.job) else f" of {words.duration(one.job.deadline_hours)}"
    return Text(f"{words.since(one.hours)}{within}{fast}")


def _last_rows(lines: Sequence[str], width: int) -> list[str]:
    """Return the last lines, too long ones in two rows, so that the reason at their end is not cut off."""
    if width < NARROW:
        return list(lines[-LAST_LINES:])
    fit = textwrap.TextWrapper(
        width, subsequent_indent=INDENT, max_lines=2, placeholder=" ...", break_on_hyphens=False
    )
    rows = [row for line in lines[-LAST_LINES:] for row in fit.wrap(line)]
    return rows[-LAST_ROWS:]


def _price(one: Standing, glyphs: Glyphs, room: int) -> tuple[str, Text]:
    quote = one.quotes[-1]
    listed = quote.on_demand_usd_per_gpu_hour
    usd = [past.spot_usd_per_gpu_hour for past in one.quotes]
    text = f"{format_usd(quote.spot_usd_per_gpu_hour)} per GPU-hour, on demand {format_usd(listed)}"
    drawn = sparkline(_last(usd, room - len(text) - 2), max(listed, *usd), glyphs)
    return "spot price", Text.assemble(text, "  ", (drawn, SPOT_STYLE))


def _offer(one: Standing, glyphs: Glyphs, room: int) -> tuple[str, Text]:
    gpus, widest = [float(past.spot_gpus) for past in one.quotes], one.job.max_gpus
    offered = one.quotes[-1].spot_gpus
    text = f"{words.count(offered, 'GPU')} available" if offered else "none available"
    drawn = sparkline(_last(gpus, room - len(text) - 2), float(widest), glyphs)
    return "spot", Text.assemble(text, "  ", (drawn, SPOT_STYLE))


def _held(one: Standing, glyphs: Glyphs, room: int) -> tuple[str, Text]:
    where = f" in {words.plain(one.pool, 40)}" if one.may_move else ""
    says = f"{words.holding(one.spot_gpus, one.on_demand_gpus)} of {words.widths(one.job)}{where}"
    counts = blocks(
        one.spot_gpus, one.on_demand_gpus, one.job.max_gpus, max(SMALLEST_BAR, room - len(says) - 2)
    )
    return "GPUs held", Text.assemble(
        (glyphs.spot * counts[0], SPOT_STYLE),
        (glyphs.on_demand * counts[1], ON_DEMAND_STYLE),
        (glyphs.free * counts[2], "dim"),
        f"  {says}",
    )


def _progress(one: Standing, glyphs: Glyphs, room: int) -> tuple[str, Text]:
    ahead = one.progress_gpu_hours - one.job.line_gpu_hours(one.hours)
    side = "ahead of" if ahead >= 0 else "behind"
    to_line = f", {words.gpu_hours(abs(ahead))} GPU-hours {side} the line"
    says = words.percent(one.share) + (" (estimated)" if one.estimated else "")
    says += "" if words.open_ended(one.job) else to_line
    drawn = drawn_bar(one, glyphs, max(SMALLEST_BAR, room - len(says) - 2))
    return "progress", Text.assemble(drawn, f"  {says}")


def drawn_bar(one: Standing, glyphs: Glyphs, room: int) -> Text:
    """Draw the work done, with a mark where the straight line to the deadline stands."""
    done, left, mark = bar(one.share, one.line_share, room)
    ahead = one.share >= one.line_share
    drawn = Text(glyphs.done * done, "green" if ahead else "yellow")
    drawn.append(glyphs.left * left, "dim")
    if mark is None or words.open_ended(one.job):
        return drawn
    return Text.assemble(drawn[:mark], (glyphs.line, "bold"), drawn[mark + 1 :])


def _spend(one: Standing) -> tuple[str, Text]:
    text = Text.assemble((format_usd(one.cost_usd), "bold"))
    if one.spot_usd > 0 and one.on_demand_usd > 0:
        text.append(f" ({format_usd(one.spot_usd)} spot + {format_usd(one.on_demand_usd)} on demand)")
    if one.job.max_cost_usd is not None:
        text.append(f" of at most {format_usd(one.job.max_cost_usd)}")
    return "spend", text


def _projected(one: Standing) -> list[tuple[str, Text]]:
    """Say when the job will be done and what it will cost, at its pace so far."""
    if one.projected_hours is None or one.projected_usd is None or one.status not in words.GOING:
        return []
    text = Text(f"done at about {words.rounded(one.projected_hours)}, {format_usd(one.projected_usd)}")
    late = one.projected_hours - one.job.deadline_hours
    if late > 0:
        text.append(f", {words.rounded(late)} late", HEALTH_STYLE["late"])
    how = "with on-demand GPUs from now on" if late >= 0 else "as it went so far"
    return [("outlook", text.append(f" ({how})"))]


def _against_on_demand(one: Standing, glyphs: Glyphs) -> list[tuple[str, Text]]:
    """Compare what was spent with what the same work would have cost on demand alone."""
    if one.on_demand_alone_usd is None:
        return []
    alone = one.on_demand_alone_usd * min(one.share, 1.0)
    text = Text(f"{format_usd(alone)} for this work on demand alone")
    if alone > 0:
        apart = one.cost_usd / alone - 1
        sign = glyphs.minus if apart < 0 else "+"
        text.append(f" ({sign}{words.percent(abs(apart))})", "green" if apart <= 0 else "yellow")
    return [("compare", text)]


def _metrics(one: Standing) -> list[tuple[str, Text]]:
    said = ", ".join(f"{name} {value:.4g}" for name, value in one.metrics.items())
    return [("metrics", Text(words.plain(said)))] if said else []


def line_of(one: Standing, glyphs: Glyphs, width: int) -> Text:
    """Draw a job as one line: its state, a bar of its progress, and the money."""
    room_for_name = 18 if width >= 72 else 10
    name = words.plain(one.name, room_for_name)
    held = f"{one.spot_gpus}+{one.on_demand_gpus}"
    share = f"{'~' if one.estimated else ''}{words.percent(one.share)}"
    says = f" {share:>5}  {held:>5} GPUs  {format_usd(one.cost_usd):>9}"
    says += f"  {words.since(one.hours):>7}"
    style = HEALTH_STYLE.get(one.health, "") if one.status in words.GOING else ""
    room = width - len(says) - room_for_name - 15
    text = Text.assemble(
        f" {name:<{room_for_name}} ",
        (f"{words.state(one.status, one.health):<12} ", style),
        drawn_bar(one, glyphs, room) if room >= SMALLEST_BAR else "",
        says,
    )
    return trimmed(text)


def rows_of(one: Standing, glyphs: Glyphs, width: int) -> list[Text]:
    """Return a job in full: market, offer, GPUs held, progress, spend, and metrics if there are some."""
    room = width - LABEL_WIDTH
    rows = [_price(one, glyphs, room), _offer(one, glyphs, room), _held(one, glyphs, room)]
    rows += [_progress(one, glyphs, room), _spend(one), *_projected(one), *_against_on_demand(one, glyphs)]
    rows += _metrics(one)
    return [trimmed(Text.assemble((f"{label:<{LABEL_WIDTH}}", "dim"), text)) for label, text in rows]


def trimmed(text: Text) -> Text:
    """Let a line end at the terminal's edge: a view that changes its height would jump."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _last(values: Sequence[float], count: int) -> Sequence[float]:
    return values[-count:] if count > 0 else ()


def sparkline(values: Sequence[float], most: float, glyphs: Glyphs) -> str:
    """Draw values as small bars between 0 and `most`; any value above 0 is visible."""
    top = len(glyphs.levels) - 1
    if most <= 0:
        return glyphs.levels[0] * len(values)
    steps = [round(top * min(max(value, 0.0), most) / most) for value in values]
    return "".join(
        glyphs.levels[max(step, 1) if value > 0 else 0] for step, value in zip(steps, values, strict=True)
    )


def blocks(spot_gpus: int, on_demand_gpus: int, widest: int, room: int) -> tuple[int, int, int]:
    """Return how many of `room` characters stand for spot, on-demand and free GPUs.

    One for each GPU where they fit; otherwise in proportion, with at least one for each kind that is held.
    """
    if widest <= room:
        return spot_gpus, on_demand_gpus, max(0, widest - spot_gpus - on_demand_gpus)
    spot = max(round(room * spot_gpus / widest), 1 if spot_gpus else 0)
    on_demand = max(round(room * on_demand_gpus / widest), 1 if on_demand_gpus else 0)
    return spot, on_demand, max(0, room - spot - on_demand)


def bar(share: float, line_share: float, room: int) -> tuple[int, int, int | None]:
    """Return the cells done and left of a bar, and the cell of the line's mark; None in too short a bar."""
    done = min(room, int(room * min(max(share, 0.0), 1.0) + 1e-9))
    if room < 3:
        return done, room - done, None
    return done, room - done, min(room - 1, int(room * min(max(line_share, 0.0), 1.0)))
