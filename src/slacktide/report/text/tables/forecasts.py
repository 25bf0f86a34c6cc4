"""Forecasters as tables: how far off each was, which to trust, and how far ahead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_duration
from slacktide.report.text.sentences.forecast import verdicts

if TYPE_CHECKING:
    from rich.table import Table

    from slacktide.market.forecast.score import Score, Scores
    from slacktide.results.forecasts import Forecasts

SHOWN = 6  # how many horizons a table has room for; JSON has all


def page(found: Forecasts) -> list[Any]:
    """Return things to print: the mean over pools, then what it means."""
    scores, source = found.summary, found.market.source
    return [
        _table(source, scores, "availability"),
        _table(source, scores, "price"),
        "error: mean absolute error; in brackets how much of persistence's error is avoided",
        "right: how often it was right about 'at least half of the most GPUs', at the last horizon",
        *verdicts(scores),
        *(f"{one.forecaster} knows the future: for experiments only" for one in _cheats(scores)),
        *(f"{one.forecaster}: {note}" for one in scores.scores for note in one.notes),
        *(f"assumed: {sentence}" for sentence in found.market.assumptions),
    ]


def _cheats(scores: Scores) -> list[Score]:
    return [one for one in scores.scores if one.knows_the_future]


def _table(source: str, scores: Scores, what: str) -> Table:
    from rich.table import Table

    places = horizons_shown(scores.horizon)
    unit = "spot GPUs" if what == "availability" else "USD per GPU-hour"
    title = f"{what} of {source}, {scores.pool}: error in {unit}, {scores.slots:,} forecasts"
    table = Table(title=title, title_justify="left")
    table.add_column("forecaster", no_wrap=True)
    for place in places:
        hours = round((place + 1) * scores.slot_hours * 60, 2) / 60
        table.add_column(format_duration(hours), justify="right", no_wrap=True)
    if what == "availability":
        table.add_column("right", justify="right")
    for one in scores.scores:
        table.add_row(one.forecaster, *_cells(one, what, places))
    return table


def _cells(one: Score, what: str, places: list[int]) -> list[str]:
    available = what == "availability"
    errors, skill = (one.gpus_error, one.gpus_skill) if available else (one.price_error_usd, one.price_skill)
    cells = []
    for place in places:
        gain = skill[place]
        known = gain is None or one.forecaster == "persistence"
        cells.append(f"{errors[place]:.3g}" + ("" if known else f" ({gain:+.0%})"))
    return [*cells, f"{one.enough_share[-1]:.0%}"] if available else cells


def horizons_shown(horizon: int) -> list[int]:
    """Return which horizons a table shows: the next slot, the last, and some between."""
    steps = max(1, min(SHOWN, horizon) - 1)
    return sorted({round(number * (horizon - 1) / steps) for number in range(steps + 1)})
