"""What a later deadline, another width, other work or more checkpoints would change in a plan's cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.physics.truth import LEAST, MOST, Truth
from slacktide.policies.view import Policy
from slacktide.results.plan import CheckpointAdvice, CurvePoint, HeldAt, Range, WrongWork
from slacktide.results.run import Run, column
from slacktide.simulation.plan.outcomes import standard_error
from slacktide.simulation.plan.planned_job import PlannedJob, Variant, could_be_in_time

DEADLINE_SHARES = (0.85, 1.0, 1.125, 1.25, 1.5)
WIDTH_SHARES = (0.5, 0.625, 0.75, 0.875, 1.0)
ROUND_HOURS = 0.25  # deadlines are tried at whole quarters of an hour
WORK_SEED = 2  # for the order in which futures get their amounts of work


def against_deadline(planned: PlannedJob, policy: Policy) -> tuple[CurvePoint, ...]:
    now, most = planned.job.deadline_hours, planned.widths[-1]
    if math.isinf(now):
        return ()
    variants = [Variant(_rounded(now, share), most) for share in DEADLINE_SHARES]
    runs = planned.run_variants(variants, policy)
    return _curve(now, {one.deadline_hours: found for one, found in runs.items()})


def against_width(planned: PlannedJob, policy: Policy) -> tuple[CurvePoint, ...]:
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
        more_error_usd=standard_error(more),
    )


def if_work_is_wrong(
    jobs: Sequence[Job], futures: int, run: Callable[[Sequence[Truth]], Sequence[Run]]
) -> WrongWork | None:
    """Run each future with another amount of work; None where the file says that its figure is right.

    `jobs` is the job as it is in each pool that it may use. The amounts are log-normal with the file's
    spread: evenly spaced quantiles, in random order.
    """
    spread = jobs[0].work_spread
    if spread == 0.0:
        return None
    truths = [Truth(work=work) for work in amounts(spread, futures)]
    runs = run(truths)
    hopeless = [not any(could_be_in_time(truth.of(job)) for job in jobs) for truth in truths]
    p10, p50, p90 = (float(each) for each in np.percentile(column(runs, "cost_usd"), (10, 50, 90)))
    on_time_share = float(np.sum(column(runs, "on_time"))) / futures
    return WrongWork(spread, Range(p10, p50, p90), on_time_share, sum(hopeless) / futures)


def amounts(spread: float, count: int) -> list[float]:
    """Return that many factors on the work: quantiles for a spread, in random order, within limits."""
    normal = NormalDist(0.0, math.log1p(spread))
    factors = [math.exp(normal.inv_cdf((place + 0.5) / count)) for place in range(count)]
    order = np.random.default_rng(WORK_SEED).permutation(count)
    return [min(max(factors[place], LEAST), MOST) for place in order]


ASSUMED_TAKES_HOURS = 30 / 3600
"""How long a checkpoint is assumed to take if the file does not say: about ten gigabytes to a cloud disk."""


def advise(
    job: Job, pool: Pool, held: Sequence[HeldAt], takes_hours: float | None = None
) -> CheckpointAdvice | None:
    """Advise the interval that costs least, by Young 1974: sqrt(2 * cost of saving * time between losses).

    `held` is what the plan would hold. None where it holds no spot, or where its market never took any.
    """
    gpus = min(usual_spot_gpus(held), int(pool.spot_gpus.max()))
    between = hours_between_losses(pool, gpus) if gpus else None
    if between is None:
        return None
    takes = ASSUMED_TAKES_HOURS if takes_hours is None else takes_hours
    return CheckpointAdvice(
        every_hours=min(between, math.sqrt(2.0 * takes * between)),
        spot_gpus=gpus,
        hours_between_losses=between,
        takes_hours=takes,
        takes_assumed=takes_hours is None,
    )


def usual_spot_gpus(held: Sequence[HeldAt]) -> int:
    """Return how many spot GPUs are usually held: the mean over GPU-hours of spot; 0 where there are none."""
    spot = np.array([each.spot_gpus for each in held])
    return max(1, round(float(spot @ spot / spot.sum()))) if spot.any() else 0


def hours_between_losses(pool: Pool, gpus: int) -> float | None:
    """Return how long that many spot GPUs last on average in a pool's past; None where none were taken."""
    up = pool.spot_gpus[:-1] >= gpus
    losses = int((up & (pool.spot_gpus[1:] < gpus)).sum())
    return float(up.sum()) * pool.slot_hours / losses if losses else None
