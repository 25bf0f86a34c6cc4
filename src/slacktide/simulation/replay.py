"""What every policy of a pool would have earned from a job that is over.

The market's path did not depend on us, so each policy can be run on it again, with the forecasts that
could be made at the time: the forecaster sees the same past in the replay as it did in the run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.types import TIME_TOLERANCE_HOURS, Job
from slacktide.market.base import Pool
from slacktide.market.forecast.base import forecast_table
from slacktide.physics import progress as physics
from slacktide.policies.base import Context, RulePolicy
from slacktide.policies.view import Policy
from slacktide.simulation import batch, plain
from slacktide.simulation.plain import USUAL, Setting
from slacktide.simulation.policy_runs import guarded


class Replayed(NamedTuple):
    """What each arm would have earned from one job, in the order of the arms."""

    utility_usd: Floats  # value less cost
    shares: Floats  # the same between the least and the most that the job could bring, in [0, 1]


def replay(
    job: Job, pool: Pool, start: int, policies: Mapping[str, Policy], setting: Setting = USUAL
) -> Replayed:
    """Run every policy on a job's market path: compiled where it can be, behind the guard where it must."""
    plain.check_start(job, pool, start)
    terms, true = physics.terms(job), physics.terms(setting.truth.at(start).of(job))
    context = Context(forecast_table(setting.forecaster, pool, setting.horizon))
    bills = np.empty((len(policies), 2))
    for row, policy in enumerate(policies.values()):
        acting = batch.prepare(guarded(policy, job), job, pool, start, setting)
        if batch.can_compile(acting, pool) and isinstance(acting, RulePolicy):
            bills[row] = batch.run_rule(job, terms, true, pool, acting, context, [start])[0, :2]
        else:
            run = plain.run(job, pool, acting, start=start, setting=setting)
            bills[row] = run.cost_usd, run.finish_hours
    cost, finish = bills.T
    utility = np.array([job.value_at(hours) for hours in finish]) - cost
    return Replayed(utility, _shares(job, pool, start, utility, finish))


def bounds_usd(job: Job, pool: Pool, start: int) -> tuple[float, float]:
    """Return the least and the most that a job on this path can bring.

    The least is all GPUs on demand at the path's greatest price until the result is worthless,
    and nothing to show for it; the most is the value for nothing.
    """
    hours = job.deadline_hours if job.hard else float(job.worthless_after_hours or job.deadline_hours)
    slots = math.ceil(hours / pool.slot_hours - TIME_TOLERANCE_HOURS)
    highest_usd = float(pool.on_demand_usd_per_gpu_hour[start : start + slots].max())
    return -highest_usd * job.max_gpus * hours, job.value_usd


def _shares(job: Job, pool: Pool, start: int, utility: Floats, finish: Floats) -> Floats:
    least, most = bounds_usd(job, pool, start)
    if most <= least:  # free GPUs and a worthless result: all arms are the same
        return np.ones(len(utility))
    # A job that runs on after it is worthless, or on spot above the on-demand price, can fall below it.
    shares = np.clip((utility - least) / (most - least), 0.0, 1.0)
    if job.hard:
        # A missed hard deadline is a failure, however cheap it was.
        shares[finish > job.deadline_hours + TIME_TOLERANCE_HOURS] = 0.0
    return np.asarray(shares)
