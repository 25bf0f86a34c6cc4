"""Simulated futures: their past is real, their prices move as the past's did."""

from __future__ import annotations

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.types import Job
from slacktide.market.base import EPOCH, Pool
from slacktide.simulation.plan.futures import futures_of_pool
from tests import build

JOB = Job(work_gpu_hours=6.0, deadline_hours=10.0, widths=(1,))
SLOTS = 10


def pool(usd: Floats) -> Pool:
    gpus = np.ones(len(usd), np.int64)
    gpus[::7] = 0
    return build.pool(usd, 10.0, gpus, name="p", slot_hours=1.0, start=EPOCH)


def futures(usd: Floats) -> list[Floats]:
    found = futures_of_pool(JOB, pool(usd), (), paths=40)
    drawn, start = [options.pools[0] for options in found.options], found.start
    for one in drawn:
        assert np.array_equal(one.spot_usd_per_gpu_hour[: start + 1], usd)
    return [one.spot_usd_per_gpu_hour[start : start + SLOTS] for one in drawn]


def test_prices_move_as_they_did() -> None:
    usd = 2.0 * np.exp(0.01 * np.sin(np.arange(200.0)))
    moves = np.round(np.diff(np.log(usd)), 9)
    drawn = futures(usd)
    assert len({tuple(path) for path in drawn}) > 20
    for path in drawn:
        assert set(np.round(np.diff(np.log(path)), 9)) <= set(moves)


def test_a_price_that_has_jumped_comes_down_as_it_did_before() -> None:
    usd = np.full(200, 2.0)
    for jump in (30, 80, 130):
        usd[jump : jump + 6] = 6.0
    usd[198:] = 6.0
    for path in futures(usd):
        assert path[0] == 6.0
        assert path[6] == 2.0


def test_without_a_past_as_long_as_the_job_the_price_stays() -> None:
    for path in futures(np.array([2.0, 2.1, 2.2, 2.3])):
        assert np.array_equal(path, np.full(SLOTS, 2.3))
