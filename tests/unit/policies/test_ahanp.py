"""AHANP: one test per rule of its table."""

from __future__ import annotations

import pytest

from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.core.types import Allocation, Job, JobState
from slacktide.market.tape import PoolView
from slacktide.physics.progress import terms
from slacktide.policies.ahanp import Ahanp, needed_width
from slacktide.policies.view import View

JOB = Job(work_gpu_hours=40.0, deadline_hours=20.0, widths=tuple(range(1, 9)), restart_hours=0.1)
AHEAD, BEHIND = 12.0, 9.0
"""Work done at the start of slot 5, where the line is at 10."""


def decide(quote: Quote, done: float, *, spot: int = 0, on_demand: int = 0, job: Job = JOB) -> Allocation:
    state = JobState(spot, on_demand, progress_gpu_hours=done, checkpointed_gpu_hours=done)
    here = (PoolView("here", quote),)
    return Ahanp().decide(
        View(job=job, slot=5, slot_hours=1.0, now_hours=5.0, next_hours=6.0, pools=here, state=state)
    )


def test_a_threshold_outside_its_range_is_refused() -> None:
    with pytest.raises(InputError, match="price_threshold must be in"):
        Ahanp(0.0)


def test_ahead_and_cheap_takes_all_obtainable_spot() -> None:
    wanted = decide(Quote(1.2, 2.0, 6), AHEAD, on_demand=2)
    assert (*wanted[:2], wanted.reason.rule) == (6, 0, "bank-cheap-spot")


def test_ahead_and_dear_keeps_the_spot_that_is_held() -> None:
    wanted = decide(Quote(1.5, 2.0, 6), AHEAD, spot=3, on_demand=2)
    assert (*wanted[:2], wanted.reason.rule) == (3, 0, "keep-held-spot")


def test_ahead_and_dearer_than_on_demand_idles() -> None:
    wanted = decide(Quote(2.0, 2.0, 6), AHEAD, spot=3)
    assert (*wanted[:2], wanted.reason.rule) == (0, 0, "ahead-and-idle")


def test_behind_and_cheap_takes_all_spot_and_fills_up_on_demand() -> None:
    assert decide(Quote(0.5, 2.0, 6), BEHIND)[:2] == (6, 0)
    # 3 GPU-hours within 0.9 h need 4 GPUs
    assert decide(Quote(0.5, 2.0, 2), BEHIND)[:2] == (2, 2)


def test_behind_and_dear_takes_no_more_spot_than_needed() -> None:
    assert decide(Quote(1.9, 2.0, 6), BEHIND)[:2] == (4, 0)
    assert decide(Quote(1.9, 2.0, 1), BEHIND)[:2] == (1, 3)


def test_behind_without_spot_rents_the_needed_width_on_demand() -> None:
    wanted = decide(Quote(0.5, 2.0, 0), BEHIND)
    assert (*wanted[:2], wanted.reason.rule) == (0, 4, "behind-no-spot")


def test_behind_spot_dearer_than_on_demand_is_as_good_as_none() -> None:
    assert decide(Quote(2.1, 2.0, 8), BEHIND)[:2] == (0, 4)


def test_who_holds_enough_needs_no_restart() -> None:
    """Three GPUs that are there do what four would do after a restart."""
    assert decide(Quote(1.9, 2.0, 0), BEHIND, on_demand=3)[:2] == (0, 3)


def test_too_far_behind_takes_the_fastest_width() -> None:
    assert decide(Quote(0.5, 2.0, 3), 0.0)[:2] == (3, 5)


def test_needed_width_is_an_allowed_one() -> None:
    job = Job(work_gpu_hours=40.0, deadline_hours=20.0, widths=(2, 6), restart_hours=0.1)
    assert needed_width(terms(job), JobState(progress_gpu_hours=9.0), 6.0, 1.0, 0, 0) == 6
