"""Which forecast to trust how far ahead, in sentences; persistence is named wherever it wins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from slacktide.core.units import format_duration
from slacktide.market.forecast.score import Score, Scores
from slacktide.report import words

CLEARLY = 0.01  # a forecaster must have this much less error than persistence before it is called better


def verdicts(scores: Scores) -> list[str]:
    """Return one sentence about availability and one about the price, honest forecasters only."""
    return [_sentence(scores, "availability"), _sentence(scores, "price")]


def skills(score: Score, what: str) -> Sequence[float | None]:
    """Return a score's skill by horizon, for `availability` or `price`."""
    return score.gpus_skill if what == "availability" else score.price_skill


def best(scores: Scores, what: str) -> list[str]:
    """Return the name of the best honest forecaster for each horizon."""
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
    return f" ({words.percent(less)} less error at {_duration(slot * scores.slot_hours)})"


def _span(scores: Scores, first: int, last: int) -> str:
    ends = [_duration(slot * scores.slot_hours) for slot in (first, last)]
    if first == 1 and last == scores.horizon:
        return f"at every horizon up to {ends[1]}"
    if first == 1:
        return f"up to {ends[1]} ahead"
    return f"at {ends[0]}" if first == last else f"from {ends[0]} to {ends[1]}"


def _duration(hours: float) -> str:
    return format_duration(round(hours * 60, 2) / 60)
