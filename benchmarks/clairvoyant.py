"""How fast the clairvoyant is, compared with its plain definition and the MILP, on the same market."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from slacktide.core.compiled import compiled
from slacktide.core.speedup import Amdahl, Linear
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.solvers.clairvoyant.clairvoyant import ACCURACY, solve_with, yardstick
from slacktide.solvers.clairvoyant.forward_run import solve_starts
from slacktide.solvers.clairvoyant.frame import frame
from tests.oracles import milp

SLOTS, GPUS, STARTS = 48, 8, 200


def market(slots: int, gpus: int, slot_hours: float, *, stays: float = 0.65, seed: int = 0) -> Pool:
    """Draw a market whose spot comes and goes in spells and whose price wanders."""
    rng = np.random.default_rng(seed)
    offered = np.zeros(slots, dtype=np.int64)
    for slot in range(slots):
        offered[slot] = offered[slot - 1] if slot and rng.random() < stays else rng.integers(0, gpus + 1)
    spot = np.clip(1.0 + np.cumsum(rng.normal(0.0, 0.03, slots)), 0.3, 2.5)
    return Pool("drawn", slot_hours, spot, np.full(slots, 3.0), offered)


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def compare(name: str, job: Job, pool: Pool) -> None:
    """Print the speed of one job three ways."""
    yardstick(job, pool, (0,))  # machine code is loaded or made outside the measurement
    batch = seconds(lambda: yardstick(job, pool, range(STARTS))) / STARTS
    # Plain Python would take minutes on this grid: it is measured on one a tenth as fine.
    coarse = frame(job, pool.slot_hours, 10 * ACCURACY, may_be_exact=False)
    slow = seconds(lambda: solve_with(solve_starts, coarse, job, pool, (0,)))
    fast = seconds(lambda: solve_with(compiled(solve_starts), coarse, job, pool, range(20))) / 20
    limits = milp.Limits(time_limit_s=30.0, gap_share=1e-3)
    began = time.perf_counter()
    status = milp.solve(job, pool, limits=limits).status
    other = time.perf_counter() - began
    print(f"{name}: {1 / batch:8.1f} instances/s ({1e3 * batch:.1f} ms each)")
    print(
        f"    plain Python, coarse grid:     {slow:7.2f} s, compiled {1e3 * fast:.1f} ms: {slow / fast:.0f} x"
    )
    print(f"    MILP to a gap of 0.1 %:        {other:7.2f} s, {status.value}: {other / batch:,.0f} x")


def main() -> None:
    """Print instances per second for the three sizes that matter."""
    pool = market(SLOTS + STARTS, GPUS, 0.5)
    for name, speedup in (
        ("48 slots x 8 GPUs, linear", Linear()),
        ("48 slots x 8 GPUs, Amdahl", Amdahl(0.95)),
    ):
        job = Job(
            work_gpu_hours=100.0, deadline_hours=24.0, widths=tuple(range(1, GPUS + 1)),
            restart_hours=0.05, speedup=speedup,
        )  # fmt: skip
        compare(name, job, pool)
    for restart in (0.05, 0.2):
        slots, slot_hours = 1300, 195 / 3600
        job = Job(work_gpu_hours=48.0, deadline_hours=70.0, widths=(1,), restart_hours=restart)
        long = market(slots + 5, 1, slot_hours, stays=0.97)
        took = seconds(lambda job=job, long=long: yardstick(job, long, range(5))) / 5  # type: ignore[misc]
        print(f"70 h of 195-s slots x 1 GPU, restart {60 * restart:.0f} min: {1e3 * took:.0f} ms each")
    wide = Job(work_gpu_hours=250.0, deadline_hours=48.0, widths=tuple(range(1, 17)), restart_hours=0.05)
    took = seconds(lambda: yardstick(wide, market(120, 16, 0.5), range(10))) / 10
    print(f"96 slots x 16 GPUs, linear: {1e3 * took:.0f} ms each")


if __name__ == "__main__":
    main()
