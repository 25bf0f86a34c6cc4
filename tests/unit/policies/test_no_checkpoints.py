"""Jobs without checkpoints keep their workers, and the guard knows that changing them begins anew."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slacktide.core.types import Job, JobState
from slacktide.market.base import Pool
from slacktide.physics import progress as physics
from slacktide.policies.base import policies
from slacktide.policies.no_checkpoints import Unbroken
from slacktide.simulation import batch, plain
from tests import build

SLOTS = 60


def job(**numbers: object) -> Job:
    return build.job(**{"restart_hours": 0.1, "checkpoint_hours": math.inf, **numbers})


def market(seed: int = 3) -> Pool:
    rng = np.random.default_rng(seed)
    gpus = np.repeat(rng.integers(0, 5, SLOTS // 3), 3)
    usd = rng.uniform(0.5, 2.0, SLOTS)
    return build.pool(usd, 4.0, gpus)


def test_finishing_after_a_change_of_workers_means_beginning_anew() -> None:
    terms = physics.terms(job(restart_hours=0.0))
    state = JobState(on_demand_gpus=2, progress_gpu_hours=8.0)
    assert physics.on_demand_finish(terms, state, 1.0, 2) == 1.0 + 4.0 / 2
    assert physics.on_demand_finish(terms, state, 1.0, 4) == 1.0 + 12.0 / 4
    assert physics.rescue_width(terms, state, 1.0) == 2, "what is held is done sooner than the widest"
    assert physics.given_up(terms, state, 0, 4, 0) == 8.0
    assert physics.given_up(terms, state, 0, 2, 0) == 0.0


def test_plain_is_compiled_without_checkpoints() -> None:
    task, pool, starts = job(), market(), list(range(12))
    acting = plain.guarded(policies.make("uniform-progress"), task)
    assert batch.can_compile(acting, pool)
    compiled = batch.run_compiled(task, pool, acting, starts)
    for start, found in zip(starts, compiled, strict=True):
        run = plain.run(task, pool, acting, start=start)
        assert (found.cost_usd, found.finish_hours) == pytest.approx((run.cost_usd, run.finish_hours))
        assert found.lost_gpu_hours == pytest.approx(run.lost_gpu_hours)
        assert run.on_time
        worked = sum(record.lived.stretch.gained_gpu_hours for record in run.slots)
        assert worked - run.lost_gpu_hours == pytest.approx(task.work_gpu_hours), "what is lost is done again"


def test_workers_with_work_to_lose_are_kept_while_they_are_in_time() -> None:
    pool = build.pool(1.0, 4.0, 4, slots=SLOTS)
    acting = plain.guarded(policies.make("uniform-progress"), job())
    run = plain.run(job(), pool, acting)
    assert run.lost_gpu_hours == 0.0
    assert run.slots[-1].wanted.reason.rule == "no-checkpoint"
    bare = plain.run(job(), pool, policies.make("uniform-progress"))
    assert run.cost_usd <= bare.cost_usd


def test_only_jobs_without_checkpoints_are_wrapped() -> None:
    policy = policies.make("uniform-progress")
    assert isinstance(plain.guarded(policy, job(value_usd=1.0, worthless_after_hours=20.0)), Unbroken)
    soft = job(checkpoint_hours=0.0, value_usd=1.0, worthless_after_hours=20.0)
    assert plain.guarded(policy, soft) is policy
