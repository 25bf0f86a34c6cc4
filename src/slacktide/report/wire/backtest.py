"""A back-test as data; docs/reference/json.md explains each key."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from slacktide.physics.truth import AS_SAID, FACTORS
from slacktide.report.wire import values
from slacktide.report.wire.values import picked
from slacktide.results.run import Stay

if TYPE_CHECKING:
    from slacktide.market.base import Pool
    from slacktide.results.comparison import Comparison, PolicySummary
    from slacktide.results.run import Run


JOB_KEYS = (
    "name", "work_gpu_hours", "deadline_hours", "widths", "restart_hours", "shrink_hours", "checkpoint_hours",
    "hard", "value_usd", "worthless_after_hours", "max_cost_usd", "billing",
)  # fmt: skip
RUN_KEYS = (
    "cost_usd", "utility_usd", "finish_hours", "on_time", "spot_gpu_hours", "on_demand_gpu_hours",
    "preemptions", "lost_gpu_hours",
)  # fmt: skip
ROAMING_KEYS = ("pool", "mean_moves", "mean_move_usd")
"""Keys of a summary that only a back-test over pools has."""


def as_json(comparison: Comparison) -> dict[str, Any]:
    """Return the back-test as plain values under documented keys; never NaN, never infinite."""
    pools = {pool.name: pool for pool in comparison.pools}
    fields: dict[str, Any] = {
        "job": {**picked(comparison.job, *JOB_KEYS), "speedup": repr(comparison.job.speedup)},
        "market": _market(comparison),
        "runs": [_run(comparison, run, pools[run.pool]) for run in comparison.runs],
        "summary": [_summary(comparison, one) for one in comparison.summary],
    }
    if comparison.roams:
        fields["sight"] = comparison.sight
        fields["fixed_pools"] = [_summary(comparison, one) for one in comparison.fixed]
    if comparison.truth != AS_SAID:
        fields["truth"] = comparison.truth
    if comparison.clairvoyant_spare_usd is not None:
        fields["clairvoyant_spare_usd"] = comparison.clairvoyant_spare_usd
    return values.document(fields)


def csv_text(comparison: Comparison) -> str:
    """Return one line per run under the same keys as the JSON; null becomes an empty cell.

    The pools that a run was in are one cell: `us-east5-a 0..4.5; us-central1-a 5..11`, in hours.
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


def _market(comparison: Comparison) -> dict[str, Any]:
    lengths = {float(pool.slot_hours) for pool in comparison.pools}
    pools = [
        {
            "name": pool.name,
            "slots": len(pool),
            "slot_hours": pool.slot_hours,
            "from_utc": pool.start,
            "to_utc": pool.end,
        }
        for pool in comparison.pools
    ]
    return {
        "source": comparison.market,
        "slot_hours": lengths.pop() if len(lengths) == 1 else None,
        "pools": pools,
        "assumptions": comparison.assumptions,
    }


def _run(comparison: Comparison, run: Run, pool: Pool) -> dict[str, Any]:
    fields = {
        **picked(run, "policy", "pool", "start_slot"),
        "start_time_utc": pool.time(run.start_slot),
        **picked(run, *RUN_KEYS),
    }
    if comparison.roams:  # the pools it was in, and what its moves cost
        stayed = next(one.pool for one in comparison.summary if one.policy == run.policy)
        stays = [Stay(stayed, 0.0, run.finish_hours)] if stayed else run.stays
        fields |= {"stays": stays, **picked(run, "moves", "move_usd"), "pool": stayed or None}
    if comparison.truth != AS_SAID:  # how the job really differed from its file
        true = comparison.truth.at(run.start_slot)
        fields |= {f"true_{name}": getattr(true, name) for name in FACTORS}
    return fields
