"""Where a job stands, row by row: the pieces of the live view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slacktide.core.quotes import Quote
from slacktide.core.types import Job
from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.live.glyphs import Glyphs, bar, blocks, sparkline

if TYPE_CHECKING:
    from rich.text import Text

SPOT_STYLE, ON_DEMAND_STYLE = "bright_cyan", "dark_orange"
HEALTH_STYLE = {
    "measuring": "cyan",
    "on-time": "green",
    "at-risk": "yellow",
    "late-expected": "bold yellow",
    "late": "bold red",
}
LABEL_WIDTH = 11
SMALLEST_BAR = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a job stands at a moment: all that the view shows of it."""

    name: str
    job: Job
    policy: str
    pool: str
    status: str
    health: str
    hours: float  # since the job began, on the market's clock
    quotes: Sequence[Quote]  # what the market offered in the last slots, the present one last
    spot_gpus: int = 0
    on_demand_gpus: int = 0
    progress_gpu_hours: float = 0.0
    estimated: bool = False  # whether progress is estimated from time and width, because the job reports none
    spot_usd: float = 0.0
    on_demand_usd: float = 0.0
    on_demand_alone_usd: float | None = None  # what the whole work would cost all on demand
    metrics: Mapping[str, float] = field(default_factory=dict)
    projected_hours: float | None = None
    """When the job will be done if it goes on as so far; None while that cannot be said."""
    projected_usd: float | None = None  # what it will have cost by then
    may_move: bool = False  # whether it may move to another pool
    move_usd: float = 0.0  # what moves have cost, in addition to its GPUs

    @property
    def share(self) -> float:
        """The share of the work done."""
        return self.progress_gpu_hours / self.job.work_gpu_hours

    @property
    def line_share(self) -> float:
        """The share of the work that the straight line to the deadline requires by now."""
        return self.job.line_gpu_hours(self.hours) / self.job.work_gpu_hours

    @property
    def cost_usd(self) -> float:
        return self.spot_usd + self.on_demand_usd + self.move_usd


def _price(one: Standing, glyphs: Glyphs, room: int) -> tuple[str, Text]:
    from rich.text import Text

    quote = one.quotes[-1]
    listed = quote.on_demand_usd_per_gpu_hour
    usd = [each.spot_usd_per_gpu_hour for each in one.quotes]
    text = f"{format_usd(quote.spot_usd_per_gpu_hour)} per GPU-hour, on demand {format_usd(listed)}"
    drawn = sparkline(_last(usd, room - len(text) - 2), max(listed, *usd), glyphs)
    return "spot price", Text.assemble(text, "  ", (drawn, SPOT_STYLE))


def _offer(one: Standing, glyphs: Glyphs, room: int) -> tuple[str, Text]:
    from rich.text import Text

    gpus, widest = [float(each.spot_gpus) for each in one.quotes], one.job.max_gpus
    offered = one.quotes[-1].spot_gpus
    text = f"{words.count(offered, 'GPU')} available" if offered else "none available"
    drawn = sparkline(_last(gpus, room - len(text) - 2), float(widest), glyphs)
    return "spot", Text.assemble(text, "  ", (drawn, SPOT_STYLE))


def _held(one: Standing, glyphs: Glyphs, room: int) -> tuple[str, Text]:
    from rich.text import Text

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
    from rich.text import Text

    ahead = one.progress_gpu_hours - one.job.line_gpu_hours(one.hours)
    side = "ahead of" if ahead >= 0 else "behind"
    to_line = f", {words.gpu_hours(abs(ahead))} GPU-hours {side} the line"
    says = words.percent(one.share) + (" (estimated)" if one.estimated else "")
    says += "" if words.open_ended(one.job) else to_line
    drawn = drawn_bar(one, glyphs, max(SMALLEST_BAR, room - len(says) - 2))
    return "progress", Text.assemble(drawn, f"  {says}")


def drawn_bar(one: Standing, glyphs: Glyphs, room: int) -> Text:
    """Draw the work done, with a mark where the straight line to the deadline stands."""
    from rich.text import Text

    done, left, mark = bar(one.share, one.line_share, room)
    ahead = one.share >= one.line_share
    drawn = Text(glyphs.done * done, "green" if ahead else "yellow")
    drawn.append(glyphs.left * left, "dim")
    if mark is None or words.open_ended(one.job):
        return drawn
    return Text.assemble(drawn[:mark], (glyphs.line, "bold"), drawn[mark + 1 :])


def _spend(one: Standing) -> tuple[str, Text]:
    from rich.text import Text

    text = Text.assemble((format_usd(one.cost_usd), "bold"))
    if one.spot_usd > 0 and one.on_demand_usd > 0:
        text.append(f" ({format_usd(one.spot_usd)} spot + {format_usd(one.on_demand_usd)} on demand)")
    if one.job.max_cost_usd is not None:
        text.append(f" of at most {format_usd(one.job.max_cost_usd)}")
    return "spend", text


def _projected(one: Standing) -> list[tuple[str, Text]]:
    """Say when the job will be done and what it will cost, if it goes on as so far."""
    from rich.text import Text

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
    from rich.text import Text

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
    from rich.text import Text

    if not one.metrics:
        return []
    return [
        (
            "metrics",
            Text(words.plain(", ".join(f"{name} {value:.4g}" for name, value in one.metrics.items()))),
        )
    ]


def line_of(one: Standing, glyphs: Glyphs, width: int) -> Text:
    """Draw a job as one line: how it stands, a bar, and the money."""
    from rich.text import Text

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
    return [_labelled(label, text) for label, text in rows]


def _labelled(label: str, text: Text) -> Text:
    from rich.text import Text

    return trimmed(Text.assemble((f"{label:<{LABEL_WIDTH}}", "dim"), text))


def trimmed(text: Text) -> Text:
    """Let a line end at the terminal's edge: a view that changes its height would jump."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _last(values: Sequence[float], count: int) -> Sequence[float]:
    return values[-count:] if count > 0 else ()
