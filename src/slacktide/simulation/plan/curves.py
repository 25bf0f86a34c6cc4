"""What a later deadline, or another width, would change in the cost: the same simulated futures for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.policies.view import Policy
from slacktide.results.plan import CurvePoint
from slacktide.results.run import Run
from slacktide.results.runs import column
from slacktide.simulation.plan.variants import Planned, Variant

DEADLINE_SHARES = (0.85, 1.0, 1.125, 1.25, 1.5)
WIDTH_SHARES = (0.5, 0.625, 0.75, 0.875, 1.0)
ROUND_HOURS = 0.25
"""Deadlines are tried at whole quarters of an hour."""


def against_deadline(planned: Planned, policy: Policy) -> tuple[CurvePoint, ...]:
    """Return what the job would cost with nearer and later deadlines."""
    now, most = planned.job.deadline_hours, planned.widths[-1]
    if math.isinf(now):
        return ()
    variants = [Variant(_rounded(now, share), most) for share in DEADLINE_SHARES]
    runs = planned.run_variants(variants, policy)
    return _curve(now, {one.deadline_hours: found for one, found in runs.items()})


def against_width(planned: Planned, policy: Policy) -> tuple[CurvePoint, ...]:
    """Return what the job would cost with fewer GPUs at the most."""
    now, most = planned.job.deadline_hours, planned.widths[-1]
    tops = sorted({_top(planned.widths, share) for share in WIDTH_SHARES})
    runs = planned.run_variants([Variant(now, top) for top in tops], policy)
    return _curve(most, {float(one.most_gpus): found for one, found in runs.items()})


def _rounded(hours: float, share: float) -> float:
    if share == 1.0:
        return hours  # the job as it is, whatever its deadline: points are compared with it
    return max(ROUND_HOURS, round(hours * share / ROUND_HOURS) * ROUND_HOURS)


def _top(widths: Sequence[int], share: float) -> int:
    """Return the widest width that is at most this share of the widest, or the narrowest."""
    return max((n for n in widths if n <= share * widths[-1]), default=widths[0])


def _curve(now: float, runs: Mapping[float, Sequence[Run]]) -> tuple[CurvePoint, ...]:
    """Compare each point with the job as it is; nothing where that could not be in time."""
    costs = {at: column(found, "cost_usd") for at, found in sorted(runs.items())}
    return tuple(_point(at, usd, costs[now]) for at, usd in costs.items()) if now in costs else ()


def _point(at: float, usd: Floats, base: Floats) -> CurvePoint:
    more = usd - base
    return CurvePoint(
        at=at,
        mean_cost_usd=float(usd.mean()),
        p10_cost_usd=float(np.percentile(usd, 10)),
        p90_cost_usd=float(np.percentile(usd, 90)),
        more_usd=float(more.mean()),
        more_error_usd=float(more.std(ddof=1) / math.sqrt(len(more))),
    )
