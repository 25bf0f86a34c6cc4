"""How well simulated futures predict bills: the share of true bills between p10 and p90, and the means.

`python -m benchmarks.calibration [STARTS]`: from many past starts of each market, futures are drawn from what
was known then, and a policy is run in each of them and in the future that came. A calibrated plan has 80 % of
the bills between the tenth and the ninetieth percentile, 10 % below and above, and means alike. A bill that
is the same as some of the drawn ones is ranked among them at random: otherwise a market in which spot is
nearly always there, so that most bills are alike, would look too good. The share inside is told with its
standard error as if starts were independent: forty of them say little, hundreds do. The real traces
(`SLACKTIDE_DATA`, or ../shared/data) are left out where they are not there.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slacktide.core.types import Job
from slacktide.market.base import Market
from slacktide.market.source import open_market
from slacktide.policies.base import policies
from slacktide.simulation import batch, plain
from slacktide.simulation.plain import guarded
from slacktide.simulation.plan.futures import futures_of_pool
from slacktide.simulation.plan.planned_job import FUTURES, PlanStart
from slacktide.simulation.playback import Setting

POLICY = "uniform-progress"
"""A policy that is run in a moment: what is tried is the futures."""
SEEDS = 10
SAME_USD = 1e-9
LEARN_SHARE = 0.4
"""Part of each market before the first start."""


@dataclass(frozen=True)
class Setup:
    """Markets of one kind, and the job that is tried on them."""

    title: str
    markets: tuple[str, ...]
    slot_hours: float | None
    gpus: int
    hours: float
    """How long the work takes on all GPUs."""
    slack: float


def setups() -> Iterator[Setup]:
    """Yield the markets that are there."""
    data = Path(os.environ.get("SLACKTIDE_DATA") or Path(__file__).parents[2] / "shared" / "data") / "markets"
    h100 = tuple(f"synthetic:h100?days=60&seed={seed}" for seed in range(1, SEEDS + 1))
    yield Setup(f"synthetic H100, {SEEDS} seeds", h100, 0.5, 8, 12.0, 0.3)
    v100 = tuple(f"synthetic:v100?days=60&seed={seed}" for seed in range(1, SEEDS + 1))
    yield Setup(f"synthetic V100, {SEEDS} seeds", v100, 0.5, 1, 20.0, 0.3)
    if not data.is_dir():
        print(f"skipped: real traces are not at {data}; set SLACKTIDE_DATA")
        return
    yield Setup("real H100, 6 zones", (str(data / "gcp-h100-2025.csv.gz"),), 0.5, 8, 10.0, 0.3)
    yield Setup("real V100, 5 zones", (str(data / "aws-v100-2023.csv.gz"),), 0.25, 1, 20.0, 0.3)


def bills(setup: Setup, starts: int) -> Iterator[tuple[np.ndarray, float]]:
    """Yield, for each start, the bills in simulated futures and the one in the future that came."""
    job = Job(
        work_gpu_hours=setup.hours * setup.gpus,
        deadline_hours=setup.hours * (1.0 + setup.slack),
        widths=tuple(range(1, setup.gpus + 1)),
        restart_hours=0.05,
    )
    acting = guarded(policies.make(POLICY), job)
    for name in setup.markets:
        market = open_market(name, slot_hours=setup.slot_hours)
        for pool in market.pools:
            slots = np.linspace(LEARN_SHARE * len(pool), plain.last_start(job, pool), starts).round()
            for seed, slot in enumerate(slots.astype(int).tolist()):
                yield _one(market, job, acting, pool.name, slot, seed)


def _one(market: Market, job: Job, acting, name: str, slot: int, seed: int) -> tuple[np.ndarray, float]:  # type: ignore[no-untyped-def]
    begin = PlanStart.at(market, name, slot)
    setting = Setting(neighbours=begin.neighbours)
    futures = futures_of_pool(job, begin.place, begin.neighbours, paths=FUTURES, seed=seed)
    drawn, start = [options.pools[0] for options in futures.options], futures.start
    ready = batch.prepare_together(acting, job, drawn, start, setting)
    runs = batch.run_ready(job, drawn, ready, start, setting=setting)
    (came,) = batch.run_compiled(job, market.pool(name), acting, [slot])
    return np.array([run.cost_usd for run in runs]), came.cost_usd


def rank(drawn: np.ndarray, came: float, rng: np.random.Generator) -> float:
    """Return which share of all bills lies below the one that came; uniform if plans are calibrated."""
    below = int(np.sum(drawn < came - SAME_USD))
    same = int(np.sum(np.abs(drawn - came) <= SAME_USD))
    return float((below + rng.random() * (same + 1)) / (len(drawn) + 1))


def main(starts: int = 40) -> None:
    """Print a row for each kind of market."""
    print(f"{POLICY}, {FUTURES} futures from each start; aims: 80 % +- 3 % inside, means alike")
    print(f"{'market':<26} starts  inside (error)  below  above drawn/came   time")
    rng = np.random.default_rng(1)
    for setup in setups():
        began = time.perf_counter()
        found = list(bills(setup, starts))
        ranks = np.array([rank(drawn, came, rng) for drawn, came in found])
        below, above = float(np.mean(ranks < 0.1)), float(np.mean(ranks > 0.9))
        inside = 1.0 - below - above
        error = math.sqrt(inside * (1.0 - inside) / len(ranks))
        means = sum(drawn.mean() for drawn, _ in found) / sum(came for _, came in found)
        took = time.perf_counter() - began
        print(
            f"{setup.title:<26} {len(found):6} {inside:7.1%} {error:7.1%} {below:6.1%} {above:6.1%} "
            f"{means:10.3f} {took:5.1f}s",
            flush=True,
        )


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]))
