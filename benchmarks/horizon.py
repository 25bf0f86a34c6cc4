"""Seconds to solve `stochastic-horizon`, and to take the first decision of a cold process."""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

from benchmarks.timing import best
from slacktide.core.compiled import compiled
from slacktide.core.types import Job
from slacktide.solvers import expected
from slacktide.solvers.slotted import slotted

SLOTS = 96
JOB = Job(work_gpu_hours=280.0, deadline_hours=48.0, widths=tuple(range(1, 9)), restart_hours=0.05)
FIRST = """
from slacktide import open_market, policies, read_job_file
from slacktide.simulation.playback import Playback
from slacktide.simulation.playback import USUAL
from slacktide.policies.view import look
from slacktide.core.types import Job, JobState
job = Job(work_gpu_hours=80.0, deadline_hours=13.0, widths=tuple(range(1, 9)), restart_hours=0.05)
pool = open_market("synthetic:h100?slot=30m").pools[0]
view = look(job, Playback(pool, 700, USUAL).at(0), JobState(), 0, pool.slot_hours)
print(policies.make("stochastic-horizon").decide(view).gpus)
"""


def chain(levels: int, rng: np.random.Generator) -> expected.Chain:
    """Make a chain of this many levels that leads from each to each."""
    share = rng.dirichlet(np.ones(levels), size=(1, levels))
    first = np.arange(levels)[None, :] * levels
    return expected.Chain(
        gpus=np.arange(levels),
        usd=np.full(levels, 2.0),
        first=first,
        last=first + levels,
        to=np.tile(np.arange(levels), levels),
        share=share.reshape(-1),
        block=np.zeros(SLOTS + 1, np.int64),
    )


def main() -> None:
    """Print the time of a solve, next to the plain definition's, and of a first decision."""
    terms = slotted(JOB, 0.5)
    shape = expected.lattice(terms)
    worth = expected.Worth(0.0, JOB.deadline_hours, True, 10.0)
    market = chain(9, np.random.default_rng(0))
    slack = expected.slack_grid(terms, hard=True, cells=240)
    expected.solve(terms, shape, market, worth, slack, now=SLOTS - 1, slots=1)
    took, _ = best(lambda: expected.solve(terms, shape, market, worth, slack, now=0, slots=SLOTS))
    print(f"{SLOTS} slots, 8 GPUs, 9 levels, {slack.cells} cells of slack: {took:.3f} s")
    coarse = expected.slack_grid(terms, hard=True, cells=10)
    rows = np.arange(9)[None, :]
    actions = np.zeros((9, len(shape.spot), len(shape.pauses.ahead_hours), coarse.cells), np.uint8)
    values = np.empty((9, len(shape.spot), len(shape.pauses.left_hours), coarse.cells))
    last = (terms, shape, market, worth, coarse, SLOTS - 1, SLOTS, values, rows, actions)
    slow, _ = best(lambda: expected.induce(*last), tries=1)
    fast, _ = best(lambda: compiled(expected.induce)(*last))
    ratio = f"plain {slow:.2f} s, compiled {fast * 1e3:.2f} ms: {slow / fast:,.0f} x"
    print(f"one slot on {coarse.cells} cells: {ratio}")
    for word in ("machine code being loaded", "again"):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", FIRST], check=True, capture_output=True)
        print(f"first decision of a new process ({word}): {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
