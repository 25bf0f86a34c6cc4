"""A fleet that may hold few GPUs on demand: what is admitted is in time, and never more is held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slacktide.allocators.prices.on_demand_quota import Windows, first_gap, most_needed
from slacktide.allocators.shadow_prices import ShadowPrices
from slacktide.budget.classes import Member
from slacktide.checks.allocators.site_cases import site_cases
from slacktide.core.types import Job
from slacktide.market.base import Market
from slacktide.simulation.fleet.run import RunOptions, run_fleet
from slacktide.simulation.fleet.scene import FleetScene
from tests import build


def test_what_is_admitted_is_in_time_and_no_more_is_held_than_may_be() -> None:
    rng = np.random.default_rng(5)
    refused = admitted = 0
    for case in site_cases(41, 60):
        few = case.with_few_on_demand_gpus(rng)
        few = replace(few, scene=replace(few.scene, allowance=few.calmed().scene.allowance))
        run = run_fleet(few.scene, ShadowPrices(), RunOptions(keep=True), stop_hours=few.stop_hours)
        assert not len(run.late), f"{few}: {run.late}"
        assert run.held is not None
        starts = run.held.from_hours
        for moment in starts:
            now = (starts <= moment + 1e-9) & (moment + 1e-9 < run.held.to_hours)
            assert run.held.on_demand_gpus[now].sum() <= few.scene.on_demand_gpus
        refused += sum("on-demand GPUs" in one.why for one in run.refused.values())
        admitted += int((run.hard & run.admitted).sum())
    assert min(refused, admitted) > 10


def fleet(*due_hours: float, quota: int = 8) -> FleetScene:
    """Return jobs that need 4 hours of 8 GPUs each, on a market without spot."""
    job = Job(work_gpu_hours=32.0, widths=(8,))
    pool = build.pool(1.0, 4.0, 0, slots=200, name="zone")
    members = tuple(Member(0.0, job, deadline_hours=hours) for hours in due_hours)
    return FleetScene(Market((pool,)), members, on_demand_gpus=quota)


def test_a_deadline_is_refused_with_the_earliest_that_would_fit() -> None:
    run = run_fleet(fleet(5.0, 6.0, 9.5), ShadowPrices())
    (refusal,) = run.refused.values()
    assert refusal.deadline_hours is not None
    assert refusal.deadline_hours == pytest.approx(9.5), "after the first is done, and a slot"
    assert "up to 8 of the 8 that the fleet may hold are kept for other deadlines then" in refusal.why
    assert not len(run.late)
    assert not run_fleet(fleet(5.0, refusal.deadline_hours), ShadowPrices()).refused


def test_a_job_that_is_wider_than_the_fleet_may_hold_is_refused_with_the_width_that_may_be() -> None:
    run = run_fleet(fleet(50.0, quota=7), ShadowPrices())
    assert run.refused[0].gpus == 7
    assert "may need 8 on-demand GPUs" in run.refused[0].why


def test_rescues_are_added_up_at_their_worst_moment() -> None:
    windows = Windows(np.array([0.0, 2.0, 3.0, 0.0]), np.array([4.0, 5.0, 6.0, 0.0]), np.array([4, 4, 1, 0]))
    assert most_needed(windows, 0.0, 9.0) == 9
    assert most_needed(windows, 0.0, 3.0) == 8
    assert most_needed(windows, 4.0, 9.0) == 5
    assert most_needed(windows, 5.0, 9.0) == 1
    assert most_needed(windows, 6.0, 9.0) == 0
    assert first_gap(windows, 0.0, 1.0, 4, 8) == 0.0
    assert first_gap(windows, 0.5, 2.0, 4, 8) == 5.0
    assert first_gap(windows, 0.5, 2.0, 8, 8) == 6.0
