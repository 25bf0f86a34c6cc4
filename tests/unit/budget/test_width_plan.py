"""A budget's answer: never beaten by one width for all, and honest about its neighbours."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.app.fleets.budgets import budget
from slacktide.budget.classes import JobClass
from slacktide.budget.frontier import frontier
from slacktide.budget.width_plan import OneWidths, WidthPlan, one_widths
from slacktide.budget.widths import ClassPlan, PathShare, WidthShare
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Job, Phase
from slacktide.report import words
from slacktide.report.text.tables import budget as say
from slacktide.report.text.tables.budget import notes

A = JobClass(
    Job(name="a", work_gpu_hours=3.0, speedup=Amdahl(0.9), widths=(1, 2, 4, 8)), arrivals_per_hour=2.0
)
B = JobClass(
    Job(name="b", work_gpu_hours=8.0, speedup=Power(0.8), widths=tuple(range(1, 17))), arrivals_per_hour=0.5
)
PHASED = JobClass(
    Job(
        name="c",
        phases=(Phase(4.0, Amdahl(0.8)), Phase(9.0, Amdahl(0.99))),
        restart_hours=0.1,
        widths=(1, 2, 4, 8, 16),
    ),
    arrivals_per_hour=0.2,
)
FLEET = (A, B, PHASED)


def ask(budget_gpus: float, classes: tuple[JobClass, ...] = FLEET, usd: float | None = 2.0) -> WidthPlan:
    return budget(classes, budget_gpus, usd_per_gpu_hour=usd)


speedups: st.SearchStrategy[Speedup] = st.one_of(
    st.floats(0.0, 1.0).map(Amdahl),
    st.floats(0.1, 1.0).map(Power),
    st.floats(0.1, 1.0).map(lambda alpha: Linear(alpha, 1 - alpha)),
    st.lists(st.floats(0.5, 16), min_size=4, max_size=4).map(
        lambda rates: Table(tuple(zip((1.0, 2.0, 4.0, 8.0), rates, strict=True)))
    ),
)
classes = st.builds(
    lambda rate, phases, restart, widths: JobClass(
        Job(name="x", phases=tuple(phases), restart_hours=restart, widths=tuple(widths)),
        arrivals_per_hour=rate,
    ),
    st.floats(0.01, 10),
    st.lists(st.builds(Phase, st.floats(0.1, 50), speedups), min_size=1, max_size=3),
    st.sampled_from([0.0, 0.1, 1.0]),
    st.sets(st.integers(1, 32), min_size=1, max_size=8),
)
fleets = st.lists(classes, min_size=1, max_size=4).map(
    lambda found: tuple(
        JobClass(
            Job(name=f"class-{place}", phases=one.phases, restart_hours=one.restart_hours, widths=one.widths),
            arrivals_per_hour=one.arrivals_per_hour,
        )
        for place, one in enumerate(found)
    )
)


@given(fleets, st.floats(1.0, 4.0))
@settings(deadline=None, max_examples=60)
def test_laws_of_any_answer(fleet: tuple[JobClass, ...], times: float) -> None:
    least = float(frontier(fleet).budget_gpus[0])
    found = ask(least * times, fleet)
    one = found.one_width
    if one is not None:
        assert one.mean_response_hours >= found.plan.mean_response_hours * (1 - 1e-9)
        assert one.average_gpus <= found.plan.budget_gpus * (1 + 1e-9)
        assert sum(share.share for share in one.widths) == pytest.approx(1)
    for step in found.steps():
        assert step.saved_hours * (step.budget_gpus - found.plan.budget_gpus) >= -1e-9
        assert step.mean_response_hours + step.saved_hours == pytest.approx(found.plan.mean_response_hours)
    rows = found.rows()
    assert rows[0].budget_gpus == found.least_budget_gpus
    assert rows[-1].budget_gpus == found.useful_budget_gpus
    for left, right in pairwise(rows):
        assert left.budget_gpus < right.budget_gpus
        assert left.mean_response_hours >= right.mean_response_hours - 1e-12


def test_one_width_is_counted_as_it_would_be_by_hand() -> None:
    found = one_widths((A, B))
    place = found.widths.tolist().index(4)
    hours = 2.0 * 3.0 / Amdahl(0.9)(4) + 0.5 * 8.0 / Power(0.8)(4)
    assert found.mean_response_hours[place] == pytest.approx(hours / 2.5)
    assert found.average_gpus[place] == pytest.approx(4 * hours)


def test_a_class_that_may_not_have_a_width_takes_the_next_narrower() -> None:
    found = one_widths((A, B))
    at = dict(zip(found.widths.tolist(), found.average_gpus.tolist(), strict=True))
    of_a = 4 * 2.0 * 3.0 / Amdahl(0.9)(4)
    assert at[5] == pytest.approx(of_a + 5 * 0.5 * 8.0 / Power(0.8)(5))


def test_one_width_uses_up_the_budget_by_a_mix_of_two() -> None:
    singles = OneWidths(np.array([1.0, 2.0, 3.0]), np.array([4.0, 6.0, 10.0]), np.array([5.0, 2.0, 1.0]))
    middle = singles.best_at(5)
    assert middle is not None
    assert middle.widths == (WidthShare(1, 0.5), WidthShare(2, 0.5))
    assert middle.mean_response_hours == pytest.approx(3.5)
    assert singles.best_at(3.9) is None
    exact, most = singles.best_at(6), singles.best_at(99)
    assert exact is not None
    assert exact.widths == (WidthShare(2, 1),)
    assert most is not None
    assert (most.widths, most.average_gpus) == ((WidthShare(3, 1),), 10)


def test_real_widths_are_at_least_as_good_as_whole_ones() -> None:
    whole, real = ask(16.0), budget(FLEET, 16.0, integer=False)
    assert real.plan.mean_response_hours <= whole.plan.mean_response_hours * (1 + 1e-9)
    assert real.one_width is not None
    assert real.one_width.mean_response_hours >= real.plan.mean_response_hours * (1 - 1e-9)


def test_a_response_is_bought_as_cheaply_as_it_can_be() -> None:
    found = budget(FLEET, mean_response_hours=2.0)
    assert found.plan.mean_response_hours == pytest.approx(2.0)
    assert ask(found.plan.budget_gpus * 0.999).plan.mean_response_hours > 2.0


def test_what_cannot_be_met_names_what_can() -> None:
    with pytest.raises(InfeasibleError, match=r"must be >= 12\.62 GPUs on average \(18,426 usd/month\)"):
        ask(3.0)
    assert ask(12.62).plan.average_gpus == pytest.approx(12.62)
    with pytest.raises(InfeasibleError, match="the fastest on any budget, got 1m"):
        budget(FLEET, mean_response_hours=1 / 60)
    with pytest.raises(InputError, match="got both or neither"):
        budget(FLEET)


def test_steps_stop_where_nothing_is_to_be_had() -> None:
    kinds = {step.kind for step in ask(16.0).steps()}
    assert kinds == {"less", "more", "gpu", "usd", "fastest"}
    assert {step.kind for step in ask(16.0, usd=None).steps()} == kinds - {"usd"}
    assert {step.kind for step in ask(12.62).steps()} == kinds - {"less"}
    rich = ask(1000.0)
    assert rich.saturated
    assert {step.kind for step in rich.steps()} == {"less", "fastest"}


def test_notes_say_what_is_mixed_widest_replaced_and_wasted() -> None:
    bent = JobClass(
        Job(name="bent", work_gpu_hours=1, speedup=Table.of({1: 1, 2: 1.1, 4: 3.0}), widths=(1, 2, 4)),
        arrivals_per_hour=1,
    )
    text = "\n".join(notes(ask(16.0, (A, bent))))
    assert "bent: measured speedups are not concave; their hull replaces 1.1 at 2 GPUs by 1.67" in text
    assert "a month is 730 hours" in text
    assert "assumes that GPUs start and stop instantly" in text
    rich = "\n".join(notes(ask(1000.0)))
    assert "every class is at its fastest" in rich
    assert "money cannot speed them up: a (8), b (16), c (16)" in rich
    mixed = "\n".join(notes(ask(14.0)))
    assert "is mixed to use up the budget" in mixed
    assert "month" not in "\n".join(notes(ask(16.0, usd=None)))


@pytest.mark.parametrize(
    ("widths", "text"),
    [
        ((4,), "4"),
        ((4, 4, 8), "4×2→8"),
        ((2.43,), "2.43"),
        ((1, 2, 4, 8, 16, 32), "1→2→4→…→32"),
        ((8,) * 100, "8×100"),
    ],
)
def test_paths_are_written_short(widths: tuple[float, ...], text: str) -> None:
    assert say.path(widths) == text


def test_ways_name_their_shares() -> None:
    plan = ClassPlan("x", (PathShare((4,), 0.62, 1, 4), PathShare((8,), 0.38, 0.6, 4.8)), 0.85, 3.0)
    assert say.ways(plan) == "4 (62 %), 8 (38 %)"


@pytest.mark.parametrize(
    ("per_hour", "text"),
    [
        (3, "3/hour"),
        (2.5, "2.5/hour"),
        (1 / 24, "1/day"),
        (2 / 168, "2/week"),
        (1 / 1000, "0.168/week"),
        (4990, "4,990/hour"),
    ],
)
def test_rates_have_a_period_that_suits_them(per_hour: float, text: str) -> None:
    assert words.rate(per_hour) == text


def test_savings_say_which_way() -> None:
    assert words.sooner(0.1) == "6m sooner"
    assert words.sooner(-1.5) == "1h30m later"
    assert words.sooner(1e-6) == "the same"
    assert (words.share(0.001), words.share(0.2), words.share(0.0)) == ("< 1 %", "20 %", "0 %")
    assert math.isnan(ask(16.0, usd=None).usd_per_month(1))
