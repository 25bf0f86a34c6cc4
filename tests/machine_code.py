"""Has machine code made once, before several test processes would each make their own.

    python -m tests.machine_code

It runs what compiles for long, in two processes: every policy in batch and plainly, with and without the
guard and checkpoints, a plan, what one who knows the market would pay; every allocator of a fleet and the
bound below it, jobs in two pools, budgets and streams. What both processes need is made by the first before
the second comes to it. What it prints is the time; what fails here fails in its test.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
EXAMPLE = EXAMPLES / "llama-lora.yaml"
SMALL = """
resources: {accelerators: H100:1..4}
work: 6 gpu-hours +-0%
deadline: 4h
restart: 6m
"""
SOFT = "value: 90 usd\nworthless_after: 6h\n"
SAVES = "checkpoint: {every: 10m}\n"
MARKET = "synthetic:h100?days=4&slot=30m"
MANY = ("--starts", "40")
"""As many starts as are run compiled."""
FEW_CASES = 3
"""Cases of a fleet in which its kernels meet all the types that they are compiled for."""
UNSAVED = "uniform-progress,on-demand,maximal-spot,stochastic-horizon"
"""The policies that tests run in batch without checkpoints."""
PARTS = ("jobs", "fleets")


def main() -> None:
    """Run all parts side by side; a failure is left to the tests."""
    begin = time.monotonic()
    parts = [subprocess.Popen([sys.executable, "-m", "tests.machine_code", part]) for part in PARTS]
    for part in parts:
        part.wait()
    print(f"machine code is ready after {time.monotonic() - begin:.0f} s")


def make(part: str) -> None:
    """Run what belongs to one part."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["SLACKTIDE_HOME"] = name
        os.chdir(folder)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            {"jobs": jobs, "fleets": fleets}[part](folder)


def jobs(folder: Path) -> None:
    """Run jobs with a deadline that must be kept, jobs that may be late, and jobs that save nothing."""
    from campaigns.fuzz.worker import called
    from slacktide.policies.base import policies

    called(("plan", str(EXAMPLE)))
    batches(folder, "hard", SAVES, ",".join(policies))
    batches(folder, "soft", SAVES + SOFT, ",".join(policies))
    batches(folder, "unsaved", "", UNSAVED)


def fleets(folder: Path) -> None:
    """Run fleets on a market, and then jobs in two pools and what the fuzz runs first."""
    from campaigns.fuzz.worker import called, warm

    on_a_market()
    over_pools()
    called(("backtest", str(EXAMPLE), "--starts", "1"))
    with contextlib.suppress(Exception):
        warm(folder)


def on_a_market() -> None:
    """Run two days of a team under an allocator, with the bound below it, and every one in small cases."""
    import numpy as np

    from campaigns.fuzz.worker import called
    from slacktide.allocators.base import allocators
    from slacktide.allocators.view import needs_market
    from slacktide.checks import SITE_CHECKS, site_cases

    short = ("--hours", "48", "--slot", "1h")
    called(("simulate", str(EXAMPLES / "team-month.yaml"), *short, "--policy", "shadow-prices", "--bound"))
    for allocator in filter(needs_market, map(allocators.make, allocators)):
        for case in site_cases(7, FEW_CASES):
            SITE_CHECKS[0](allocator, case, np.random.default_rng(7))


def batches(folder: Path, name: str, text: str, policies: str) -> None:
    """Run some policies in batch on a job."""
    from campaigns.fuzz.worker import called

    file = folder / f"{name}.yaml"
    file.write_text(SMALL + text, encoding="utf-8")
    called(("backtest", str(file), "--market", MARKET, "--policy", policies, *MANY))


def over_pools() -> None:
    """Run a job that may be in two pools, and what would have been best for it."""
    from slacktide.core.types import Job
    from slacktide.market.source import open_market
    from slacktide.policies.deadline_guard import DeadlineGuard
    from slacktide.policies.pools.roaming_horizon import RoamingHorizon
    from slacktide.simulation.plain import run_over_pools
    from slacktide.simulation.pool_options import PoolOptions
    from slacktide.solvers.pools.optimum import optimum

    job = Job(widths=(1,), work_gpu_hours=2.0, deadline_hours=4.0, restart_hours=0.1)
    ground = PoolOptions.of(job, "", open_market("synthetic:h100?days=3&pools=2&slot=30m"))
    run_over_pools(ground, DeadlineGuard(RoamingHorizon()))
    jobs, hours, usd, _ = ground.places
    optimum(jobs, ground.pools, 0, hours, usd)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        make(sys.argv[1])
    else:
        main()
