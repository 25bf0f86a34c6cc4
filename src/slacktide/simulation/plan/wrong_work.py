"""What a plan's figures become if the file is wrong about the work, as far as it leaves open."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.physics.truth import LEAST, MOST, Truth
from slacktide.policies.view import Policy
from slacktide.results.plan import Range, WrongWork
from slacktide.results.runs import column
from slacktide.simulation import batch
from slacktide.simulation.plain import Setting
from slacktide.simulation.plan.curves import could_be_in_time

SEED = 2


def if_work_is_wrong(
    job: Job, futures: Sequence[Pool], ready: Sequence[Policy], start: int, setting: Setting
) -> WrongWork | None:
    """Run each future with another amount of work; None where the file says that its figure is right.

    The amounts are log-normal with the file's spread: evenly spaced quantiles, in random order.
    """
    if job.work_spread == 0.0:
        return None
    costs, on_time, hopeless = [], 0, 0
    for future, policy, work in zip(futures, ready, amounts(job.work_spread, len(futures)), strict=True):
        truth = Truth(work=work)
        one = dataclasses.replace(setting, truth=truth)
        runs = batch.run_ready(job, [future], [policy], start, setting=one)
        costs.append(float(column(runs, "cost_usd")[0]))
        on_time += bool(column(runs, "on_time")[0])
        hopeless += not could_be_in_time(truth.of(job))
    count = len(futures)
    p10, p50, p90 = (float(each) for each in np.percentile(costs, (10, 50, 90)))
    return WrongWork(job.work_spread, Range(p10, p50, p90), on_time / count, hopeless / count)


def amounts(spread: float, count: int) -> list[float]:
    """Return this many factors on the work, as they may be expected with a spread."""
    normal = NormalDist(0.0, math.log1p(spread))
    factors = [math.exp(normal.inv_cdf((place + 0.5) / count)) for place in range(count)]
    order = np.random.default_rng(SEED).permutation(count)
    return [min(max(factors[place], LEAST), MOST) for place in order]
