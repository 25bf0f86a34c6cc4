"""One job in all its variants under every policy, told with every digit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from slacktide.core.speedup import Amdahl
from slacktide.core.types import Billing, Job
from slacktide.market.base import Market, Pool
from slacktide.policies.base import policies
from slacktide.results.run import Run
from slacktide.simulation.batch import run_in_detail
from slacktide.simulation.playback import Setting

from .exact import digest, lines

FOLDER = Path(__file__).parent / "jobs"
HARD = Job(
    work_gpu_hours=24.0,
    deadline_hours=8.0,
    widths=(1, 2, 3, 4, 6, 8),
    speedup=Amdahl(0.96),
    restart_hours=0.12,
    shrink_hours=0.05,
)
SOFT = replace(HARD, deadline_hours=6.0, value_usd=400.0, worthless_after_hours=10.0)
BILLINGS: tuple[Billing, ...] = ("second", "slot")


def told(market: Market, pool: Pool, starts: tuple[int, ...], billing: Billing, max_cost_usd: float) -> str:
    """Tell every policy's runs of every variant of the job that is billed in one way."""
    rows, setting = {}, Setting.on(market, pool)
    for variant, job in _variants(
        replace(HARD, billing=billing), replace(SOFT, billing=billing), max_cost_usd
    ):
        for policy, start in itertools.product(sorted(policies), starts):
            run = run_in_detail(job, pool, policies.make(policy), start, name=policy, setting=setting)
            rows[f"{policy}, {variant}, slot {start}"] = _row(run)
    return lines(rows)


def _variants(hard: Job, soft: Job, max_cost_usd: float) -> Iterator[tuple[str, Job]]:
    kinds = (("hard", hard), ("soft", soft))
    for (kind, job), checkpoint, most in itertools.product(kinds, (0.0, 0.4), (None, max_cost_usd)):
        words = [kind, *(["checkpoints"] if checkpoint else []), *(["max cost"] if most else [])]
        yield ", ".join(words), replace(job, checkpoint_hours=checkpoint, max_cost_usd=most)


def _row(run: Run) -> dict[str, Any]:
    decided = [(*slot.wanted[:2], slot.spot_gpus, slot.on_demand_gpus) for slot in run.slots]
    states = [
        (slot.after.progress_gpu_hours, slot.after.pause_hours, slot.after.cost_usd) for slot in run.slots
    ]
    return {
        "cost_usd": float(run.cost_usd),
        "utility_usd": float(run.utility_usd),
        "finish_hours": float(run.finish_hours) if math.isfinite(run.finish_hours) else None,
        "spot_gpu_hours": float(run.spot_gpu_hours),
        "on_demand_gpu_hours": float(run.on_demand_gpu_hours),
        "preemptions": int(run.preemptions),
        "lost_gpu_hours": float(run.lost_gpu_hours),
        "slots": len(run.slots),
        "decisions": digest(decided),
        "rules": _counts([slot.wanted.reason.rule for slot in run.slots]),
        "states": digest(states),
    }


def _counts(rules: list[str]) -> dict[str, int]:
    return {rule: rules.count(rule) for rule in sorted(set(rules))}
