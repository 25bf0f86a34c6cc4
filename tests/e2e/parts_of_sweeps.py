"""Pieces of sweeps for tests, in a module that other processes can import."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from slacktide.simulation.parallel.base import Spread
from slacktide_papers.deadline import convergence, sweeps
from slacktide_papers.deadline.measure import measure
from slacktide_papers.deadline.places import QUICK

SMALL = QUICK._replace(days=6.0, starts=4, job_starts=3, every_arm=30, thresholds=(0.5,), levels=(0.3,))


def experiments(spread: Spread) -> str:
    """Return a small part of a reproduction, to the last digit."""
    cells = [*sweeps.noise(SMALL, 0, [])]
    earned = convergence.earn(SMALL, 0, spread=spread)
    numbers = [(name, one.usd.tolist(), one.baselines.tolist()) for name, one in earned.items()]
    return repr((measure(cells, spread=spread), numbers))


def killed_once(folder: str, number: int) -> int:
    """Die at the first try, as the worker of a node that is lost does; then return the square."""
    mark = Path(folder) / str(number)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number
