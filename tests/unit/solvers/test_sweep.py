"""The pieces of the sweep against the physics they stand for."""

from __future__ import annotations

import pytest

from slacktide.core.speedup import Table
from slacktide.core.types import Billing, Job, JobState
from slacktide.physics import progress as physics
from slacktide.solvers.clairvoyant.frame import empty_future, frame, look_ahead
from slacktide.solvers.clairvoyant.sweep import late_pause, late_value
from slacktide.solvers.slotted import live_slot
from tests import build


def saturating(billing: Billing = "second") -> Job:
    """Return a job that is no faster on three GPUs than on two, so that more than its fastest can be held."""
    return Job(
        work_gpu_hours=4.0, deadline_hours=3.0, widths=(1, 2, 3), speedup=Table(((1.0, 1.0), (2.0, 1.5))),
        restart_hours=2.5, shrink_hours=1.25, value_usd=30.0, worthless_after_hours=6.0, billing=billing,
    )  # fmt: skip


@pytest.mark.parametrize("offered", [0, 1, 2])
def test_late_pause_is_that_of_the_physics(offered: int) -> None:
    numbers = frame(saturating(), 1.0, 0.01)
    bare = numbers.terms
    for left, hours in enumerate(numbers.pauses.left_hours):
        for holding in range(1, len(numbers.spot)):
            held = JobState(
                int(numbers.spot[holding]), int(numbers.on_demand[holding]), pause_hours=float(hours)
            )
            state = physics.lose(bare.terms, held, offered)
            expected = physics.pause_after(bare.terms, state, 0, bare.fastest, state.pool)
            assert late_pause(numbers, left, holding) == pytest.approx(expected)


@pytest.mark.parametrize("billing", ["second", "slot"])
@pytest.mark.parametrize("work", [0.3, 1.5, 2.9, 4.0])
def test_late_value_is_that_of_the_physics(billing: Billing, work: float) -> None:
    job = saturating(billing)
    pool = build.pool(1.0, [1.0, 1.0, 1.0, 2.0, 3.0, 0.0, 4.0], 0, name="test", slot_hours=1.0)
    numbers = frame(job, 1.0, 0.01)
    future = empty_future(numbers)
    look_ahead(
        numbers, future, 0, pool.spot_usd_per_gpu_hour, pool.on_demand_usd_per_gpu_hour, pool.spot_gpus
    )
    state, slot = JobState(progress_gpu_hours=job.work_gpu_hours - work), 3
    while not state.ended:
        state = live_slot(numbers.terms, state, slot, pool.quote(slot), 0, numbers.terms.fastest).state
        slot += 1
    expected = job.value_at(state.finish_hours) - state.cost_usd
    assert late_value(numbers, future, job.restart_hours, work) == pytest.approx(expected)
