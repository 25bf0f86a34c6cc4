"""What the budget experiments showed, in sentences; every number is read from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from slacktide_papers.budget.cases import IDEAL_NAME
from slacktide_papers.budget.epoch_words import epoch_findings
from slacktide_papers.budget.rows import (
    FIXED,
    ONE_WIDTH,
    ONLINE,
    PER_APPLICATION,
    BudgetReproduction,
    Contest,
    Cost,
    Point,
    Ratio,
)
from slacktide_papers.budget.words import BANDS, CLAIMED, groups, times, verdict

ROUNDING = 1e-9  # below the bound by no more than this is rounding
TYPICAL_MULTIPLE = 2.0
LOW_BUDGET, HIGH_BUDGET = 1.1, 2.0
"""The budgets, in multiples of the load, of which the page says how well they were kept: with more, some
streams run as fast as possible."""


def headline(result: BudgetReproduction) -> list[str]:
    """Return the sentences at the top: what holds, and what does not."""
    autoscaling = [*_autoscaling(result), *_learned(result), *_restarts(result)]
    return [_formula(result), _bound(result), *autoscaling, *epoch_findings(result.epochs)]


def finding(experiment: str, result: BudgetReproduction) -> list[str]:
    """Say what an experiment showed, a sentence or two per stream."""
    points = [point for point in result.points if point.experiment == experiment]
    if experiment == "machines":
        return [_machine(result.costs, name) for name in dict.fromkeys(one.machines for one in result.costs)]
    if experiment == "epochs":
        return epoch_findings(result.epochs)
    ratios = [one for one in result.ratios if one.experiment == experiment and one.reference == FIXED]
    sentences = [_contest(group, ratios) for group in groups(points)]
    return [*sentences, *_missed(points)]


def _formula(result: BudgetReproduction) -> str:
    worst = max(result.checks, key=lambda one: abs(one.simulated_hours - one.formula_hours) / one.error_hours)
    off = abs(worst.simulated_hours - worst.formula_hours) / worst.error_hours
    over = max(one.over_bound for one in result.checks) - 1
    return (
        f"The optimum is what the formula says: over {len(result.checks)} budgets of "
        f"{len({one.panel for one in result.checks})} fleets the simulated mean is off by at most {off:.1f} "
        f"standard errors ({worst.panel}); for the jobs that really came it is at most "
        f"{_percent(over)} above the formula."
    )


def _bound(result: BudgetReproduction) -> str:
    below = [one for one in result.points if one.over_bound < 1 - ROUNDING]
    if below:
        worst = min(below, key=lambda one: one.over_bound)
        return (
            f"{len(below)} of {len(result.points)} runs lie below the frontier, the lowest by "
            f"{_percent(1 - worst.over_bound)} ({worst.series}, {worst.panel}): the theorem or "
            f"the simulation is wrong."
        )
    settled = (ONE_WIDTH, PER_APPLICATION)
    others = [one for one in result.points if FIXED not in one.series and one.series not in settled]
    best = min(others, key=lambda one: one.over_bound)
    return (
        f"No policy is below the frontier in {len(result.points)} runs. The nearest among those that queue "
        f"or resize is {best.series} ({best.knob}, {best.panel}, {best.machines}), "
        f"{_percent(max(0.0, best.over_bound - 1))} above it."
    )


def _autoscaling(result: BudgetReproduction) -> list[str]:
    low, high = CLAIMED
    sentences = [
        f"BOA Constrictor reports mean completion times {low:g} to {high:g} times lower than with "
        f"Pollux-style autoscaling at an equal budget. What came out here:"
    ]
    for machines in dict.fromkeys(one.machines for one in result.contests):
        for series in BANDS:
            mine = [one for one in result.contests if _is(one, machines, series, FIXED)]
            if mine:
                sentences.append(_claim(machines, series, mine))
    return sentences


def _learned(result: BudgetReproduction) -> list[str]:
    """Say what not knowing the stream costs, and whether autoscaling is still behind."""
    sentences = []
    for machines in dict.fromkeys(one.machines for one in result.contests):
        over = [one.median for one in result.contests if _is(one, machines, ONLINE, FIXED)]
        band = [one.median for one in result.contests if _is(one, machines, BANDS[0], ONLINE)]
        if over and band:
            sentences.append(
                f"Given nothing but the budget, with {machines}, {ONLINE} (which has to learn speedups, too) "
                f"takes {times(median(over))} as long as fixed-width at the same bill "
                f"(by stream {times(min(over))} to {times(max(over))}), and {BANDS[0]} takes "
                f"{times(median(band))} as long as {ONLINE} ({times(min(band))} to {times(max(band))})."
            )
    return sentences


def _is(one: Contest, machines: str, series: str, reference: str) -> bool:
    return (one.machines, one.series, one.reference) == (machines, series, reference)


def _claim(machines: str, series: str, mine: Sequence[Contest]) -> str:
    middle = median(one.median for one in mine)
    least, most = min(one.median for one in mine), max(one.median for one in mine)
    spread = f" ({times(least)} to {times(most)} by stream)" if len(mine) > 1 else ""
    greatest = max(mine, key=lambda one: one.greatest)
    return (
        f"With {machines}, {series}: jobs take {times(middle)} as long as with fixed-width at the same bill"
        f"{spread}, at most {times(greatest.greatest)} ({greatest.panel}); {verdict(middle, most)}"
    )


def _restarts(result: BudgetReproduction) -> list[str]:
    """Say on which machines the claimed ratio is reached."""
    mine = [one for one in result.costs if one.series in BANDS and one.load_multiple == TYPICAL_MULTIPLE]
    reached = [one for one in mine if one.over_fixed >= CLAIMED[0]]
    if not mine:
        return []
    if not reached:
        return [f"No machines that were tried bring the ratio to {CLAIMED[0]:g} at twice the load."]
    ratios = "; ".join(f"{one.machines} ({one.series}: {times(one.over_fixed)})" for one in reached)
    behind = [one for one in mine if one.over_fixed < 1]
    lost = "; ".join(f"{one.machines} ({one.series}: {times(one.over_fixed)})" for one in behind)
    return [
        f"At twice the load of {mine[0].panel} the ratio reaches {CLAIMED[0]:g} with {ratios}.",
        *([f"The band is ahead of fixed-width with {lost}."] if behind else []),
    ]


def _contest(points: Sequence[Point], ratios: Sequence[Ratio]) -> str:
    """Say how far each policy is from the optimum on one stream."""
    first = points[0]
    mine = [one for one in ratios if (one.panel, one.machines) == (first.panel, first.machines)]
    parts = []
    for series in dict.fromkeys(one.series for one in mine):
        found = [one.mean_ratio for one in mine if one.series == series]
        parts.append(f"{series} {times(median(found))} ({times(min(found))}–{times(max(found))})")
    machines = "" if first.machines == IDEAL_NAME else f", {first.machines}"
    return (
        f"{first.panel}{machines}: mean response over fixed-width's at the same bill, median and range over "
        f"all settings: {', '.join(parts)}."
    )


def _missed(points: Sequence[Point]) -> list[str]:
    """Say how far planning with wrong or unknown rates misses the budget, which equal bills hide."""
    sentences = []
    for group in groups(points):
        parts = []
        for series in (FIXED, f"{FIXED}, another stream's rates", ONLINE):
            spent = [one.average_gpus / one.asked_gpus - 1 for one in group if _is_reported(one, series)]
            if spent:
                parts.append(f"{series} {_percent(min(spent))} to {_percent(max(spent))}")
        if len(parts) > 1:
            sentences.append(
                f"{group[0].panel}, {group[0].machines}: bill over the requested budget, at budgets of "
                f"{LOW_BUDGET:g} to {HIGH_BUDGET:g} times the load: {', '.join(parts)}."
            )
    return sentences


def _is_reported(one: Point, series: str) -> bool:
    """Whether a run was given a budget that it could use up and keep."""
    budget = one.asked_gpus * one.load_multiple / one.average_gpus
    return one.series == series and LOW_BUDGET <= budget <= HIGH_BUDGET


def _machine(costs: Sequence[Cost], machines: str) -> str:
    mine = [one for one in costs if one.machines == machines and one.load_multiple == TYPICAL_MULTIPLE]
    parts = [
        f"{one.series} takes {times(one.over_ideal)} as long as with ideal machines"
        + (f" and {times(one.over_fixed)} as long as {FIXED}" if one.series != FIXED else "")
        for one in mine
    ]
    return f"{machines}, at twice the load: {'; '.join(parts) or 'no policy comes to this bill'}."


def _percent(share: float) -> str:
    digits = 1 if abs(share) >= 0.001 or abs(share) < ROUNDING else 4
    return f"{share:.{digits}%}".replace("%", " %").replace("-", "−")
