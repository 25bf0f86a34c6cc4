"""The assumptions of a plan, as the sentences that it prints."""

from __future__ import annotations

import math

from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.market.pools.statistics import stock_outs_said
from slacktide.simulation.plan.futures import PoolFutures
from slacktide.simulation.plan.planned_job import PlannedJob

AFTER = {
    "stop": "a job that is not done at its deadline checkpoints and stops (after_deadline: stop)",
    "finish-cheaply": "work left at the deadline runs on spot while there is some, otherwise on demand on "
    "the narrowest width (after_deadline: finish-cheaply)",
    "finish-fast": "work left at the deadline runs on demand, as fast as possible (after_deadline: "
    "finish-fast)",
}
"""What becomes of work that is left at the deadline."""
GUARDED = "the deadline is hard: every policy runs behind the deadline guard"


def in_one_pool(
    planned: PlannedJob, futures: PoolFutures, history_runs: int, needing: float
) -> tuple[str, ...]:
    """Say what the plan of a job in one pool assumes; `needing` is the share of futures using on demand."""
    job, begin = planned.job, planned.start
    words = [
        futures.assumption,
        recent_starts(history_runs, begin.recent_window(job).hours, job),
        _restart(job),
        f"on-demand GPUs are always available, at the last price seen: {_stock_outs(job, begin.place)}; "
        f"{_without_on_demand(needing)}",
    ]
    if not begin.reaches_back(job):
        words.append(
            "the market's record before the start is shorter than the deadline: the recent starts lie in the "
            "whole record, what comes after the start included"
        )
    if job.hard:
        words.append(GUARDED)
    after = AFTER[job.after_deadline]
    words.append(after.replace("checkpoints and ", "") if math.isinf(job.checkpoint_hours) else after)
    if 0 < job.checkpoint_hours < math.inf:
        words.append(
            f"a loss of spot takes back the work since the last checkpoint, "
            f"at most {job.checkpoint_hours * 60:g} min of it"
        )
    return (*words, *begin.market.assumptions)


def _stock_outs(job: Job, place: Pool) -> str:
    """Say how often on demand was out of stock before the start, where that is recorded."""
    if place.on_demand_gpus is None:
        return "this market does not record when they ran out"
    found = stock_outs_said([(place, job.fastest_width)])
    return f"before the start there were {found}" if found else "before the start they never ran out"


def _without_on_demand(needing: float) -> str:
    """Say in how many futures a job depends on on-demand GPUs."""
    if needing == 0.0:
        return "in none of the simulated futures does the job need any"
    share = f"in {needing:.0%} of the simulated futures"
    return f"{share} the job needs some, and may be late if there are none then"


def recent_starts(runs: int, window_hours: float, job: Job) -> str:
    """Say where recent starts lie, and how many starts that share no slot they are worth."""
    lie = f"the {runs} recent starts lie in the last {window_hours / 24:.3g} days"
    worth = max(1, min(runs, int(window_hours / job.deadline_hours)))
    if worth == runs:
        return f"{lie}, far enough apart to hardly overlap"
    independent = "one independent one" if worth == 1 else f"{worth} independent ones"
    return f"{lie} and overlap: they are worth about {independent}"


def over_pools(planned: PlannedJob, futures: PoolFutures) -> tuple[str, ...]:
    """Say what the plan of a job that may move assumes."""
    job, pools = planned.job, len(planned.options.pools)
    found = stock_outs_said(planned.options.widths)
    size = f"{job.checkpoint_gb:g} GB" if job.checkpoint_gb else "0 GB, because its file does not say `size:`"
    words = [
        f"{len(futures.options)} futures were run: few, because a run over pools takes up to two seconds",
        futures.assumption,
        f"a job is in one of {pools} pools at a time, and a move carries its checkpoint of {size}",
        _restart(job),
        "what every pool offers is known when it decides, and on-demand GPUs are always available"
        + (f"; before the start there were {found}" if found else ""),
        AFTER[job.after_deadline],
    ]
    if job.hard:
        words.append(GUARDED)
    return (*words, *planned.start.market.assumptions)


def _restart(job: Job) -> str:
    minutes = f"{job.restart_hours * 60:g} min"
    return f"after workers are added there is no progress for {minutes}, which is paid for"
