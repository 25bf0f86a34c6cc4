"""Where and what the experiments run: sizes, jobs, synthetic markets and real traces."""

from __future__ import annotations

import dataclasses
import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from slacktide.core.errors import InputError
from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.market.source import open_market
from slacktide.market.synthetic import PROFILES, Profile, synthesize
from slacktide.simulation.plain import last_start

SLOT_HOURS = 0.5
WORK_GPU_HOURS = 80.0
GPUS = 8
RESTART_HOURS = 4 / 60
WORTHLESS_AT = 1.5
VALUE_OVER_ON_DEMAND = 1.1  # a result in time is worth a tenth more than its work costs on demand
USUAL_DEADLINE_HOURS = 14.0
TRACE_SUFFIXES = (".csv", ".gz", ".json", ".parquet")
LEARN_SHARE = 0.2  # part of each market before the first start, so that forecasts have a past
TRACE_POOLS = 6

CONTESTED = dataclasses.replace(
    PROFILES["volatile"],
    name="contested",
    summary="A volatile market with expensive spot: half the on-demand price, and a jump every other day.",
    spot_share=0.45,
    jumps_per_day=0.5,
)
"""The paper's spot prices lie closer to on demand, and move more, than those that our profiles imitate."""


class Size(NamedTuple):
    """How much is run."""

    days: float
    starts: int
    slow_starts: int  # starts where stochastic-horizon takes part, whose plans take a third of a second each
    deadlines_hours: tuple[float, ...]
    factors: tuple[float, ...]
    levels: tuple[float, ...]
    thresholds: tuple[float, ...]
    jobs: int
    job_starts: int  # distinct starts from which the jobs of the selection are drawn
    every_arm: int  # one in this many of the paper's 112 policies takes part in the selection
    trace_starts: int


FULL = Size(
    days=60.0,
    starts=80,
    slow_starts=30,
    deadlines_hours=(10.5, 11.0, 12.0, 14.0, 17.0, 20.0, 24.0),
    factors=(0.25, 0.5, 1.0, 2.0, 4.0),
    levels=(0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0),
    thresholds=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    jobs=1000,
    job_starts=60,
    every_arm=1,
    trace_starts=4,
)
QUICK = Size(
    days=10.0,
    starts=10,
    slow_starts=3,
    deadlines_hours=(11.0, 14.0, 20.0),
    factors=(0.5, 1.0, 2.0),
    levels=(0.0, 0.3, 1.0),
    thresholds=(0.3, 0.6, 0.9),
    jobs=100,
    job_starts=12,
    every_arm=5,
    trace_starts=1,
)


class Place(NamedTuple):
    """A market, cut to what the experiments need."""

    name: str
    pools: tuple[Pool, ...]


def job_of(pool: Pool, deadline_hours: float) -> Job:
    """Return the paper's kind of job, worth a little more than its on-demand bill in this pool."""
    price = float(pool.on_demand_usd_per_gpu_hour.mean())
    return Job(
        name="fine-tuning",
        work_gpu_hours=WORK_GPU_HOURS,
        deadline_hours=deadline_hours,
        widths=tuple(range(1, GPUS + 1)),
        restart_hours=RESTART_HOURS,
        value_usd=VALUE_OVER_ON_DEMAND * price * WORK_GPU_HOURS,
        worthless_after_hours=WORTHLESS_AT * deadline_hours,
    )


def starts_of(job: Job, pool: Pool, count: int) -> tuple[int, ...]:
    """Return starts evenly spread over the market after the part that forecasts learn from."""
    last = last_start(job, pool)
    first = min(round(LEARN_SHARE * len(pool)), last)
    return tuple(sorted({first + (last - first) * turn // max(1, count - 1) for turn in range(count)}))


@lru_cache(maxsize=32)
def synthetic(profile: Profile, size: Size, seed: int) -> Place:
    """Return a synthetic market in the experiments' slots; the same one each time, to share its forecasts."""
    market = synthesize(profile, days=size.days, seed=seed, slot_hours=SLOT_HOURS)
    return Place(profile.name, tuple(map(_capped, market.pools)))


def _capped(pool: Pool) -> Pool:
    """Let spot cost no more than on demand, as in today's clouds; some baselines ignore the price."""
    capped = np.minimum(pool.spot_usd_per_gpu_hour, pool.on_demand_usd_per_gpu_hour)
    return dataclasses.replace(pool, spot_usd_per_gpu_hour=capped)


def shaken(factor: float) -> Profile:
    """Return the contested market with its swings of capacity and price multiplied in size or number."""
    drifts = tuple(
        dataclasses.replace(drift, spread_gpus=drift.spread_gpus * factor) for drift in CONTESTED.drifts
    )
    return dataclasses.replace(
        CONTESTED,
        name=f"contested-{factor:g}",
        drifts=drifts,
        move_share=CONTESTED.move_share * factor,
        jumps_per_day=CONTESTED.jumps_per_day * factor,
        hits_per_hour=CONTESTED.hits_per_hour * factor,
    )


def real_places(data: Path | None) -> tuple[list[Place], list[str]]:
    """Open the real traces of a folder, or of $SLACKTIDE_DATA; also say why others are left out.

    Raises InputError when a folder was named and holds no trace that can be used.
    """
    named = data or (Path(os.environ["SLACKTIDE_DATA"]) if os.environ.get("SLACKTIDE_DATA") else None)
    if named is None:
        return [], ["No real traces were given: all markets are synthetic."]
    if not named.is_dir():
        raise InputError(f"the folder of real traces must exist, got {named}")
    folder = named / "markets" if (named / "markets").is_dir() else named
    places, notes = [], []
    for path in sorted(path for path in folder.iterdir() if path.suffix in TRACE_SUFFIXES):
        try:
            places.append(_usable(path.name, open_market(str(path), slot_hours=SLOT_HOURS)))
        except InputError as error:
            notes.append(f"Left out: {str(error).replace(str(path), path.name)}.")
    if data is not None and not places:
        raise InputError(f"{folder}: at least one trace must be usable, got none; {' '.join(notes)}")
    return places, notes


def _usable(name: str, market: Market) -> Place:
    """Keep the pools in which a wide job can be run on spot at all."""
    wide = [pool for pool in market.pools if pool.spot_gpus.max() >= GPUS // 2 and pool.hours >= 72]
    if not wide:
        raise InputError(f"{name}: a pool must offer {GPUS // 2} GPUs for 72 h at least, got none that does")
    # Every n-th pool, so that no more than TRACE_POOLS are run.
    return Place(name.split(".", maxsplit=1)[0], tuple(wide[:: 1 + (len(wide) - 1) // TRACE_POOLS]))
