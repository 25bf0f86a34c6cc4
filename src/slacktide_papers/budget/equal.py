"""Comparison of policies at equal bills: ratios of response times at the same average of GPUs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import median

import numpy as np

from slacktide_papers.budget import rows
from slacktide_papers.budget.cases import IDEAL_NAME
from slacktide_papers.budget.rows import Contest, Cost, Point, Ratio

LEAST_MULTIPLE, MOST_MULTIPLE = 1.1, 4.0
"""Bills that are summed up, in multiples of the load: below, all policies do almost the same."""
EPOCH_MULTIPLES = (1.6, 2.0, 2.4, 2.9, 3.4)
"""Bills at which all policies are compared where one ratio is split into its parts."""
COST_MULTIPLES = (1.5, 2.0, 3.0)
ROUNDING = 1e-9
REFERENCES = (rows.FIXED, rows.ONLINE)


def efficient(points: Iterable[Point]) -> list[Point]:
    """Keep the settings worth choosing: none other is both cheaper and faster.

    On real machines the curve of a policy may bend back: one long job alone on a node of eight GPUs costs
    more when it is made narrower.
    """
    kept: list[Point] = []
    for point in sorted(points, key=lambda point: (point.average_gpus, point.mean_hours)):
        if not kept or point.mean_hours < kept[-1].mean_hours:
            kept.append(point)
    return kept


def hours_at(
    points: Sequence[Point], average_gpus: float, bound_hours: float, field: str = "mean_hours"
) -> float | None:
    """Return a policy's hours at a bill between its efficient points, given the bound at that bill.

    Interpolates hours divided by the bound, which change more slowly with the bill than hours do, linearly in
    logarithms. Above the most expensive point its hours stay if more money would not help. None where nothing
    can be said: below the cheapest point, or above the most expensive if more would help.
    """
    known = efficient(points)
    if not known or average_gpus < known[0].average_gpus:
        return None
    if average_gpus > known[-1].average_gpus:
        helps = bound_hours < known[-1].bound_hours * (1.0 - ROUNDING)
        return None if helps else float(getattr(known[-1], field))
    bills = np.log([point.average_gpus for point in known])
    over = np.log([getattr(point, field) / point.bound_hours for point in known])
    return bound_hours * float(np.exp(np.interp(np.log(average_gpus), bills, over)))


def ratios(points: Iterable[Point]) -> list[Ratio]:
    """Compare every policy with those that plan widths, at each of its own bills."""
    found = []
    for group in grouped(points):
        for reference in REFERENCES:
            known = [point for point in group if point.series == reference]
            for series in dict.fromkeys(point.series for point in group if point.series != reference):
                others = efficient(point for point in group if point.series == series)
                found += [ratio for point in others if (ratio := _ratio(point, known)) is not None]
    return found


def _ratio(point: Point, known: Sequence[Point]) -> Ratio | None:
    mean, late = (
        hours_at(known, point.average_gpus, point.bound_hours, field) for field in ("mean_hours", "p95_hours")
    )
    if mean is None or late is None:
        return None
    return Ratio(
        point.experiment, point.panel, point.machines, point.series, known[0].series, point.average_gpus,
        point.load_multiple, point.mean_hours / mean, point.p95_hours / late,
    )  # fmt: skip


def ratios_at(points: Iterable[Point], multiples: Sequence[float] = EPOCH_MULTIPLES) -> list[Ratio]:
    """Compare every policy with fixed-width at the same few bills, so that their ratios can be compared."""
    found = []
    for group in grouped(points):
        load_gpus = group[0].average_gpus / group[0].load_multiple
        for series in dict.fromkeys(point.series for point in group if point.series != rows.FIXED):
            mine = [point for point in group if point.series == series]
            made = (_made(mine, group, multiple * load_gpus) for multiple in multiples)
            reference = [point for point in group if point.series == rows.FIXED]
            found += [one for point in made if point and (one := _ratio(point, reference)) is not None]
    return found


def _made(mine: Sequence[Point], group: Sequence[Point], bill_gpus: float) -> Point | None:
    """Return a policy's point at a bill, interpolated between its runs; None beyond them."""
    if bill_gpus > max(point.average_gpus for point in group):
        return None  # the bound there was not looked up, so whether more would help is not known
    bound = _bound_at(group, bill_gpus)
    mean, late = (hours_at(mine, bill_gpus, bound, field) for field in ("mean_hours", "p95_hours"))
    if mean is None or late is None:
        return None
    multiple = bill_gpus * mine[0].load_multiple / mine[0].average_gpus
    return mine[0]._replace(
        average_gpus=bill_gpus, load_multiple=multiple, mean_hours=mean, p95_hours=late, bound_hours=bound
    )


def contests(found: Iterable[Ratio], experiment: str = rows.AUTOSCALING) -> list[Contest]:
    """Sum up the ratios of an experiment with autoscalers."""
    groups: dict[tuple[str, str, str, str], list[Ratio]] = {}
    for one in found:
        if one.experiment == experiment and LEAST_MULTIPLE <= one.load_multiple <= MOST_MULTIPLE:
            groups.setdefault((one.panel, one.machines, one.series, one.reference), []).append(one)
    return [_contest(key, group) for key, group in groups.items()]


def _contest(key: tuple[str, str, str, str], group: Sequence[Ratio]) -> Contest:
    means = [one.mean_ratio for one in group]
    late = median(one.p95_ratio for one in group)
    return Contest(*key, len(group), min(means), median(means), max(means), late)


def costs(points: Iterable[Point]) -> list[Cost]:
    """Compare each policy with itself on ideal machines, at a few bills."""
    found = []
    mine = [point for point in points if point.experiment == rows.MACHINES]
    for group in grouped(mine):
        panel, machines = group[0].panel, group[0].machines
        ideal = [point for point in mine if point.panel == panel and point.machines == IDEAL_NAME]
        for series in dict.fromkeys(point.series for point in group):
            found += _costs(panel, machines, series, group, ideal)
    return found


def _costs(
    panel: str, machines: str, series: str, group: Sequence[Point], ideal: Sequence[Point]
) -> list[Cost]:
    load_gpus = group[0].average_gpus / group[0].load_multiple
    found = []
    for multiple in COST_MULTIPLES:
        bill = multiple * load_gpus
        bound = _bound_at([*group, *ideal], bill)
        hours, best, fixed = (
            hours_at([point for point in known if point.series == name], bill, bound)
            for known, name in ((group, series), (ideal, series), (group, rows.FIXED))
        )
        if hours is not None and best is not None and fixed is not None:
            found.append(Cost(panel, machines, series, multiple, hours, hours / best, hours / fixed))
    return found


def _bound_at(points: Iterable[Point], average_gpus: float) -> float:
    """Return the bound at a bill, interpolated between those of many runs; it falls and is convex."""
    known = sorted((point.average_gpus, point.bound_hours) for point in points)
    bills, hours = zip(*known, strict=True)
    return float(np.interp(average_gpus, bills, hours))


def grouped(points: Iterable[Point]) -> list[list[Point]]:
    """Return points that may be compared together: one experiment, one stream, the same machines."""

    def key(point: Point) -> tuple[str, str, str]:
        return point.experiment, point.panel, point.machines

    return [list(group) for _, group in groupby(points, key=key)]
