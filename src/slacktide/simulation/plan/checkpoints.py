"""How often a job should save itself: often enough for the losses of its market, and no more often."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.results.plan import CheckpointAdvice, HeldAt

ASSUMED_TAKES_HOURS = 30 / 3600
"""What a checkpoint is taken to cost when the file does not say: some ten gigabytes to a disk of a cloud."""


def advise(
    job: Job, pool: Pool, held: Sequence[HeldAt], takes_hours: float | None = None
) -> CheckpointAdvice | None:
    """Advise the interval that costs least, by Young 1974: sqrt(2 * cost of saving * time between losses).

    `held` is what the plan would hold. None where it holds no spot, or where its market never took any.
    """
    gpus = min(usual_spot_gpus(held), int(pool.spot_gpus.max()))
    between = hours_between_losses(pool, gpus) if gpus else None
    if between is None:
        return None
    takes = ASSUMED_TAKES_HOURS if takes_hours is None else takes_hours
    return CheckpointAdvice(
        every_hours=min(between, math.sqrt(2.0 * takes * between)),
        spot_gpus=gpus,
        hours_between_losses=between,
        takes_hours=takes,
        takes_assumed=takes_hours is None,
    )


def usual_spot_gpus(held: Sequence[HeldAt]) -> int:
    """Return on how many spot GPUs a GPU-hour of spot is usually spent; 0 where there are none."""
    spot = np.array([each.spot_gpus for each in held])
    return max(1, round(float(spot @ spot / spot.sum()))) if spot.any() else 0


def hours_between_losses(pool: Pool, gpus: int) -> float | None:
    """Return how long that many spot GPUs last on average in a pool's past; None where none were taken."""
    up = pool.spot_gpus[:-1] >= gpus
    losses = int((up & (pool.spot_gpus[1:] < gpus)).sum())
    return float(up.sum()) * pool.slot_hours / losses if losses else None
