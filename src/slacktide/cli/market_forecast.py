"""`slacktide market forecast`: which forecaster to trust on a market, and how far ahead."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from slacktide.cli import options as common
from slacktide.errors import InputError, shown

if TYPE_CHECKING:
    from slacktide.forecast.score import Score, Scores
    from slacktide.market.base import Market
    from slacktide.register import Spec

USUAL = "harmonic,seasonal"
"""Those that need no extra and no patience; `arima` is asked for by name."""
SHOWN = 6
"""How many horizons a table has room for; JSON has all."""


class Share(click.ParamType[float]):
    """A share written as 30% or 0.3."""

    name = "share"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
        except ValueError:
            share = -1.0
        if not 0.0 <= share < 1.0:
            self.fail(f"a share must be written 30% or 0.3 and be less than 1, got {shown(text)}", param, ctx)
        return share


def compare(found: Market, texts: tuple[str, ...], horizon: int, warmup: float) -> list[Scores]:
    """Score the forecasters a user named on every pool."""
    from slacktide.forecast.score import named, score

    wanted = named(specs(texts))
    with common.Bar("forecasting") as bar:
        scored = []
        for number, pool in enumerate(found.pools):
            bar(number, len(found))
            scored.append(score(pool, wanted, horizon=horizon, warmup_share=warmup))
    return scored


def specs(texts: tuple[str, ...]) -> list[Spec]:
    """Read `--forecaster`: names with commas between them, or `{name: {parameter: value}}`."""
    import yaml

    found: list[Spec] = []
    for text in texts or (USUAL,):
        if not text.lstrip().startswith("{"):
            found += [name.strip() for name in text.split(",") if name.strip()]
            continue
        try:
            found.append(yaml.safe_load(text))
        except yaml.YAMLError as error:
            raise InputError(
                f"--forecaster must be names or {{name: {{parameter: value}}}}, got {shown(text)}"
            ) from error
    return found


def as_json(found: Market, each: list[Scores], warmup: float) -> dict[str, Any]:
    """Return scores in the documented keys."""
    from slacktide.forecast.score import overall
    from slacktide.report.sentences.forecast import best, verdicts

    def document(scores: Scores) -> dict[str, Any]:
        return {
            **asdict(scores),
            "best_availability": best(scores, "availability"),
            "best_price": best(scores, "price"),
            "verdicts": verdicts(scores),
        }

    return {
        "source": found.source,
        "assumptions": list(found.assumptions),
        "warmup_share": warmup,
        "overall": document(overall(each)),
        "pools": [document(scores) for scores in each],
    }


def print_scores(found: Market, each: list[Scores]) -> None:
    """Print the mean over pools, then what it means."""
    from slacktide.forecast.score import overall
    from slacktide.report.sentences.forecast import verdicts

    scores = overall(each) if len(each) > 1 else each[0]
    common.show(
        _table(found, scores, "availability"),
        _table(found, scores, "price"),
        "error: mean absolute error; in brackets how much of persistence's error is avoided",
        "right: how often it was right about 'at least half of the most GPUs', at the last horizon",
        *verdicts(scores),
        *(f"{one.forecaster} knows the future: for experiments only" for one in _cheats(scores)),
        *(f"{one.forecaster}: {note}" for one in scores.scores for note in one.notes),
        *(f"assumed: {sentence}" for sentence in found.assumptions),
    )


def _cheats(scores: Scores) -> list[Score]:
    return [one for one in scores.scores if one.knows_the_future]


def _table(found: Market, scores: Scores, what: str) -> Any:
    from rich.table import Table

    from slacktide.units import format_duration

    places = horizons_shown(scores.horizon)
    unit = "spot GPUs" if what == "availability" else "USD per GPU-hour"
    title = f"{what} of {found.source}, {scores.pool}: error in {unit}, {scores.slots:,} forecasts"
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
