"""Jobs check themselves at the door and know what a result is worth."""

from __future__ import annotations

import math
from typing import Any

import pytest

from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table, concave_hull
from slacktide.core.types import Allocation, Job, PoolChoice, Reason
from tests import build


def job(**given: Any) -> Job:
    return build.job(**{"work_gpu_hours": 10.0, "deadline_hours": 8.0, "widths": (1, 2), **given})


def test_hard_deadline_is_worth_all_or_nothing() -> None:
    one = job(value_usd=100.0)
    assert one.hard
    assert [one.value_at(hours) for hours in (7.9, 8.0, 8.1)] == [100.0, 100.0, 0.0]


def test_soft_value_falls_in_a_straight_line() -> None:
    one = job(value_usd=100.0, worthless_after_hours=12.0)
    assert not one.hard
    assert one.value_at(8.0) == 100.0
    assert one.value_at(9.0) == pytest.approx(75.0)
    assert one.value_at(12.0) == 0.0
    assert one.value_at(math.inf) == 0.0


def test_widths_are_sorted_and_single() -> None:
    assert job(widths=(4, 1, 4, 2)).widths == (1, 2, 4)


def test_fastest_width_is_the_smallest_of_the_quickest() -> None:
    assert job(widths=(1, 2, 4), speedup=Table.of({1: 1, 2: 1.9, 4: 1.5})).fastest_width == 2
    assert job(widths=(1, 2, 4), speedup=Amdahl(0.0)).fastest_width == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"work_gpu_hours": 0}, "work_gpu_hours must be > 0, got 0"),
        ({"work_gpu_hours": math.nan}, "work_gpu_hours must be > 0, got nan"),
        ({"deadline_hours": -1}, "deadline_hours must be > 0, got -1"),
        ({"widths": ()}, "at least one width"),
        ({"widths": (0, 1)}, r"in 1\.\.4096, got 0"),
        ({"widths": (5000,)}, "got 5000"),
        ({"restart_hours": -0.1}, "restart_hours must be >= 0"),
        ({"restart_hours": 0.1, "shrink_hours": 0.2}, "shrink_hours must be <= restart_hours"),
        ({"worthless_after_hours": 7.0}, "worthless_after_hours must be >= deadline_hours"),
        ({"max_cost_usd": 0.0}, "max_cost_usd must be > 0"),
        ({"billing": "month"}, "billing must be"),
        ({"value_usd": -5.0}, "value_usd must be >= 0"),
    ],
)
def test_impossible_job_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        job(**given)


@pytest.mark.parametrize(
    ("speedup", "values"),
    [
        (Linear(0.9, 0.1), {0: 0.0, 1: 1.0, 4: 3.7}),
        (Amdahl(0.8), {0: 0.0, 1: 1.0, 4: 2.5}),
        (Power(0.5), {0: 0.0, 1: 1.0, 4: 2.0}),
        (Table.of({1: 1.0, 2: 1.2, 4: 3.0}), {0: 0.0, 1: 1.0, 2: 5 / 3, 3: 7 / 3, 4: 3.0, 9: 3.0}),
    ],
)
def test_speedups(speedup: Speedup, values: dict[int, float]) -> None:
    assert {gpus: speedup(gpus) for gpus in values} == pytest.approx(values)


def test_hull_leaves_out_what_lies_below_it() -> None:
    assert concave_hull(((0, 0), (1, 1), (2, 1.2), (4, 3))) == ((0, 0), (1, 1), (4, 3))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Linear(0.0), "alpha must be > 0"),
        (lambda: Linear(0.5, -0.6), r"alpha \+ beta must be > 0"),
        (lambda: Amdahl(1.2), r"in \[0, 1\], got 1.2"),
        (lambda: Power(0.0), r"in \(0, 1\], got 0"),
        (lambda: Table(()), "at least one width"),
        (lambda: Table.of({0: 1.0}), "width must be >= 1"),
        (lambda: Table.of({1: -1.0}), "at 1 GPUs must be > 0"),
        (lambda: Table(((1.0, 1.0), (1.0, 2.0))), "got 1 twice"),
    ],
)
def test_impossible_speedup_is_refused(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_reason_reads_as_a_sentence_part() -> None:
    assert str(Reason("behind-line", {"progress": 3.25})) == "behind-line (progress=3.25)"
    assert str(Allocation(1, 2, reason=Reason("x")).reason) == "x"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"checkpoint_gb": -1.0}, "checkpoint_gb must be >= 0, got -1"),
        ({"checkpoint_gb": math.inf}, "checkpoint_gb must be >= 0"),
        ({"pools": (PoolChoice("A100", speed=0.0),)}, "the speed of A100 must be > 0 and finite, got 0"),
        ({"pools": (PoolChoice("A100", speed=math.nan),)}, "the speed of A100 must be > 0"),
        ({"pools": (PoolChoice("A100", widths=(2, 4)),)}, "must be widths of the job, got 4 for A100"),
    ],
)
def test_choices_of_pools_are_checked(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        job(**given)


def test_a_job_with_choices_may_be_kept_by_value() -> None:
    choices = (PoolChoice("H100", "gcp", (1, 2)), PoolChoice("A100", speed=0.5))
    assert len({job(pools=choices), job(pools=choices), job()}) == 2
