"""Small markets of several pools, and jobs that may move among them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from slacktide.core.types import Job
from slacktide.market.base import Market, Moves, Pool
from tests import build

START = datetime(2025, 10, 4, tzinfo=UTC)
NAMES = ("us-east1-b", "us-west1-a", "europe-west4-a")


def pool(
    name: str, seed: int, *, slots: int = 120, usd: float = 2.0, late: int = 0, gpu: str = "H100"
) -> Pool:
    """Return a pool whose spot comes and goes; it may begin some slots late."""
    up = np.random.default_rng(seed).random(slots // 6 + 1) < 0.7
    gpus = np.repeat(np.where(up, 4, 0), 6)[:slots]
    spot, on_demand = np.full(slots, usd), np.full(slots, 5.0 * usd)
    return Pool(name, 0.5, spot, on_demand, gpus, START + timedelta(hours=0.5 * late), gpu)


def market(**changes: Any) -> Market:
    """Return three pools in three regions, the second one the cheapest."""
    pools = tuple(
        pool(name, seed, usd=usd, **changes)
        for seed, (name, usd) in enumerate(zip(NAMES, (2.0, 1.6, 1.8), strict=True))
    )
    return Market(pools, "three.csv", ("Prices were read off.",), Moves())


def job(**changes: Any) -> Job:
    """Return a gang that may move, with changes."""
    usual = {
        "name": "gang", "work_gpu_hours": 16.0, "deadline_hours": 8.0, "widths": (4,), "restart_hours": 0.1,
        "checkpoint_hours": 0.25, "checkpoint_gb": 20.0,
    }  # fmt: skip
    return build.job(**{**usual, **changes})
