"""What `policy: auto` earns over 200 jobs, compared with the best fixed policy in hindsight.

`python -m benchmarks selection`. A soft job from random starts in random pools; for each job one policy is
drawn, and when it is over every policy of the pool is replayed on its market. Real traces are used where they
are found.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.market.base import Market
from slacktide.market.source import open_market
from slacktide.policies.selection.policy_set import AUTO_SET, fresh
from slacktide.simulation.learn_on_past import random_tasks, replay
from slacktide.simulation.playback import Setting
from slacktide_papers.deadline.policy_set import PAPER_SET, make_arms

JOBS = 200
JOB = Job(
    work_gpu_hours=80.0,
    deadline_hours=13.0,
    widths=tuple(range(1, 9)),
    restart_hours=0.05,
    value_usd=600.0,
    worthless_after_hours=19.5,
)


def main() -> None:
    """Print the earnings on a synthetic and, where there is one, on a real market."""
    data = Path(os.environ.get("SLACKTIDE_DATA") or Path(__file__).parents[2] / "shared" / "data")
    real = data / "markets" / "gcp-h100-2025.csv.gz"
    markets = {"synthetic": open_market("synthetic:h100?days=60&slot=30m&pools=3")}
    if real.exists():
        markets["real H100"] = open_market(str(real), slot_hours=0.5)
    for title, market in markets.items():
        for name, pool in (("auto", AUTO_SET), ("paper", PAPER_SET)):
            _report(title, market, name, pool)


def _report(title: str, market: Market, name: str, pool: tuple[Spec, ...]) -> None:
    arms, hedge = make_arms(pool), fresh(pool)
    began = time.perf_counter()
    earned, drawn = np.empty((JOBS, len(arms))), np.empty(JOBS)
    for number, task in enumerate(random_tasks(JOB, market, JOBS, seed=1)):
        arm = hedge.begin(str(number))
        setting = Setting.on(market, task.pool)
        found = replay(task.job, task.pool, task.start, arms, setting)
        hedge.end(str(number), found.shares)
        earned[number] = found.utility_usd
        drawn[number] = found.utility_usd[list(arms).index(arm)]
    best = int(earned.mean(0).argmax())
    fixed = earned[:, best]
    print(
        f"{title}, pool {name} of {len(arms)}: auto {drawn.mean():.2f} USD a job, best fixed "
        f"{list(arms)[best]} {fixed.mean():.2f}: {drawn.mean() / fixed.mean():.2%} over all {JOBS} jobs, "
        f"{drawn[-50:].mean() / fixed[-50:].mean():.2%} over the last 50; leader {hedge.leader}; "
        f"{time.perf_counter() - began:.0f} s",
        flush=True,
    )


if __name__ == "__main__":
    main()
