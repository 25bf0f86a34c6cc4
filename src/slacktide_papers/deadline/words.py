"""What came out of the experiments, in plain words; every number is read from the rows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slacktide.core.units import format_usd
from slacktide.report import words
from slacktide.report.text.tables.grid import Column, Grid
from slacktide_papers.deadline.gains import BEST
from slacktide_papers.deadline.rows import Chosen, Gain, Point, Reproduction

PAPER_GAIN = "54.8 %"

TITLES = {
    "tightness": "1. How tight the deadline is",
    "volatility": "2. How volatile the market is",
    "noise": "3. How good the forecast is",
    "parameters": "4. What the parameters of AHAP do",
    "selection": "5. Does the online selection find the right policy?",
}
QUESTIONS = {
    "tightness": "The same job is given more and more time. Each point is a mean over many starts.",
    "volatility": (
        "One market is made calmer and wilder: its swings of capacity, its price moves, jumps and outages "
        "are multiplied. Next to it are markets made after measured ones. The deadline is the usual one."
    ),
    "noise": (
        "AHAP is shown the true future with an error: a share of the true value (magnitude) or of the mean "
        "(fixed), uniform or heavy-tailed of the same mean size. Policies without forecasts are level lines."
    ),
    "parameters": (
        "Window, commitment and price threshold are varied one at a time, with four qualities of forecast. "
        "In the last panel AHANP's threshold is varied, too."
    ),
    "selection": (
        "Jobs come one after another; a policy is drawn from the paper's pool for each and, when it is over, "
        "all of them are replayed on its market. In two scenarios the world changes half-way."
    ),
}


def percent(share: float) -> str:
    """Write a share with one digit, and a sign."""
    if not math.isfinite(share):
        return words.NOTHING
    return f"{'−' if share < 0 else '+'}{abs(share):,.1%}".replace("%", " %")


def headline(result: Reproduction) -> list[str]:
    """Return the sentences at the top: our results compared with the paper's."""
    best = [gain for gain in result.gains if gain.challenger == BEST]
    most = ", ".join(f"{percent(gain.largest)} above {gain.baseline}" for gain in best)
    sentences = [
        f"The paper reports utility up to {PAPER_GAIN} above a baseline. Here the better of AHAP (with ARIMA "
        f"forecasts) and AHANP lies at most {most}."
    ]
    sentences += [
        f"Above {gain.baseline}: at most {percent(gain.largest)} ({gain.where}), typically "
        f"{percent(gain.typical)}, ahead at {words.percent(gain.ahead_share)} of {gain.points} points."
        for gain in best
    ]
    names = dict.fromkeys(gain.challenger for gain in result.gains if gain.challenger.startswith("selection"))
    return [*sentences, *(_selected(result, name) for name in names), CAUTION]


CAUTION = (
    "How large such a percentage is depends on the value given to a result: with one worth little more than "
    "its on-demand bill, on-demand earns next to nothing and any saving looks huge against it. The last "
    "column of the table measures gains by the clairvoyant's utility instead: that depends on the value, "
    "too, but is never near nothing."
)


def _selected(result: Reproduction, name: str) -> str:
    found = [gain for gain in result.gains if gain.challenger == name]
    parts = ", ".join(
        f"{percent(gain.largest)} above {gain.baseline} (typically {percent(gain.typical)})" for gain in found
    )
    return f"Online {name}, what learning costs included: at most {parts}."


def gains_grid(gains: Sequence[Gain]) -> Grid:
    """Return the table of all gains."""
    columns = (
        Column("challenger", right=False), Column("baseline", right=False), Column("largest"),
        Column("where", right=False), Column("typical"), Column("ahead at"), Column("of clairvoyant's"),
    )  # fmt: skip
    rows = tuple(
        (
            gain.challenger,
            gain.baseline,
            percent(gain.largest),
            gain.where or words.NOTHING,
            percent(gain.typical),
            f"{words.percent(gain.ahead_share)} of {gain.points}",
            percent(gain.typical_points),
        )
        for gain in gains
    )
    return Grid(columns, rows)


def points_grid(points: Sequence[Point]) -> Grid:
    """Return one panel's shares of the clairvoyant's utility: a line per series, a column per place."""
    places = [label for _, label in sorted({(point.x, point.x_label) for point in points})]
    found = {(point.series, point.x_label): point.share for point in points}
    names = dict.fromkeys(point.series for point in points)
    rows = tuple((name, *(share_text(found.get((name, place))) for place in places)) for name in names)
    return Grid((Column(points[0].panel, right=False), *(Column(place) for place in places)), rows)


def panels(points: Sequence[Point]) -> list[list[Point]]:
    """Return the points panel by panel."""
    names = dict.fromkeys(point.panel for point in points)
    return [[point for point in points if point.panel == name] for name in names]


def share_text(share: float | None) -> str:
    """Write a share with one digit, without a sign."""
    return words.NOTHING if share is None else f"{share:.1%}".replace("%", " %").replace("-", "−")


def chosen_grid(chosen: Sequence[Chosen]) -> Grid:
    """Return how each scenario of the selection ended."""
    columns = (
        Column("scenario", right=False), Column("rate", right=False), Column("drawn"), Column("last quarter"),
        Column("best fixed"), Column("best of last quarter"), Column("blind"), Column("trust in the good"),
        Column("regret"), Column("bound"), Column("best fixed policy", right=False),
    )  # fmt: skip
    rows = tuple(
        (
            one.scenario, one.rate, format_usd(one.utility_usd), format_usd(one.late_utility_usd),
            format_usd(one.best_usd), format_usd(one.late_best_usd), format_usd(one.pool_usd),
            words.percent(one.good_weight), f"{one.regret:.2f}", f"{one.paper_bound:.2f}", one.best,
        )
        for one in chosen
    )  # fmt: skip
    return Grid(columns, rows)
