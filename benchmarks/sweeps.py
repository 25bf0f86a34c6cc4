"""How much faster a sweep is on more cores: processes of this machine, and a Ray cluster on it.

`python -m benchmarks sweeps`. The same back-test with one worker and with as many as there are cores, in
processes and, where Ray is installed, on a local cluster that listens on the loopback only. The first sweep
also starts the workers, which load machine code; the second one finds them ready.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from slacktide.core.types import Job
from slacktide.market.base import Market
from slacktide.market.source import open_market
from slacktide.report.wire.backtest import as_json
from slacktide.simulation.compare import Starts, compare
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.parallel.processes import Processes, usable_cores
from slacktide.simulation.parallel.ray_tasks import LOOPBACK_ONLY

JOB = Job(work_gpu_hours=80.0, deadline_hours=13.0, widths=tuple(range(1, 9)), restart_hours=0.05)
STARTS = 240
POLICIES = ("uniform-progress", {"stochastic-horizon": {"cells": 60}})


def main() -> None:
    """Print the speed-up at 1, 2, 4 ... cores, up to those that there are."""
    market = open_market("synthetic:h100?days=60&slot=30m&pools=2")
    swept(market, HERE)  # machine code is loaded or made outside the measurement
    cores = usable_cores()
    for count in sorted({1, *(2**power for power in range(1, 12) if 2**power <= cores), cores}):
        alone_s, wanted = swept(market, HERE)  # again each time: others may use the machine, too
        print(f"{STARTS} starts x 2 pools x {len(POLICIES) + 1} policies, in one process: {alone_s:.1f} s")
        with Processes(count) as processes:
            report("processes", count, market, processes, alone_s, wanted)
        if importlib.util.find_spec("ray") is not None:
            with ray_here(count) as spread:
                report("Ray", count, market, spread, alone_s, wanted)
        else:
            print("Ray: not installed; pip install 'slacktide[ray]'")


def report(name: str, count: int, market: Market, spread: Spread, alone_s: float, wanted: object) -> None:
    """Print how long a sweep took, cold and warm, and that it came to the same."""
    first_s, _ = swept(market, spread)
    again_s, found = swept(market, spread)
    assert found == wanted, f"{name} on {count} cores came to something else"
    times = f"{first_s:5.1f} s at first, {again_s:5.1f} s again"
    ratio = alone_s / again_s
    speed = f"{ratio:.2f} times one process, {ratio / count:.0%} of linear"
    print(f"{name:>9} x {count}: {times}: {speed}; same results", flush=True)


def swept(market: Market, spread: Spread) -> tuple[float, object]:
    """Back-test, and return the time and all figures."""
    began = time.perf_counter()
    found = compare(JOB, market, POLICIES, starts=Starts(STARTS), spread=spread)
    return time.perf_counter() - began, as_json(found)


@contextmanager
def ray_here(cpus: int) -> Iterator[Spread]:
    """Start a Ray on this machine for the length of a measurement; nothing outside can reach it."""
    os.environ[LOOPBACK_ONLY] = "0"
    ray = importlib.import_module("ray")

    from slacktide.simulation.parallel.ray_tasks import RayTasks

    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray.init(
            address="local", num_cpus=cpus, include_dashboard=False, log_to_driver=False,
            logging_level="ERROR", _temp_dir=folder,
        )  # fmt: skip
        try:
            yield RayTasks(ray)
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
