"""Exact sharing of GPUs among jobs, given what each job is worth on each width."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable


class Shares(NamedTuple):
    """The best way to share each number of GPUs, from 0 up to some number."""

    worth: Floats  # [GPUs]: the greatest sum of worth; minus infinity where not every job can have a width
    speed: Floats  # [GPUs]: the sum of speeds that goes with it
    choice: Ints  # [job, GPUs]: the option that the job has where it and those before it share that many


@compilable
def best_shares(worth: Floats, speed: Floats, widths: Ints, gpus: int) -> Shares:
    """Find the shares with the greatest sum of worth, for 0 to this many GPUs; every job gets a width.

    `worth` and `speed` are [job, option] and `widths` [option]; a worth of minus infinity is an option that a
    job may not have. GPUs may be left over.
    """
    best = np.zeros(gpus + 1)
    total = np.zeros(gpus + 1)
    choice = np.zeros((len(worth), gpus + 1), dtype=np.int64)
    for job in range(len(worth)):
        before, sped = best, total
        best = np.full(gpus + 1, -np.inf)
        total = np.zeros(gpus + 1)
        for option in range(len(widths)):
            if worth[job, option] == -np.inf:
                continue
            width = widths[option]
            for given in range(width, gpus + 1):
                found = before[given - width] + worth[job, option]
                if found > best[given]:
                    best[given] = found
                    total[given] = sped[given - width] + speed[job, option]
                    choice[job, given] = option
    return Shares(best, total, choice)


@compilable
def widths_at(shares: Shares, widths: Ints, gpus: int) -> Ints:
    """Return the width of each job where they share this many GPUs."""
    found = np.zeros(len(shares.choice), dtype=np.int64)
    for job in range(len(found) - 1, -1, -1):
        found[job] = widths[shares.choice[job, gpus]]
        gpus -= found[job]
    return found
