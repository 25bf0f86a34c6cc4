"""Forecasters as tables, sentences and JSON: how far off each was, which to trust, and how far ahead.

Persistence is named wherever it wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from slacktide.core.units import format_duration
from slacktide.report import words

if TYPE_CHECKING:
    from rich.table import Table

    from slacktide.market.forecast.score import Score, Scores
    from slacktide.results.comparison import Forecasts

SHOWN = 6  # how many horizons a table has room for; JSON has all
CLEARLY = 0.01  # a forecaster must have this much less error than persistence before it is called better


def page(found: Forecasts) -> list[Any]:
    """Return things to print: the mean over pools, then what it means."""
    scores, source = found.summary, found.market.source
    return [
        _table(source, scores, "availability"),
        _table(source, scores, "price"),
        "error: mean absolute error; in brackets how much of persistence's error is avoided",
        "right: how often it was right about 'at least half of the most GPUs', at the last horizon",
        *verdicts(scores),
        *(
            f"{one.forecaster} knows the future: for experiments only"
            for one in scores.scores
            if one.knows_the_future
        ),
        *(f"{one.forecaster}: {note}" for one in scores.scores for note in one.notes),
        *(f"assumed: {sentence}" for sentence in found.market.assumptions),
    ]


def _table(source: str, scores: Scores, what: str) -> Table:
    from rich.table import Table

    places = horizons_shown(scores.horizon)
    unit = "spot GPUs" if what == "availability" else "USD per GPU-hour"
    title = f"{what} of {source}, {scores.pool}: error in {unit}, {scores.slots:,} forecasts"
    table = Table(title=title, title_justify="left")
    table.add_column("forecaster", no_wrap=True)
    for place in places:
        table.add_column(_ahead(scores, place + 1), justify="right", no_wrap=True)
    if what == "availability":
        table.add_column("right", justify="right")
    for one in scores.scores:
        table.add_row(one.forecaster, *_cells(one, what, places))
    return table


def _cells(one: Score, what: str, places: list[int]) -> list[str]:
    available = what == "availability"
    errors = one.gpus_error if available else one.price_error_usd
    cells = []
    for place in places:
        gain = skills(one, what)[place]
        known = gain is None or one.forecaster == "persistence"
        cells.append(f"{errors[place]:.3g}" + ("" if known else f" ({gain:+.0%})"))
    return [*cells, f"{one.enough_share[-1]:.0%}"] if available else cells


def horizons_shown(horizon: int) -> list[int]:
    """Return which horizons a table shows: the next slot, the last, and some between."""
    steps = max(1, min(SHOWN, horizon) - 1)
    return sorted({round(number * (horizon - 1) / steps) for number in range(steps + 1)})


def as_json(found: Forecasts) -> dict[str, Any]:
    """Return scores under the documented keys."""
    return {
        "source": found.market.source,
        "assumptions": list(found.market.assumptions),
        "warmup_share": found.warmup_share,
        "overall": _document(found.overall),
        "pools": [_document(scores) for scores in found.pools],
    }


def _document(scores: Scores) -> dict[str, Any]:
    winners = {f"best_{what}": best(scores, what) for what in ("availability", "price")}
    return {**asdict(scores), **winners, "verdicts": verdicts(scores)}


def verdicts(scores: Scores) -> list[str]:
    """Return one sentence on availability and one on the price, without forecasters that know the future."""
    return [_sentence(scores, "availability"), _sentence(scores, "price")]


def skills(score: Score, what: str) -> Sequence[float | None]:
    """Return a score's skill by horizon, for `availability` or `price`."""
    return score.gpus_skill if what == "availability" else score.price_skill


def best(scores: Scores, what: str) -> list[str]:
    """Return for each horizon the best forecaster that does not know the future, if it beats persistence."""
    rivals = [one for one in scores.scores[1:] if not one.knows_the_future]
    winners = []
    for ahead in range(scores.horizon):
        found = {one.forecaster: skills(one, what)[ahead] or 0.0 for one in rivals}
        name = max(found, key=lambda one: found[one], default="persistence")
        winners.append(name if found.get(name, 0.0) > CLEARLY else "persistence")
    return winners


def _sentence(scores: Scores, what: str) -> str:
    if all(skill is None for skill in skills(scores.scores[0], what)):
        return f"the {what} never moved where it was scored: persistence is exact"
    said = ""
    slot = 0
    for name, run in groupby(best(scores, what)):
        first, slot = slot + 1, slot + len(list(run))
        where = _span(scores, first, slot) + _gain(scores, name, what, slot)
        said += f", then {name} {where}" if said else f"{name} is the best {what} forecast {where}"
    return said


def _gain(scores: Scores, name: str, what: str, slot: int) -> str:
    if name == "persistence":
        return ""
    score = next(one for one in scores.scores if one.forecaster == name)
    less = skills(score, what)[slot - 1] or 0.0
    return f" ({words.percent(less)} less error at {_ahead(scores, slot)})"


def _span(scores: Scores, first: int, last: int) -> str:
    begin, end = _ahead(scores, first), _ahead(scores, last)
    if first == 1:
        return f"at every horizon up to {end}" if last == scores.horizon else f"up to {end} ahead"
    return f"at {begin}" if first == last else f"from {begin} to {end}"


def _ahead(scores: Scores, slots: int) -> str:
    return format_duration(round(slots * scores.slot_hours * 60, 2) / 60)
