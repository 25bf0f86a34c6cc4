"""The headline: how far the paper's policies lie above each baseline, at most and typically."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from slacktide_papers.deadline import rows
from slacktide_papers.deadline.rows import Chosen, Gain, Point

BEST = "best of AHAP and AHANP"  # of those that need no knowledge of the future: AHAP with ARIMA, and AHANP
STRONGEST = "the best baseline"  # whichever earns the most in the place in question
LEAST_SHARE = 0.05
"""A baseline that earns less than this share of the clairvoyant's utility is no measure of a gain."""


class Pair(NamedTuple):
    """A challenger's and a baseline's mean utility in the same place."""

    where: str
    challenger_usd: float
    baseline_usd: float
    most_usd: float  # the clairvoyant's utility, or the best known where there is none


def gains(points: Iterable[Point], chosen: Iterable[Chosen]) -> list[Gain]:
    """Compare every challenger with every baseline over all points of tightness and volatility."""
    situations = _situations(points)
    found = [
        _gain(challenger, baseline, [_pair(one, challenger, baseline) for one in situations])
        for challenger in (BEST, rows.AHAP_ARIMA, rows.AHAP_NOISY, rows.AHANP)
        for baseline in (*rows.BASELINES, STRONGEST)
    ]
    ends = list(chosen)
    return found + [
        _gain(name, baseline, [_selected(one, baseline) for one in ends if one.rate == rate])
        for rate, name in rows.SELECTIONS.items()
        for baseline in (*rows.BASELINES, STRONGEST)
    ]


def _situations(points: Iterable[Point]) -> list[dict[str, Point]]:
    """Put together what was measured in the same place."""
    found: dict[tuple[str, str, float], dict[str, Point]] = {}
    for point in points:
        if point.experiment in (rows.TIGHTNESS, rows.VOLATILITY):
            found.setdefault((point.experiment, point.panel, point.x), {})[point.series] = point
    return list(found.values())


def _pair(situation: dict[str, Point], challenger: str, baseline: str) -> Pair:
    usual = rows.BASELINES if baseline == STRONGEST else (baseline,)
    base = max((situation[name] for name in usual), key=lambda point: point.utility_usd)
    names = (rows.AHAP_ARIMA, rows.AHANP) if challenger == BEST else (challenger,)
    best = max(situation[name].utility_usd for name in names)
    where = f"{base.experiment}: {base.panel}, {base.x_label}"
    return Pair(where, best, base.utility_usd, base.clairvoyant_usd)


def _selected(one: Chosen, baseline: str) -> Pair:
    usual = dict(
        zip(rows.BASELINES, (one.on_demand_usd, one.maximal_spot_usd, one.uniform_progress_usd), strict=True)
    )
    usual[STRONGEST] = max(usual.values())
    return Pair(f"selection: {one.scenario}", one.utility_usd, usual[baseline], one.best_usd)


def _gain(challenger: str, baseline: str, pairs: Sequence[Pair]) -> Gain:
    kept = [pair for pair in pairs if pair.baseline_usd >= LEAST_SHARE * pair.most_usd > 0]
    shares = [pair.challenger_usd / pair.baseline_usd - 1.0 for pair in kept]
    top = max(range(len(kept)), key=shares.__getitem__, default=None)
    differences = [(pair.challenger_usd - pair.baseline_usd) / pair.most_usd for pair in pairs]
    return Gain(
        challenger,
        baseline,
        largest=math.nan if top is None else shares[top],
        where="" if top is None else kept[top].where,
        typical=median(shares) if shares else math.nan,
        ahead_share=sum(difference > 0 for difference in differences) / len(differences),
        typical_points=median(differences),
        points=len(pairs),
        left_out=len(pairs) - len(kept),
    )
