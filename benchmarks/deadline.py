"""Deadline policies on real traces: cost over the clairvoyant's, with everything learned from the past only.

`python -m benchmarks.deadline [STARTS]` needs the real traces (`SLACKTIDE_DATA`, or ../shared/data). Starts
are spread over the last 60 % of each trace; what a policy knows at a start is what lies before it. A cell is
the whole bill over the clairvoyant's whole bill, and in brackets the mean of the ratios.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.market.source import open_market
from slacktide.policies.base import policies
from slacktide.results.run import CLAIRVOYANT
from slacktide.simulation import batch, plain
from slacktide.simulation.playback import Setting

NAMES = ("stochastic-horizon", "uniform-progress", "maximal-spot", "on-demand")
SLACKS = (0.10, 0.25, 0.50)
LEARN_SHARE = 0.4
"""Part of each trace before the first start."""


@dataclass(frozen=True)
class Setup:
    """One market, the job that is tried on it, and what we aim for."""

    title: str
    file: str
    slot_hours: float | None
    gpus: int
    hours: float
    """How long the work takes on all GPUs."""
    restart_minutes: float
    aim: float


SETUPS = (
    Setup("H100, 1..8 GPUs, 30-min slots", "gcp-h100-2025.csv.gz", 0.5, 8, 10.0, 3.0, 1.05),
    Setup("V100, 1 GPU, the trace's 195 s", "aws-v100-2023.csv.gz", None, 1, 48.0, 3.0, 1.05),
    Setup("V100, 1 GPU, the trace's 195 s", "aws-v100-2023.csv.gz", None, 1, 48.0, 12.0, 1.11),
    Setup("H100, 1..8 GPUs, the trace's 10 min", "gcp-h100-2025.csv.gz", None, 8, 10.0, 3.0, float("nan")),
)


def main(starts: int = 8) -> None:
    """Print one table per market and restart."""
    data = Path(os.environ.get("SLACKTIDE_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not (data / "markets").is_dir():
        print(f"skipped: real traces are not at {data}; set SLACKTIDE_DATA")
        return
    for setup in SETUPS:
        market = open_market(str(data / "markets" / setup.file), slot_hours=setup.slot_hours)
        restart = f"restart {setup.restart_minutes:g} min"
        print(f"{setup.title}, {restart}, {starts} starts in each of {len(market)} pools")
        print(_line("slack", NAMES, "aim", "late", "time"))
        for slack in SLACKS:
            _row(setup, market, slack, starts)


def _row(setup: Setup, market: Market, slack: float, starts: int) -> None:
    job = Job(
        work_gpu_hours=setup.hours * setup.gpus,
        deadline_hours=setup.hours * (1.0 + slack),
        widths=tuple(range(1, setup.gpus + 1)),
        restart_hours=setup.restart_minutes / 60.0,
    )
    began = time.perf_counter()
    paid = {name: [] for name in (*NAMES, CLAIRVOYANT)}  # type: dict[str, list[float]]
    late = 0
    for pool in market.pools:
        slots = _starts(job, pool, starts)
        setting = Setting.on(market, pool)
        for name in NAMES:
            runs = batch.run_many(job, pool, policies.make(name), slots, name=name, setting=setting)
            paid[name] += [run.cost_usd for run in runs]
            late += sum(not run.on_time for run in runs)
        paid[CLAIRVOYANT] += [run.cost_usd for run in batch.run_yardstick(job, pool, slots)[0]]
    bound = np.array(paid[CLAIRVOYANT])
    cells = [f"{sum(paid[name]) / bound.sum():.3f} ({np.mean(paid[name] / bound):.3f})" for name in NAMES]
    took = time.perf_counter() - began
    print(_line(f"{slack:.0%}", cells, f"{setup.aim:.2f}", str(late), f"{took:.1f}s"), flush=True)


def _line(slack: str, cells: Sequence[str], aim: str, late: str, took: str) -> str:
    return f"{slack:>6} " + " ".join(f"{cell:>20}" for cell in cells) + f" {aim:>6} {late:>5} {took:>7}"


def _starts(job: Job, pool: Pool, count: int) -> list[int]:
    last = plain.last_start(job, pool)
    return [round(start) for start in np.linspace(LEARN_SHARE * len(pool), last, count)]


if __name__ == "__main__":
    main(*(int(text) for text in sys.argv[1:2]))
