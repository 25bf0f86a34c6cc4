"""A back-test as data; docs/reference/json.md explains each key."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from slacktide.core.types import Job
from slacktide.physics.truth import AS_SAID, FACTORS, Truths
from slacktide.report.wire import values
from slacktide.results.run import Stay

if TYPE_CHECKING:
    from slacktide.market.base import Pool
    from slacktide.results.comparison import Comparison, PolicySummary
    from slacktide.results.run import Run


ROAMING_KEYS = ("pool", "mean_moves", "mean_move_usd")
"""Keys of a summary that only a back-test over pools has."""


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the back-test as plain values under documented keys; never NaN, never infinite."""
    pools = {pool.name: pool for pool in comparison.pools}
    truth = comparison.truth
    document: dict[str, Any] = {
        "job": _job(comparison.job),
        "market": _market(comparison),
        "runs": [
            {**_run(run, pools[run.pool]), **_moves(comparison, run), **_truth_of(run, truth)}
            for run in comparison.runs
        ],
        "summary": [_summary(comparison, one) for one in comparison.summary],
    }
    if comparison.roams:
        document["sight"] = comparison.sight
        document["fixed_pools"] = [_summary(comparison, one) for one in comparison.fixed]
    if truth != AS_SAID:
        document["truth"] = truth
    if comparison.clairvoyant_spare_usd is not None:
        document["clairvoyant_spare_usd"] = comparison.clairvoyant_spare_usd
    plain: dict[str, Any] = values.plain(document)
    return plain


def csv_text(comparison: Comparison) -> str:
    """Return one line per run under the same keys as the JSON; what is null there is empty here.

    Where a run was when is one cell: `us-east5-a 0..4.5; us-central1-a 5..11`, in hours.
    """
    return values.csv_text(_cells(run) for run in as_json(comparison)["runs"])


def _cells(run: dict[str, Any]) -> dict[str, Any]:
    cells = {**run, "on_time": "true" if run["on_time"] else "false"}
    if "stays" in run:
        ends = [(stay["pool"], stay["from_hours"], stay["to_hours"]) for stay in run["stays"]]
        cells["stays"] = "; ".join(
            f"{pool} {begin:.6g}..{'' if end is None else format(end, '.6g')}" for pool, begin, end in ends
        )
    return cells


def _summary(comparison: Comparison, one: PolicySummary) -> dict[str, Any]:
    found = dataclasses.asdict(one)
    if not comparison.roams:
        return {name: value for name, value in found.items() if name not in ROAMING_KEYS}
    return {**found, "pool": one.pool or None}


def _moves(comparison: Comparison, run: Run) -> dict[str, Any]:
    """Return where a job that may move was when, and what its moves cost."""
    if not comparison.roams:
        return {}
    pool = next(one.pool for one in comparison.summary if one.policy == run.policy)
    stays = [Stay(pool, 0.0, run.finish_hours)] if pool else run.stays
    found = {"stays": [stay._asdict() for stay in stays], "moves": run.moves, "move_usd": run.move_usd}
    return {**found, "pool": pool or None}


def _job(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "work_gpu_hours": float(job.work_gpu_hours),
        "deadline_hours": float(job.deadline_hours),
        "widths": [int(width) for width in job.widths],
        "restart_hours": float(job.restart_hours),
        "shrink_hours": job.shrink_hours,
        "checkpoint_hours": float(job.checkpoint_hours),
        "hard": job.hard,
        "value_usd": float(job.value_usd),
        "worthless_after_hours": job.worthless_after_hours,
        "max_cost_usd": job.max_cost_usd,
        "billing": job.billing,
        "speedup": repr(job.speedup),
    }


def _market(comparison: Comparison) -> dict[str, Any]:
    lengths = {float(pool.slot_hours) for pool in comparison.pools}
    return {
        "source": comparison.market,
        "slot_hours": lengths.pop() if len(lengths) == 1 else None,
        "pools": [_pool(pool) for pool in comparison.pools],
        "assumptions": list(comparison.assumptions),
    }


def _pool(pool: Pool) -> dict[str, Any]:
    return {
        "name": pool.name,
        "slots": len(pool),
        "slot_hours": float(pool.slot_hours),
        "from_utc": values.utc(pool.start),
        "to_utc": values.utc(pool.end),
    }


def _truth_of(run: Run, truth: Truths) -> dict[str, float]:
    """Return what the job really was in a run; nothing where it was what its file says."""
    if truth == AS_SAID:
        return {}
    true = truth.at(run.start_slot)
    return {f"true_{name}": float(getattr(true, name)) for name in FACTORS}


def _run(run: Run, pool: Pool) -> dict[str, Any]:
    return {
        "policy": run.policy,
        "pool": run.pool,
        "start_slot": int(run.start_slot),
        "start_time_utc": values.utc(pool.time(run.start_slot)),
        "cost_usd": float(run.cost_usd),
        "utility_usd": float(run.utility_usd),
        "finish_hours": run.finish_hours,
        "on_time": bool(run.on_time),
        "spot_gpu_hours": float(run.spot_gpu_hours),
        "on_demand_gpu_hours": float(run.on_demand_gpu_hours),
        "preemptions": int(run.preemptions),
        "lost_gpu_hours": float(run.lost_gpu_hours),
    }
