"""Compiles the code of a demo run before the run starts: decisions, and the cost with perfect foresight.

On a new machine each of the two takes about twenty seconds to compile. A clock that runs 600 times as fast as
real time cannot wait for that.
"""

from __future__ import annotations

import contextlib
import os
import sys

from slacktide.app.markets.market import DEFAULT_MARKET
from slacktide.files.job import JobFile, read_job_file
from slacktide.market.base import Pool
from slacktide.market.source import open_market
from slacktide.policies.selection.auto_policy import resolve_policy
from slacktide.simulation.plain import run


def decide_ahead(path: str, start: int) -> None:
    """Take all decisions of the job file's policy once, in the simulator, which compiles their code."""
    file, pool = _read(path)
    run(file.job, pool, resolve_policy(file.policy, key=file.job.name), start=start)


def main(path: str, start: int) -> None:
    """Print what the job would cost with perfect foresight of its market."""
    from slacktide.solvers.clairvoyant.clairvoyant import clairvoyant

    with contextlib.suppress(OSError):
        os.nice(10)  # the workers of the demo come first
    file, pool = _read(path)
    print(f"{clairvoyant(file.job, pool, start).cost_usd:.2f}")


def _read(path: str) -> tuple[JobFile, Pool]:
    file = read_job_file(path)
    return file, open_market(file.market or DEFAULT_MARKET).pools[0]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
