"""Pictures of the experiments: one figure each, panels side by side, a policy known by its colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slacktide.report.figures.drawing.style import FAINT, INK, PALETTE, drawable
from slacktide_papers.deadline.rows import ON_DEMAND, Point, Reproduction, Step
from slacktide_papers.reproduction import png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAR = 0.1
"""Where on demand is this far below the others, it is written, not drawn, to leave the others room."""
X_LABELS = {
    "tightness": "deadline (the work takes 10 h on all 8 GPUs)",
    "volatility": "",
    "noise": "error of the forecast",
    "parameters": "",
}
BARS = "named markets"


def point_figure(points: Sequence[Point]) -> bytes:
    """Draw one experiment whose rows are points; returns a PNG."""
    panels = list(dict.fromkeys(point.panel for point in points))
    series = [name for name in dict.fromkeys(point.series for point in points) if name != ON_DEMAND]
    colours = {name: PALETTE[place % len(PALETTE)] for place, name in enumerate(series)}
    colours[ON_DEMAND] = FAINT

    def draw(figure: Figure) -> None:
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for ax, panel in zip(axes, panels, strict=True):
            _panel(ax, panel, [point for point in points if point.panel == panel], colours)
        axes[0].set_ylabel("mean utility, as a share of the clairvoyant's")
        shown = {line.get_label(): line for ax in reversed(axes) for line in ax.get_lines()}
        figure.legend(shown.values(), shown.keys(), loc="outside lower center", ncols=4)

    return png(draw, (11.0, 4.6))


def _panel(ax: Axes, panel: str, points: Sequence[Point], colours: dict[str, str]) -> None:
    ticks = {point.x: point.x_label for point in points}
    # Named markets, and values that lie ever further apart, are drawn at equal distances.
    even = points[0].experiment in ("tightness", "volatility")
    places = {x: float(turn) if even else x for turn, x in enumerate(sorted(ticks))}
    far = _far_below(points)
    for name, colour in colours.items():
        mine = sorted(point for point in points if point.series == name and point not in far)
        if mine:
            _line(ax, [places[point.x] for point in mine], mine, colour, joined=panel != BARS)
    ax.set_xticks(list(places.values()), [ticks[x] for x in places])
    ax.tick_params(axis="x", labelrotation=30 if len(ticks) > 5 or panel == BARS else 0)
    ax.set_title(drawable(panel, 40))
    ax.set_xlabel(X_LABELS[points[0].experiment])
    ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.grid(axis="both")
    if far:
        _write(ax, far)


def _line(ax: Axes, places: list[float], points: Sequence[Point], colour: str, *, joined: bool) -> None:
    shares = [point.share for point in points]
    style = "-" if joined else "none"
    ax.plot(places, shares, color=colour, marker="o", ms=4 if joined else 7, ls=style, label=points[0].series)
    low = [point.share - point.share_error for point in points]
    high = [point.share + point.share_error for point in points]
    if joined:
        ax.fill_between(places, low, high, color=colour, alpha=0.12, linewidth=0)
    else:
        ax.vlines(places, low, high, color=colour, alpha=0.5)


def _far_below(points: Sequence[Point]) -> list[Point]:
    """Return the points of on demand where they lie far below everything else."""
    usual = [point for point in points if point.series == ON_DEMAND]
    others = min(point.share for point in points if point.series != ON_DEMAND)
    return usual if usual and max(point.share for point in usual) < others - FAR else []


def _write(ax: Axes, points: Sequence[Point]) -> None:
    shares = [point.share for point in points]
    low, high = (f"{share:.0%}".replace("%", " %") for share in (min(shares), max(shares)))
    text = f"on demand, below: {low}" + (f" to {high}" if low != high else "")
    ax.text(0.02, 0.02, text, transform=ax.transAxes, color=FAINT, fontsize=8)


ROW_LABELS = (
    "mean utility per job\nless the best fixed one's, USD",
    "weight of the leader",
    "regret (scaled utility,\nlog scale from 0.1 on)",
)


def selection_figure(result: Reproduction) -> bytes:
    """Draw the selection: utility against the best fixed policy, trust, and regret; returns a PNG."""
    scenarios = list(dict.fromkeys(step.scenario for step in result.steps))

    def draw(figure: Figure) -> None:
        grid = figure.subplots(3, len(scenarios), sharex=True, sharey="row", squeeze=False)
        for column, scenario in enumerate(scenarios):
            steps = [step for step in result.steps if step.scenario == scenario]
            _money(grid[0][column], steps)
            _trust(grid[1][column], steps)
            _regret(grid[2][column], steps)
            grid[0][column].set_title(scenario)
            grid[2][column].set_xlabel("jobs")
        for row, label in enumerate(ROW_LABELS):
            grid[row][0].set_ylabel(label)
            grid[row][-1].legend(loc="upper left", bbox_to_anchor=(1.02, 1.0))

    return png(draw, (12.5, 7.6))


RATE_LOOKS = {"paper": ("paper's rate", PALETTE[0]), "own": ("our rate", PALETTE[1])}


def _rates(steps: Sequence[Step]) -> list[tuple[str, str, list[Step]]]:
    return [
        (label, colour, [step for step in steps if step.rate == rate])
        for rate, (label, colour) in RATE_LOOKS.items()
    ]


def _money(ax: Axes, steps: Sequence[Step]) -> None:
    for label, colour, mine in _rates(steps):
        ax.plot([s.jobs for s in mine], [s.utility_usd - s.best_usd for s in mine], color=colour, label=label)
    mine = _rates(steps)[0][2]
    blind = [s.pool_usd - s.best_usd for s in mine]
    ax.plot([s.jobs for s in mine], blind, color=FAINT, ls="--", label="drawn blindly")
    ax.axhline(0.0, color=INK, linewidth=0.8, label="best fixed policy")
    ax.grid(axis="both")


def _trust(ax: Axes, steps: Sequence[Step]) -> None:
    for label, colour, mine in _rates(steps):
        ax.plot([s.jobs for s in mine], [s.leader_weight for s in mine], color=colour, label=label)
    ax.set_ylim(0, 1.02)
    ax.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    ax.grid(axis="both")


def _regret(ax: Axes, steps: Sequence[Step]) -> None:
    for label, colour, mine in _rates(steps):
        ax.plot([s.jobs for s in mine], [s.regret for s in mine], color=colour, label=label)
    mine = _rates(steps)[0][2]
    bound = [s.paper_bound for s in mine]
    ax.plot([s.jobs for s in mine], bound, color=FAINT, ls="--", label="√(K ln M / 2)")
    ax.set_yscale("symlog", linthresh=0.1)
    ax.yaxis.set_major_formatter(lambda regret, _: f"{regret:g}")
    ax.grid(axis="both")
