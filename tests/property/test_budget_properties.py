"""Laws of the optimum on a budget that hold for any classes (Hypothesis)."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slacktide.budget.classes import JobClass
from slacktide.budget.frontier import Frontier, frontier
from slacktide.budget.real_widths import real_choices_of
from slacktide.budget.width_options import TIE_SHARE
from slacktide.budget.width_plan import one_widths
from slacktide.budget.widths import least_budget_gpus, optimal_widths
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Job, Phase

shares = st.floats(0.0, 1.0)
work = st.floats(0.01, 20.0)


def twentieths(least: int, most: int) -> st.SearchStrategy[float]:
    """Draw parameters that are equal or clearly apart.

    Widths that differ by 1e-9 in GPU-hours have a slope of 1e9, and rounding the budget is all that counts.
    """
    return st.integers(least, most).map(lambda count: count / 20.0)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    widths = draw(st.lists(st.integers(1, 20), min_size=1, max_size=5, unique=True))
    return Table(tuple((float(width), draw(twentieths(2, 300))) for width in widths))


speedups: st.SearchStrategy[Speedup] = st.one_of(
    st.builds(Amdahl, twentieths(0, 20)),
    st.builds(Power, twentieths(1, 20)),
    st.builds(Linear, twentieths(2, 20), twentieths(0, 20)),
    tables(),
)


@st.composite
def fleets(draw: st.DrawFn, most_phases: int = 4) -> list[JobClass]:
    count = draw(st.integers(1, 4))
    return [
        JobClass(
            Job(
                name=f"class {index}",
                phases=tuple(
                    draw(st.lists(st.builds(Phase, work, speedups), min_size=1, max_size=most_phases))
                ),
                restart_hours=draw(st.sampled_from([0.0, 0.02, 0.5])),
                widths=tuple(draw(st.lists(st.integers(1, 24), min_size=1, max_size=6, unique=True))),
            ),
            arrivals_per_hour=draw(st.floats(0.05, 5.0)),
        )
        for index in range(count)
    ]


def budget_of(found: Frontier, share: float) -> float:
    """Return a budget between the least and a little beyond the greatest useful."""
    least, most = float(found.budget_gpus[0]), float(found.budget_gpus[-1])
    return least + share * 1.1 * (most - least)


@settings(deadline=None)
@given(fleets())
def test_the_frontier_falls_and_is_convex(classes: list[JobClass]) -> None:
    found = frontier(classes)
    budgets, means, prices = found.budget_gpus, found.mean_response_hours, found.shadow_price_hours_per_gpu
    assert (np.diff(budgets) > 0).all()
    assert (np.diff(means) < 1e-14 * means[0]).all()
    assert (np.diff(prices) <= 0).all()
    assert prices[-1] == 0.0
    # The slopes are those of the corners, as exactly as differences of means allow.
    drops = prices[:-1] * np.diff(budgets)
    assert -np.diff(means) == pytest.approx(drops, rel=1e-6, abs=1e-12 * means[0])


@settings(deadline=None)
@given(fleets(), shares)
def test_the_frontier_is_the_optimum_at_any_budget(classes: list[JobClass], share: float) -> None:
    found = frontier(classes)
    budget = budget_of(found, share)
    mine, other = found.plan_at(budget), optimal_widths(classes, budget)
    assert mine.mean_response_hours == pytest.approx(other.mean_response_hours, rel=1e-11)
    assert mine.average_gpus == pytest.approx(other.average_gpus, rel=1e-11)
    along = np.interp(budget, found.budget_gpus, found.mean_response_hours)
    assert mine.mean_response_hours == pytest.approx(along, rel=1e-9)


@settings(deadline=None)
@given(fleets(), shares, st.booleans())
def test_one_class_is_mixed_at_most_and_the_budget_is_kept(
    classes: list[JobClass], share: float, integer: bool
) -> None:
    plan = optimal_widths(classes, budget_of(frontier(classes), share), integer)
    assert sum(len(each.paths) > 1 for each in plan.classes) <= 1
    assert plan.average_gpus <= plan.budget_gpus
    spent = sum(each.average_gpus for each in plan.classes)
    assert plan.average_gpus == pytest.approx(spent, rel=1e-10)
    if plan.shadow_price_hours_per_gpu > 0:
        assert plan.average_gpus == pytest.approx(plan.budget_gpus, rel=1e-7)
    for each in plan.classes:
        gpu_hours = [path.gpu_hours for path in each.paths]
        assert gpu_hours == sorted(gpu_hours)


@settings(deadline=None)
@given(fleets(), shares, st.floats(1e-4, 0.5))
def test_the_shadow_price_is_the_slope_to_the_right(
    classes: list[JobClass], share: float, step: float
) -> None:
    found = frontier(classes)
    budget = budget_of(found, share)
    plan = optimal_widths(classes, budget)
    price, mean = plan.shadow_price_hours_per_gpu, plan.mean_response_hours
    slack = 1e-10 * mean
    more = optimal_widths(classes, budget * (1.0 + step))
    assert mean - more.mean_response_hours <= price * step * budget + slack
    if budget * (1.0 - step) >= found.budget_gpus[0]:
        less = optimal_widths(classes, budget * (1.0 - step))
        assert less.mean_response_hours - mean >= price * step * budget - slack
    ahead = found.budget_gpus[found.budget_gpus > budget * (1.0 + TIE_SHARE)]
    if len(ahead):
        # Up to the next corner the frontier is straight.
        there = optimal_widths(classes, float(ahead[0]))
        assert mean - there.mean_response_hours == pytest.approx(
            price * (ahead[0] - budget), rel=1e-5, abs=slack + 1e-14 * price * budget
        )


@settings(deadline=None)
@given(fleets(), shares)
def test_real_widths_are_never_worse(classes: list[JobClass], share: float) -> None:
    budget = budget_of(frontier(classes), share)
    real = optimal_widths(classes, budget, integer=False)
    assert real.mean_response_hours <= optimal_widths(classes, budget).mean_response_hours * (1.0 + 1e-9)


@settings(deadline=None)
@given(fleets(), shares)
def test_the_inverse_of_the_frontier(classes: list[JobClass], share: float) -> None:
    found = frontier(classes)
    means = found.mean_response_hours
    target = float(means[-1] + share * (means[0] - means[-1]))
    budget = found.cheapest_budget_for(target)
    assert found.plan_at(budget).mean_response_hours == pytest.approx(target, rel=1e-9)


@settings(deadline=None)
@given(fleets(), shares, st.floats(0.1, 10.0))
def test_twice_as_many_jobs_need_twice_the_budget(
    classes: list[JobClass], share: float, ratio: float
) -> None:
    budget = budget_of(frontier(classes), share)
    busier = [replace(each, arrivals_per_hour=ratio * each.arrivals_per_hour) for each in classes]
    plan, other = optimal_widths(classes, budget), optimal_widths(busier, ratio * budget)
    assert plan.mean_response_hours == pytest.approx(other.mean_response_hours, rel=1e-9)


@settings(deadline=None)
@given(fleets(), shares)
def test_the_order_of_classes_does_not_matter(classes: list[JobClass], share: float) -> None:
    budget = budget_of(frontier(classes), share)
    plan, other = optimal_widths(classes, budget), optimal_widths(classes[::-1], budget)
    assert plan.mean_response_hours == pytest.approx(other.mean_response_hours, rel=1e-11)


def restarting(one: JobClass, restart_hours: float) -> JobClass:
    """Return the class with another restart."""
    return replace(one, job=replace(one.job, restart_hours=restart_hours))


@settings(deadline=None)
@given(fleets(most_phases=3), shares)
def test_dearer_restarts_never_help(classes: list[JobClass], share: float) -> None:
    fleets = [[restarting(each, hours) for each in classes] for hours in (0.0, 0.05, 0.5)]
    budget = budget_of(frontier(fleets[-1]), share)
    means = [optimal_widths(each, budget).mean_response_hours for each in fleets]
    assert means[0] <= means[1] * (1.0 + 1e-10)
    assert means[1] <= means[2] * (1.0 + 1e-10)


@settings(deadline=None, max_examples=50)
@given(fleets())
def test_the_least_budget_is_the_least(classes: list[JobClass]) -> None:
    least = least_budget_gpus(classes)
    cheapest = math.fsum(
        each.arrivals_per_hour * fewest_gpu_hours(each) for each in classes if len(each.phases) == 1
    )
    assert least >= cheapest * (1.0 - 1e-9)
    assert optimal_widths(classes, least).average_gpus == pytest.approx(least, rel=1e-11)
    if all(len(each.phases) == 1 for each in classes):
        assert least == pytest.approx(cheapest, rel=1e-9)


def fewest_gpu_hours(each: JobClass) -> float:
    """Return the fewest GPU-hours of a job of one phase, its start included, over the allowed widths."""
    return min(width * (each.restart_hours + alone_hours(each, width)) for width in each.widths)


def alone_hours(each: JobClass, width: float) -> float:
    """Return the hours of work of a job of one phase."""
    return each.work_gpu_hours / each.phases[0].speedup(width)


class Searched:
    """A speedup that the solver knows nothing of but its values."""

    def __init__(self, known: Speedup) -> None:
        self.known = known

    def __call__(self, gpus: float) -> float:
        return self.known(gpus)


@settings(deadline=None)
@given(
    st.lists(st.tuples(work, speedups, st.booleans()), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.02, 0.5, 3.0]),
    st.tuples(st.sampled_from([0.0, 1.0]), st.sampled_from([0.0, 1e-3, 0.1, 1.0, 30.0])).filter(any),
)
@example([(1.0, Table(((1.0, 0.1),)), False)], 0.02, (0.0, 1.0))
@example([(1.0, Linear(1.2, -0.2), False)], 0.5, (0.0, 1.0))
def test_no_real_width_beats_the_one_chosen(
    drawn: list[tuple[float, Speedup, bool]], restart_hours: float, weights: tuple[float, float]
) -> None:
    """What is chosen takes what the definition says, and nothing on a fine grid is better."""
    classes = [
        JobClass(
            Job(
                name=f"class {index}",
                work_gpu_hours=gpu_hours,
                widths=(1, 24),
                speedup=Searched(law) if searched else law,
                restart_hours=restart_hours,
            ),
            arrivals_per_hour=1.0,
        )
        for index, (gpu_hours, law, searched) in enumerate(drawn)
    ]
    choice = real_choices_of(classes).cheapest(*weights).choice
    for each, gpu_hours, hours, width in zip(classes, *choice, strict=True):
        assert hours == pytest.approx(restart_hours + alone_hours(each, width), rel=1e-12)
        assert gpu_hours == pytest.approx(width * hours, rel=1e-12)
        least = min(
            (weights[0] + weights[1] * other) * (restart_hours + alone_hours(each, other))
            for other in np.geomspace(1.0, 24.0, 400)
        )
        assert weights[0] * hours + weights[1] * gpu_hours <= least * (1.0 + 1e-12)


@settings(deadline=None)
@given(speedups, work, st.sampled_from([0.0, 0.02, 0.5]), st.integers(1, 24))
def test_a_start_costs_a_restart(law: Speedup, gpu_hours: float, restart_hours: float, width: int) -> None:
    """The law of the house: alone on k GPUs, a job takes R + X / s(k) hours, all of them billed."""
    only = JobClass(
        Job(name="only", work_gpu_hours=gpu_hours, speedup=law, restart_hours=restart_hours, widths=(width,)),
        arrivals_per_hour=0.7,
    )
    hours = restart_hours + gpu_hours / law(width)
    assert least_budget_gpus([only]) == pytest.approx(0.7 * width * hours, rel=1e-12)
    for integer in (True, False):
        plan = optimal_widths([only], 0.7 * width * hours, integer)
        assert plan.mean_response_hours == pytest.approx(hours, rel=1e-12)
        assert one_widths([only], integer).mean_response_hours == pytest.approx(hours, rel=1e-12)


@settings(deadline=None)
@given(fleets(most_phases=1), shares)
def test_a_start_is_serial_work_of_amdahls_law(classes: list[JobClass], share: float) -> None:
    """A second opinion: a pause before the work is work that no GPU speeds up."""
    paused = [
        replace(each, job=replace(each.job, phases=(Phase(each.work_gpu_hours, Amdahl(0.9)),)))
        for each in classes
    ]
    serial = []
    for each in paused:
        work_gpu_hours = each.work_gpu_hours + each.restart_hours
        law = Amdahl(0.9 * each.work_gpu_hours / work_gpu_hours)
        job = replace(each.job, phases=(Phase(work_gpu_hours, law),), restart_hours=0.0)
        serial.append(replace(each, job=job))
    budget = budget_of(frontier(serial), share)
    for integer in (True, False):
        mine, other = optimal_widths(paused, budget, integer), optimal_widths(serial, budget, integer)
        assert mine.mean_response_hours == pytest.approx(other.mean_response_hours, rel=1e-9)
