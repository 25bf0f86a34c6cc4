"""Optimal widths: the published figures, the budget met exactly, and errors that help."""

from __future__ import annotations

import math
import re

import pytest

import slacktide
from slacktide.budget.classes import JobClass
from slacktide.budget.widths import least_budget_gpus, optimal_widths
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Job, Phase

PAPER = (
    JobClass(Job(name="amdahl", work_gpu_hours=1.0, speedup=Amdahl(0.8)), arrivals_per_hour=0.4),
    JobClass(Job(name="root", work_gpu_hours=1.0, speedup=Power(0.5)), arrivals_per_hour=0.4),
)


def one(speedup: Speedup, *, widths: tuple[int, ...] = (1, 2, 4, 8), name: str = "one") -> JobClass:
    return JobClass(Job(name=name, work_gpu_hours=2.0, speedup=speedup, widths=widths), arrivals_per_hour=0.5)


class Rooted:
    """A speedup that the solver knows nothing of: the root, written by a user."""

    def __call__(self, gpus: float) -> float:
        return math.sqrt(gpus)


class Jump:
    """A speedup that is not concave: nothing is gained before 4 GPUs."""

    def __call__(self, gpus: float) -> float:
        return 1.0 if gpus < 4 else 3.0


@pytest.mark.parametrize(
    ("budget", "first", "second", "response"),
    [
        (0.85, 1.625, 1.0, 0.846),
        (0.9, 2.071, 1.073, 0.776),
        (1.0, 2.429, 1.474, 0.676),
        (1.5, 4.214, 4.440, 0.432),
        (2.0, 6.0, 9.0, 0.3333),
        (3.0, 9.571, 22.903, 0.246),
    ],
)
def test_published_optima(budget: float, first: float, second: float, response: float) -> None:
    plan = optimal_widths(PAPER, budget, integer=False)
    widths = [each.paths[0].widths[0] for each in plan.classes]
    assert widths == pytest.approx([first, second], abs=5e-4)
    assert plan.mean_response_hours == pytest.approx(response, abs=5e-4)
    assert plan.average_gpus == pytest.approx(budget, rel=1e-10)


def test_one_class_mixes_two_widths_by_hand() -> None:
    # 1 GPU: 2 h and 2 GPU-hours; 2 GPUs: 1.2 h and 2.4; 4 GPUs: 0.8 h and 3.2. 0.5 jobs an hour, 1.1 GPUs.
    plan = optimal_widths([one(Amdahl(0.8))], 1.1)
    narrow, wide = plan.classes[0].paths
    assert (narrow.widths, wide.widths) == ((1,), (2,))
    assert narrow.share == pytest.approx(0.5)
    assert wide.share == pytest.approx(0.5)
    assert plan.mean_response_hours == pytest.approx(1.6)
    assert plan.average_gpus == pytest.approx(1.1)
    assert plan.shadow_price_hours_per_gpu == pytest.approx(0.8 / 0.2)


def test_at_a_corner_the_shadow_price_is_what_the_next_gpu_buys() -> None:
    plan = optimal_widths([one(Amdahl(0.8))], 1.2)
    assert [path.widths for path in plan.classes[0].paths] == [(2,)]
    assert plan.shadow_price_hours_per_gpu == pytest.approx(0.4 / 0.4)


@pytest.mark.parametrize("integer", [True, False])
def test_a_budget_beyond_use_is_not_spent(integer: bool) -> None:
    plan = optimal_widths([one(Amdahl(0.8))], 50.0, integer)
    assert plan.classes[0].paths[0].widths == (8,)
    assert plan.average_gpus == pytest.approx(0.5 * 2.0 * 8 * 0.3)
    assert plan.shadow_price_hours_per_gpu == 0.0


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("speedup", [Linear(), Linear(0.7), Amdahl(1.0), Power(1.0)], ids=repr)
def test_perfect_scaling_is_served_at_the_greatest_width_on_the_least_budget(
    speedup: Speedup, integer: bool
) -> None:
    job_class = one(speedup, widths=tuple(range(1, 50)))
    least = least_budget_gpus([job_class])
    plan = optimal_widths([job_class], least, integer)
    assert plan.classes[0].paths[0].widths == (49,)
    assert len(plan.classes[0].paths) == 1
    assert plan.shadow_price_hours_per_gpu == 0.0


def test_a_speedup_that_stays_flat_takes_no_more_than_it_uses() -> None:
    plan = optimal_widths([one(Table.of({1: 1.0, 2: 1.8, 4: 1.8, 8: 1.8}))], 100.0)
    assert plan.classes[0].paths[0].widths == (2,)


def test_a_width_that_is_slower_is_never_taken() -> None:
    plan = optimal_widths([one(Table.of({1: 1.0, 2: 1.8, 4: 2.0, 8: 1.5}))], 100.0)
    assert plan.classes[0].paths[0].widths == (4,)


@pytest.mark.parametrize("integer", [True, False])
def test_a_start_and_a_change_of_width_are_paid_at_the_new_width(integer: bool) -> None:
    job_class = JobClass(
        Job(
            name="two",
            restart_hours=0.5,
            widths=(1, 4),
            phases=(Phase(1.0, Table.of({1: 1.0, 4: 1.0})), Phase(8.0, Linear())),
        ),
        arrivals_per_hour=1.0,
    )
    # Narrow, then wide: 0.5 + 1 + 0.5 + 2 hours, 0.5 + 1 + 4 * 0.5 + 8 GPU-hours; always wide: 3.5 hours,
    # 14 GPU-hours; always narrow: 9.5 of both.
    plan = optimal_widths([job_class], 11.5, integer)
    path = plan.classes[0].paths[0]
    assert path.widths == (1, 4)
    assert (path.response_hours, path.gpu_hours) == pytest.approx((4.0, 11.5))
    assert optimal_widths([job_class], 14.0, integer).mean_response_hours == pytest.approx(3.5)
    assert least_budget_gpus([job_class]) == pytest.approx(9.5)


def test_phases_without_restarts_are_mixed_one_at_a_time() -> None:
    job_class = JobClass(
        Job(name="two", widths=(1, 2, 3), phases=(Phase(1.0, Amdahl(0.5)), Phase(1.0, Power(0.5)))),
        arrivals_per_hour=1.0,
    )
    plan = optimal_widths([job_class], 2.2)
    narrow, wide = plan.classes[0].paths
    assert sum(a != b for a, b in zip(narrow.widths, wide.widths, strict=True)) == 1
    assert narrow.gpu_hours < wide.gpu_hours
    assert plan.average_gpus == pytest.approx(2.2, rel=1e-14)


def test_a_users_own_speedup_is_searched() -> None:
    mine = JobClass(Job(name="root", work_gpu_hours=1.0, speedup=Rooted()), arrivals_per_hour=0.4)
    plan, known = (optimal_widths([PAPER[0], root], 1.5, integer=False) for root in (mine, PAPER[1]))
    assert plan.mean_response_hours == pytest.approx(known.mean_response_hours, rel=1e-12)
    assert plan.classes[1].paths[0].widths == pytest.approx(known.classes[1].paths[0].widths, rel=1e-6)
    assert plan.average_gpus == pytest.approx(1.5, rel=1e-7)


@pytest.mark.parametrize("integer", [True, False])
def test_a_speedup_that_is_not_concave_is_mixed(integer: bool) -> None:
    plan = optimal_widths([one(Jump(), widths=(1, 2, 4))], 1.1, integer)
    narrow, wide = plan.classes[0].paths
    assert (narrow.widths, wide.widths) == ((1,), (4,))
    assert plan.average_gpus == pytest.approx(1.1)


@pytest.mark.parametrize("speedup", [Linear(0.5, 0.5), Table.of({1: 1.0, 8: 4.5})], ids=["linear", "table"])
def test_real_widths_need_no_mix_where_scaling_is_straight(speedup: Speedup) -> None:
    plan = optimal_widths([one(speedup)], 1.3, integer=False)
    (path,) = plan.classes[0].paths
    (width,) = path.widths
    assert 1.0 < width < 8.0
    assert path.response_hours == pytest.approx(2.0 / speedup(width))
    assert plan.average_gpus == pytest.approx(1.3)
    assert plan.mean_response_hours == pytest.approx(optimal_widths([one(speedup)], 1.3).mean_response_hours)


@pytest.mark.parametrize("integer", [True, False])
def test_too_small_a_budget_names_one_that_works(integer: bool) -> None:
    classes = [one(Amdahl(0.8), name="a"), one(Power(0.3), name="b", widths=(3, 5))]
    with pytest.raises(InfeasibleError, match=r"budget_gpus must be >= [\d.]+, .* got 0.1") as caught:
        optimal_widths(classes, 0.1, integer)
    named = re.search(r">= ([\d.]+)", str(caught.value))
    assert named is not None
    assert optimal_widths(classes, float(named[1]), integer).average_gpus <= float(named[1])
    assert float(named[1]) == pytest.approx(least_budget_gpus(classes), rel=1e-5)


@pytest.mark.parametrize("budget", [-1.0, math.nan, math.inf])
def test_a_budget_must_be_an_amount(budget: float) -> None:
    with pytest.raises(InputError, match="budget_gpus must be a finite number >= 0"):
        optimal_widths(PAPER, budget)


def test_classes_must_be_there_and_have_names_of_their_own() -> None:
    with pytest.raises(InputError, match="at least one class of jobs, got none"):
        optimal_widths([], 1.0)
    with pytest.raises(InputError, match="name of its own, got 'root' twice"):
        optimal_widths([*PAPER, PAPER[1]], 1.0)


def test_the_package_offers_it() -> None:
    assert slacktide.optimal_widths is optimal_widths
    assert (slacktide.JobClass, slacktide.Phase) == (JobClass, Phase)
