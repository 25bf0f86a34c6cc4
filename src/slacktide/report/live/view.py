"""The live view of a run: market, GPUs held, progress against the line, spend, and what happened last."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slacktide.report import words
from slacktide.report.live.glyphs import ASCII, FANCY, Glyphs
from slacktide.report.live.rows import HEALTH_STYLE, Standing, line_of, rows_of, trimmed

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.text import Text

STATUS_STYLE = {
    "succeeded": "green", "failed": "bold red", "deadline_missed": "bold red", "cancelled": "yellow",
}  # fmt: skip
LAST_LINES = 8
LAST_ROWS = 10  # long lines of what happened take two rows; all together take no more than these
NARROW = 56  # on a terminal narrower than this every job is a row, however few they are
INDENT = " " * 18  # below the sentence of a line, which stands after its time and its actor


@dataclass(frozen=True, slots=True)
class Frame:
    """One picture of the live view; it fits itself to the width it is given, whatever that is."""

    standings: Sequence[Standing]
    lines: Sequence[str]
    speed: float = 1.0
    note: str = ""  # what is to be said above all else, such as that the run is being stopped

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        glyphs = ASCII if options.ascii_only else FANCY
        width = options.max_width
        if len(self.standings) == 1 and width >= NARROW:
            yield _whole(self, self.standings[0], glyphs, width)
        else:
            yield from (line_of(one, glyphs, width) for one in self.standings)
        if self.note:
            yield _cut(f" {self.note}", "bold yellow")
        yield from (_cut(row) for row in _last_rows(self.lines, width))


def frame(
    standings: Sequence[Standing], lines: Sequence[str], *, speed: float = 1.0, note: str = ""
) -> RenderableType:
    """Return the view of these jobs, with the last lines of what happened below."""
    return Frame(tuple(standings), tuple(lines), speed, note)


def _whole(view: Frame, one: Standing, glyphs: Glyphs, width: int) -> RenderableType:
    """Draw one job in full, in a frame of its own."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel

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
    from rich.text import Text

    state = words.state(one.status, one.health)
    return Text.assemble(
        (words.plain(one.name, 30), "bold"),
        glyphs.dot,
        words.plain(one.policy, 40),
        glyphs.dot,
        (state, STATUS_STYLE.get(one.status) or HEALTH_STYLE.get(one.health, "")),
    )


def _clock(one: Standing, speed: float) -> Text:
    from rich.text import Text

    fast = f", {speed:g} times as fast" if speed != 1 else ""
    within = "" if words.open_ended(one.job) else f" of {words.duration(one.job.deadline_hours)}"
    return Text(f"{words.since(one.hours)}{within}{fast}")


def _last_rows(lines: Sequence[str], width: int) -> list[str]:
    """Return the last lines, those that are too long in two rows; the reason must not be what is cut off."""
    if width < NARROW:
        return list(lines[-LAST_LINES:])
    fit = textwrap.TextWrapper(
        width, subsequent_indent=INDENT, max_lines=2, placeholder=" ...", break_on_hyphens=False
    )
    rows = [row for line in lines[-LAST_LINES:] for row in fit.wrap(line)]
    return rows[-LAST_ROWS:]


def _cut(line: str, style: str = "") -> Text:
    from rich.text import Text

    return trimmed(Text(line, style))
