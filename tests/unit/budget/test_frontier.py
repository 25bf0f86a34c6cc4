"""The frontier: its corners by hand, its inverse, and what it refuses."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from slacktide.budget.classes import JobClass
from slacktide.budget.frontier import frontier
from slacktide.budget.widths import least_budget_gpus
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.speedup import Amdahl, Linear, Power
from slacktide.core.types import Job, Phase

ONE = JobClass(
    Job(name="one", work_gpu_hours=2.0, speedup=Amdahl(0.8), widths=(1, 2, 4)), arrivals_per_hour=0.5
)
OTHER = JobClass(
    Job(name="other", work_gpu_hours=1.0, speedup=Power(0.6), widths=(1, 2, 3, 8)), arrivals_per_hour=1.5
)
BOUND = JobClass(
    Job(
        name="bound",
        restart_hours=0.05,
        widths=(1, 2, 4, 8),
        phases=(Phase(1.0, Amdahl(0.5)), Phase(2.0, Amdahl(0.95)), Phase(0.5, Power(0.3))),
    ),
    arrivals_per_hour=0.7,
)


def test_corners_by_hand() -> None:
    found = frontier([ONE])
    assert found.budget_gpus == pytest.approx([1.0, 1.2, 1.6])
    assert found.mean_response_hours == pytest.approx([2.0, 1.2, 0.8])
    assert found.shadow_price_hours_per_gpu == pytest.approx([4.0, 1.0, 0.0])
    plans = [found.plan_at(gpus) for gpus in found.budget_gpus]
    assert [plan.classes[0].paths[0].widths for plan in plans] == [(1,), (2,), (4,)]


def test_one_width_is_one_corner() -> None:
    found = frontier([JobClass(Job(name="fixed", work_gpu_hours=3.0, widths=(4,)), arrivals_per_hour=1.0)])
    assert (len(found), found.budget_gpus[0]) == (1, 3.0)
    assert found.plan_at(3.0).classes[0].paths[0].widths == (4,)
    assert found.plan_at(10.0).average_gpus == pytest.approx(3.0)
    assert found.cheapest_budget_for(0.75) == pytest.approx(3.0)


@pytest.mark.parametrize("integer", [True, False])
def test_the_inverse_gives_the_budget_back(integer: bool) -> None:
    found = frontier([ONE, OTHER, BOUND], integer)
    for budget in np.linspace(found.budget_gpus[0], found.budget_gpus[-1], 23):
        plan = found.plan_at(float(budget))
        assert found.cheapest_budget_for(plan.mean_response_hours) == pytest.approx(budget, rel=1e-9)


@pytest.mark.parametrize("integer", [True, False])
def test_more_time_than_needed_costs_the_least_budget(integer: bool) -> None:
    found = frontier([ONE, OTHER, BOUND], integer)
    assert found.cheapest_budget_for(1e6) == pytest.approx(least_budget_gpus([ONE, OTHER, BOUND]))


@pytest.mark.parametrize("integer", [True, False])
def test_the_inverse_holds_to_the_last_bit_of_both_ends(integer: bool) -> None:
    found = frontier([ONE, OTHER, BOUND], integer)
    for end in (0, -1):
        mean, budget = float(found.mean_response_hours[end]), float(found.budget_gpus[end])
        for near in (math.nextafter(mean, 0.0), mean, math.nextafter(mean, 9.0)):
            assert found.cheapest_budget_for(near) == pytest.approx(budget, rel=1e-9)


@pytest.mark.parametrize("integer", [True, False])
def test_what_no_budget_buys_names_what_one_does(integer: bool) -> None:
    found = frontier([ONE, OTHER, BOUND], integer)
    with pytest.raises(
        InfeasibleError, match=r"mean_response_hours must be >= [\d.]+, .* got 0.01"
    ) as caught:
        found.cheapest_budget_for(0.01)
    named = re.search(r">= ([\d.]+)", str(caught.value))
    assert named is not None
    assert found.cheapest_budget_for(float(named[1])) == pytest.approx(found.budget_gpus[-1], rel=1e-3)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_a_mean_response_must_be_an_amount(wrong: float) -> None:
    with pytest.raises(InputError, match="mean_response_hours must be a finite number > 0"):
        frontier([ONE]).cheapest_budget_for(wrong)


def test_budgets_are_checked_as_the_solver_does() -> None:
    found = frontier([ONE])
    with pytest.raises(InfeasibleError, match="budget_gpus must be >= 1, "):
        found.plan_at(0.5)
    with pytest.raises(InputError, match="budget_gpus must be"):
        found.plan_at(math.nan)
    with pytest.raises(InputError, match="at least one class"):
        frontier([])


def test_samples_among_real_widths_lie_on_the_optimum() -> None:
    found = frontier([ONE, OTHER], integer=False)
    assert len(found) > 100
    for index in range(0, len(found), 17):
        plan = found.plan_at(float(found.budget_gpus[index]))
        assert plan.mean_response_hours == pytest.approx(found.mean_response_hours[index], rel=1e-9)
        assert plan.shadow_price_hours_per_gpu == pytest.approx(
            found.shadow_price_hours_per_gpu[index], rel=0.05
        )


def test_a_class_that_scales_perfectly_is_no_step_at_all() -> None:
    perfect = JobClass(
        Job(name="perfect", work_gpu_hours=1.0, speedup=Linear(), widths=(1, 8)), arrivals_per_hour=1.0
    )
    found = frontier([perfect, ONE])
    assert len(found) == len(frontier([ONE]))
    assert {found.plan_at(gpus).classes[0].paths[0].widths for gpus in found.budget_gpus} == {(8,)}
