"""The clairvoyant over pools two ways: backward sweep = enumeration of all plans, lived by the physics."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from slacktide.core.arrays import Floats
from slacktide.core.speedup import Linear
from slacktide.core.types import FINISH_FAST, Job, JobState
from slacktide.market.base import Pool
from slacktide.physics import progress as physics
from slacktide.physics.ledger import live
from slacktide.physics.tariff import Meter, tariff_of
from slacktide.solvers.pools.optimum import optimum

VECTORS = [
    (600, 11, 120, [[0, 0, 1, 1, 0, 1], [0, 1, 0, 0, 1, 1]],
     [[12, 14, 9, 10, 10, 13], [7, 9, 10, 10, 14, 12]], 21.333333),
    (195, 15, 15, [[0, 1, 1, 1, 0, 1], [1, 0, 1, 1, 0, 1]],
     [[11, 7, 5, 6, 11, 7], [8, 14, 5, 14, 13, 12]], 10.833333),
    (600, 9, 120, [[1, 0, 1, 1, 1, 0], [0, 0, 1, 0, 1, 0]],
     [[10, 5, 14, 7, 12, 14], [10, 8, 9, 7, 5, 13]], 5.5),
]  # fmt: skip
BATCHES, PER_BATCH = 4, 60


class Case(NamedTuple):
    """A small job in a few pools."""

    jobs: list[Job]
    pools: list[Pool]
    move_hours: Floats
    move_usd: Floats


@pytest.mark.parametrize(("gap_s", "units", "unit_s", "up", "usd", "cost_usd"), VECTORS)
def test_known_answers(
    gap_s: int, units: int, unit_s: int, up: list[list[int]], usd: list[list[int]], cost_usd: float
) -> None:
    slot = gap_s / 3600
    pools = [
        Pool(name, slot, np.array(usd[at], float), np.full(6, on_demand), np.array(up[at]))
        for at, (name, on_demand) in enumerate({"a": 40.0, "b": 44.0}.items())
    ]
    job = Job(
        widths=(1,), work_gpu_hours=units * unit_s / 3600, deadline_hours=6 * slot, restart_hours=0.2,
        billing="slot",
    )  # fmt: skip
    found = optimum([job, job], pools, 0, np.zeros((2, 2)), np.array([[0.0, 0.5], [0.7, 0.0]]))
    assert found.cost_usd == pytest.approx(cost_usd, abs=1e-6)
    assert found.least_usd == pytest.approx(found.cost_usd, abs=1e-9)


def draw(seed: int) -> Case:
    """Draw a small case; the seeds together cover every feature of the physics."""
    rng = np.random.default_rng(seed)
    widths = ((1,), (1,), (2,), (1, 2))[rng.integers(4)]
    slots = 4 if widths == (1, 2) else int(rng.integers(4, 6))
    slot = float(rng.choice([0.25, 0.5]))
    restart = slot * float(rng.choice([0.0, 0.4, 1.2]))
    soft = rng.random() < 0.3
    deadline = slot * (slots - (0.0 if soft else float(rng.choice([0.0, 0.2]))))
    job = Job(
        widths=widths,
        work_gpu_hours=round(widths[-1] * deadline * float(rng.uniform(0.2, 0.9)), 2) + 0.01,
        deadline_hours=deadline,
        restart_hours=restart,
        shrink_hours=restart * float(rng.choice([0.0, 0.5, 1.0])),
        billing="slot" if rng.random() < 0.4 else "second",
        value_usd=float(rng.uniform(5, 30)) if soft else 0.0,
        worthless_after_hours=2.0 * deadline if soft else None,
    )
    speeds = (1.0, float(rng.choice([1.0, 0.5])))
    jobs = [dataclasses.replace(job, speedup=Linear(speed)) for speed in speeds]
    apart = 1.0 - np.eye(2)
    return Case(
        jobs,
        [_pool(rng, name, slot, slots) for name in "ab"],
        apart * float(rng.choice([0.0, 0.2])) * slot,
        apart * rng.choice([0.0, 0.5, 1.0]),
    )


def _pool(rng: np.random.Generator, name: str, slot: float, slots: int) -> Pool:
    many = slots + 12
    return Pool(
        name,
        slot,
        rng.choice([0.0, 1.0, 2.0, 5.0], size=many),
        np.full(many, float(rng.choice([4.0, 9.0]))),
        rng.integers(0, 3, size=many),
    )


def enumerated(case: Case) -> float:
    """Return the least of cost less worth over all plans, each lived by the physics."""
    terms = [
        physics.terms(job, move_hours=case.move_hours[:, at])._replace(
            checkpoint_hours=0.0, after_deadline=FINISH_FAST
        )
        for at, job in enumerate(case.jobs)
    ]
    job, slot_hours = case.jobs[0], case.pools[0].slot_hours
    tariff, slots = tariff_of(job.billing, slot_hours), math.ceil(job.deadline_hours / slot_hours - 1e-6)

    def lived(state: JobState, slot: int, pool: int, spot: int, on_demand: int) -> JobState:
        left = physics.lose(terms[state.pool], state, case.pools[state.pool].quote(slot).spot_gpus)
        moves = pool != left.pool and spot + on_demand > 0 and left.progress_gpu_hours > 0.0
        fee = float(case.move_usd[left.pool, pool]) if moves else 0.0
        return live(
            terms[pool], tariff, math.inf, left, Meter(), slot, slot * slot_hours, slot_hours,
            case.pools[pool].quote(slot), pool, spot, on_demand, fee,
        ).state  # fmt: skip

    def worth(state: JobState) -> float:
        if job.hard and not job.on_time(state.finish_hours):
            return math.inf
        return state.cost_usd - (0.0 if job.hard else job.value_at(state.finish_hours))

    def options(state: JobState, slot: int) -> Iterator[tuple[int, int, int]]:
        yield state.pool, 0, 0
        for pool, place in enumerate(case.pools):
            offered = place.quote(slot).spot_gpus
            for width in job.widths:
                yield from ((pool, spot, width - spot) for spot in range(min(width, offered) + 1))

    def late(state: JobState, pool: int) -> float:
        slot = slots
        while not state.ended:
            state = lived(state, slot, pool, 0, terms[pool].fastest)
            slot += 1
        return worth(state)

    best = math.inf

    def follow(state: JobState, slot: int) -> None:
        nonlocal best
        if state.ended:
            best = min(best, worth(state))
        elif slot == slots:
            best = min([best, *(late(state, pool) for pool in range(2) if not job.hard)])
        elif state.cost_usd - job.value_usd < best:
            for option in options(state, slot):
                follow(lived(state, slot, *option), slot + 1)

    follow(JobState(), 0)
    return best


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_sweep_finds_what_enumeration_finds(batch: int) -> None:
    for seed in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        case = draw(seed)
        found = optimum(case.jobs, case.pools, 0, case.move_hours, case.move_usd)
        best = enumerated(case)
        job = case.jobs[0]
        if math.isinf(best):
            assert found.least_usd > 1e20, seed
            continue
        mine = found.cost_usd - (0.0 if job.hard else job.value_at(found.finish_hours))
        assert mine == pytest.approx(best, abs=1e-6), seed
        assert found.least_usd == pytest.approx(best, abs=1e-6), seed
