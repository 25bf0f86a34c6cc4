"""Jobs and markets on which plug-ins are checked: random, seeded, and deliberately difficult."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Job
from slacktide.market.base import Pool

WIDTHS: tuple[tuple[int, ...], ...] = ((1,), (1, 2, 3, 4), (1, 2, 4, 8), (2, 3), (4,), tuple(range(1, 9)))


@dataclass(frozen=True, slots=True)
class Case:
    """A job, and a market that is long enough for its deadline."""

    job: Job
    pool: Pool


def cases(seed: int, count: int, *, hard: bool | None = None) -> Iterator[Case]:
    """Yield random cases, the same for the same seed; `hard`: whether all deadlines are, None: some."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield random_case(rng, hard=hard)


def random_case(rng: np.random.Generator, *, hard: bool | None = None) -> Case:
    """Make a case: slots of minutes to an hour, restarts that may exceed a slot, any widths and prices."""
    slot_hours = float(rng.choice([1 / 12, 0.25, 0.5, 1.0]))
    slots = int(rng.integers(4, 40))
    job = random_job(rng, slot_hours, slots, hard=bool(rng.random() < 0.6) if hard is None else hard)
    return Case(job, random_pool(rng, slot_hours, slots + int(rng.integers(0, 20)), job.max_gpus))


def random_job(rng: np.random.Generator, slot_hours: float, slots: int, *, hard: bool) -> Job:
    """Make a job whose deadline is in the last of these slots: easy, difficult or impossible to meet."""
    widths = WIDTHS[rng.integers(len(WIDTHS))]
    speedup = random_speedup(rng)
    deadline = slot_hours * (slots - float(rng.choice([0.0, 0.0, rng.random()])))
    restart = slot_hours * float(rng.choice([0.0, 0.1, 0.5, 1.0, 2.7]))
    tightness = float(rng.choice([0.3, 0.7, 0.95, 1.0, 1.3]))
    most = max(speedup(width) for width in widths) * max(deadline - restart, 0.3 * slot_hours)
    return Job(
        work_gpu_hours=tightness * most,
        deadline_hours=deadline,
        widths=widths,
        speedup=speedup,
        restart_hours=restart,
        shrink_hours=restart * float(rng.choice([0.0, 0.5, 1.0])),
        checkpoint_hours=slot_hours * float(rng.choice([0.0, 0.0, 0.4, 1.5, np.inf])),
        value_usd=0.0 if hard else float(rng.integers(1, 300)),
        worthless_after_hours=None if hard else deadline * float(rng.choice([1.2, 2.0])),
        billing="slot" if rng.random() < 0.2 else "second",
    )


def random_speedup(rng: np.random.Generator) -> Speedup:
    """Return a speedup of a random form with random parameters."""
    kind = rng.integers(4)
    if kind == 0:
        return Linear(float(rng.uniform(0.5, 1.0)), float(rng.uniform(0.0, 0.5)))
    if kind == 1:
        return Amdahl(float(rng.uniform(0.5, 1.0)))
    if kind == 2:
        return Power(float(rng.uniform(0.5, 1.0)))
    return Table.of({1: 1.0, 2: 1.9, 4: float(rng.uniform(2.0, 3.8)), 8: float(rng.uniform(3.0, 7.0))})


def random_pool(rng: np.random.Generator, slot_hours: float, slots: int, gpus: int) -> Pool:
    """Make a market with spells of random lengths and levels; some have no spot, expensive or free spot."""
    levels = rng.integers(0, gpus + 3, slots)
    keep = rng.random(slots) < float(rng.choice([0.0, 0.6, 0.9]))
    spot_gpus = levels.copy()
    for slot in range(1, slots):
        if keep[slot]:
            spot_gpus[slot] = spot_gpus[slot - 1]
    if rng.random() < 0.1:
        spot_gpus[:] = 0
    ratio = float(rng.choice([0.0, 0.3, 0.3, 0.6, 1.2]))
    on_demand = np.full(slots, float(rng.uniform(1.0, 12.0))) * rng.choice([1.0, 1.0, 0.9], slots)
    spot = on_demand * ratio * rng.uniform(0.8, 1.2, slots)
    return Pool("zone", slot_hours, spot, on_demand, spot_gpus)


def with_other_future(pool: Pool, first: int, rng: np.random.Generator) -> Pool:
    """Return a market that is the same before a slot, and different from that slot on."""
    spot_gpus, spot, on_demand = (
        pool.spot_gpus.copy(),
        pool.spot_usd_per_gpu_hour.copy(),
        pool.on_demand_usd_per_gpu_hour.copy(),
    )
    spot_gpus[first:] = rng.permutation(spot_gpus[first:])[::-1] + rng.integers(0, 3, len(pool) - first)
    spot[first:] = spot[first:] * rng.uniform(0.2, 3.0, len(pool) - first) + 0.01
    on_demand[first:] = on_demand[first:] * rng.uniform(0.5, 2.0, len(pool) - first)
    return Pool(pool.name, pool.slot_hours, spot, on_demand, spot_gpus, pool.start)
