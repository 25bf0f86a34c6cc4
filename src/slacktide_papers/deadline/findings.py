"""What each experiment showed, in a sentence or two per panel; every number is read from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from slacktide.report import words
from slacktide_papers.deadline.rows import AHANP, AHAP_ARIMA, BASELINES, Chosen, Point, Reproduction
from slacktide_papers.deadline.words import panels, percent, share_text


def finding(experiment: str, result: Reproduction) -> list[str]:
    """Say in a sentence or two per panel what an experiment showed."""
    if experiment == "selection":
        names = dict.fromkeys(one.scenario for one in result.chosen)
        return [_scenario([one for one in result.chosen if one.scenario == name]) for name in names]
    points = [point for point in result.points if point.experiment == experiment]
    describe = {"noise": _noise, "parameters": _parameter}.get(experiment, _contest)
    return [describe(panel) for panel in panels(points)]


def _contest(points: Sequence[Point]) -> str:
    """Say who leads, and where the paper's policies are most and least ahead of the best baseline."""
    means = _means(points)
    leader = max(means, key=lambda name: means[name])
    ours = max((AHAP_ARIMA, AHANP), key=lambda name: means[name])
    usual = max(BASELINES, key=lambda name: means[name])
    ahead = {x: _best(points, x, (AHAP_ARIMA, AHANP)) - _best(points, x, BASELINES) for x in _labels(points)}
    high, low = max(ahead, key=lambda x: ahead[x]), min(ahead, key=lambda x: ahead[x])
    return (
        f"{points[0].panel}: on average {leader} earns the most, {share_text(means[leader])} of the "
        f"clairvoyant's utility. Of the paper's policies that need no knowledge of the future {ours} earns "
        f"{share_text(means[ours])}; of the baselines {usual} {share_text(means[usual])}. The better of the "
        f"former is most ahead of the best baseline at {high} ({percent(ahead[high])} of the clairvoyant's "
        f"utility) and least at {low} ({percent(ahead[low])})."
    )


def _means(points: Sequence[Point]) -> dict[str, float]:
    names = dict.fromkeys(point.series for point in points)
    return {name: mean(point.share for point in points if point.series == name) for name in names}


def _labels(points: Sequence[Point]) -> list[str]:
    return list(dict.fromkeys(point.x_label for point in points))


def _best(points: Sequence[Point], label: str, names: Sequence[str]) -> float:
    return max(point.share for point in points if point.x_label == label and point.series in names)


def _noise(points: Sequence[Point]) -> str:
    low, high = min(point.x for point in points), max(point.x for point in points)
    ends = {(point.series, point.x): point.share for point in points}
    noisy = [name for name in dict.fromkeys(point.series for point in points) if name.startswith("AHAP")]
    without = {name: share for (name, x), share in ends.items() if x == high and name not in noisy}
    best = max(without, key=lambda name: without[name])
    falls = ", ".join(f"{name.removeprefix('AHAP, ')} {share_text(ends[name, high])}" for name in noisy)
    return (
        f"{points[0].panel}: with perfect forecasts AHAP earns {share_text(ends[noisy[0], low])} of the "
        f"clairvoyant's utility; with errors of {words.percent(high)}: {falls}. The best policy without "
        f"forecasts, {best}, earns {share_text(without[best])}."
    )


def _parameter(points: Sequence[Point]) -> str:
    parts = []
    for name in dict.fromkeys(point.series for point in points):
        mine = [point for point in points if point.series == name]
        best, worst = max(mine, key=lambda point: point.share), min(mine, key=lambda point: point.share)
        parts.append(
            f"{name} is best at {best.x_label} ({share_text(best.share)}) and worst at {worst.x_label} "
            f"({share_text(worst.share)})"
        )
    return f"{points[0].panel}: {'; '.join(parts)}."


def _scenario(ends: Sequence[Chosen]) -> str:
    """Say how one scenario went with either rate."""
    first = ends[0]
    parts = [
        f"with {'the paper’s' if one.rate == 'paper' else 'our'} rate it came to "
        f"{share_text(one.utility_usd / one.best_usd)} of the best fixed policy's utility over all jobs, and "
        f"over the last quarter to {share_text(one.late_utility_usd / one.late_best_usd)} of what was best "
        f"then (regret {one.regret:.2f}; {words.percent(one.good_weight)} of the trust in policies within "
        f"1 % of it)"
        for one in ends
    ]
    return (
        f"{first.scenario}: {'; '.join(parts)}. Drawn blindly: {share_text(first.pool_usd / first.best_usd)}"
        f". The regret may be at most {first.paper_bound:.1f} after {first.jobs} jobs."
    )
