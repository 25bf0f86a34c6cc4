"""What a plan's figures become if the file is wrong about the work, as far as it leaves open."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np

from slacktide.core.types import Job
from slacktide.physics.truth import LEAST, MOST, Truth
from slacktide.results.plan import Range, WrongWork
from slacktide.results.run import Run
from slacktide.results.runs import column
from slacktide.simulation.plan.variants import could_be_in_time

SEED = 2


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
    """Return this many factors on the work, as they may be expected with a spread."""
    normal = NormalDist(0.0, math.log1p(spread))
    factors = [math.exp(normal.inv_cdf((place + 0.5) / count)) for place in range(count)]
    order = np.random.default_rng(SEED).permutation(count)
    return [min(max(factors[place], LEAST), MOST) for place in order]
