"""How well simulated futures predict bills: the share of true bills between p10 and p90, and the means.

`python -m benchmarks.calibration [STARTS]`: from many past starts of each market, futures are drawn from what
was known then, and a policy is run in each of them and in the future that came. A calibrated plan has 80 % of
the bills between the tenth and the ninetieth percentile, 10 % below and above, and means alike. The real
traces (`SLACKTIDE_DATA`, or ../shared/data) are left out where they are not there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slacktide.backtesting import batch, plain
from slacktide.backtesting.compare import guarded
from slacktide.backtesting.outlook import FUTURES, Begin, foretold
from slacktide.backtesting.plain import Setting
from slacktide.backtesting.scenarios import scenarios
from slacktide.market.base import Market
from slacktide.market.source import open_market
from slacktide.policy.base import policies
from slacktide.types import Job

POLICY = "uniform-progress"
"""A policy that is run in a moment: what is tried is the futures."""
LEARN_SHARE = 0.4
"""Part of each market before the first start."""


@dataclass(frozen=True)
class Setup:
    """One market and the job that is tried on it."""

    title: str
    market: str
    slot_hours: float | None
    gpus: int
    hours: float
    """How long the work takes on all GPUs."""
    slack: float


def setups() -> Iterator[Setup]:
    """Yield the markets that are there."""
    data = Path(os.environ.get("SLACKTIDE_DATA") or Path(__file__).parents[2] / "shared" / "data") / "markets"
    for seed in range(1, 4):
        yield Setup(f"synthetic H100, seed {seed}", f"synthetic:h100?days=60&seed={seed}", 0.5, 8, 12.0, 0.3)
    yield Setup("synthetic V100", "synthetic:v100?days=60&seed=1", 0.5, 1, 20.0, 0.3)
    if not data.is_dir():
        print(f"skipped: real traces are not at {data}; set SLACKTIDE_DATA")
        return
    yield Setup("real H100, 6 zones", str(data / "gcp-h100-2025.csv.gz"), 0.5, 8, 10.0, 0.3)
    yield Setup("real V100, 5 zones", str(data / "aws-v100-2023.csv.gz"), 0.25, 1, 20.0, 0.3)


def bills(setup: Setup, starts: int) -> Iterator[tuple[np.ndarray, float]]:
    """Yield, for each start, the bills in simulated futures and the one in the future that came."""
    market = open_market(setup.market, slot_hours=setup.slot_hours)
    job = Job(
        work_gpu_hours=setup.hours * setup.gpus,
        deadline_hours=setup.hours * (1.0 + setup.slack),
        widths=tuple(range(1, setup.gpus + 1)),
        restart_hours=0.05,
    )
    acting = guarded(policies.make(POLICY), job)
    for pool in market.pools:
        slots = np.linspace(LEARN_SHARE * len(pool), plain.last_start(job, pool), starts).round()
        for seed, slot in enumerate(slots.astype(int).tolist()):
            yield _one(market, job, acting, pool.name, slot, seed)


def _one(market: Market, job: Job, acting, name: str, slot: int, seed: int) -> tuple[np.ndarray, float]:  # type: ignore[no-untyped-def]
    begin = Begin.at(market, name, slot)
    setting = Setting(neighbours=begin.neighbours)
    drawn, start = scenarios(job, begin.place, begin.neighbours, paths=FUTURES, seed=seed)
    runs = batch.run_futures(job, drawn, acting, start, setting=setting)
    (came,) = batch.run_many(job, market.pool(name), acting, [slot])
    return np.array([run.cost_usd for run in runs]), came.cost_usd


def main(starts: int = 40) -> None:
    """Print a row for each market."""
    print(f"{POLICY}, {FUTURES} futures from each start; aims: 80 % inside, means alike")
    print(f"{'market':<26} starts  inside  below  above drawn/came   time")
    for setup in setups():
        began = time.perf_counter()
        found = list(bills(setup, starts))
        low, high = np.array([(told.p10, told.p90) for told in (foretold(drawn) for drawn, _ in found)]).T
        came = np.array([bill for _, bill in found])
        below, above = float(np.mean(came < low - 1e-9)), float(np.mean(came > high + 1e-9))
        means = sum(drawn.mean() for drawn, _ in found) / came.sum()
        took = time.perf_counter() - began
        print(
            f"{setup.title:<26} {len(found):6} {1 - below - above:7.1%} {below:6.1%} {above:6.1%} "
            f"{means:10.3f} {took:5.1f}s",
            flush=True,
        )


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]))
