"""A class of a stream is a template of a job with a rate."""

from __future__ import annotations

import math
from typing import Any

import pytest

from slacktide.budget.classes import JobClass
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl, Power
from slacktide.core.types import ANY_WIDTH, Job, Phase
from slacktide.core.units import MAX_GPUS


def test_a_class_reads_as_its_template() -> None:
    job = Job(name="bert", work_gpu_hours=3.0, speedup=Amdahl(0.9), restart_hours=0.1, widths=(4, 1, 2))
    found = JobClass(job, arrivals_per_hour=2.0)
    assert (found.name, found.work_gpu_hours, found.restart_hours) == ("bert", 3.0, 0.1)
    assert (found.widths, found.phases) == ((1, 2, 4), (Phase(3.0, Amdahl(0.9)),))
    assert found.load_gpus == 6.0


def test_the_phases_are_those_of_the_template() -> None:
    phases = (Phase(1.0, Amdahl(0.5)), Phase(2.0, Power(0.5)))
    found = JobClass(Job(phases=phases), arrivals_per_hour=1.0)
    assert (found.phases, found.work_gpu_hours) == (phases, 3.0)
    assert found.widths is ANY_WIDTH


@pytest.mark.parametrize("rate", [0.0, -1.0, math.inf, math.nan])
def test_a_rate_must_be_an_amount(rate: float) -> None:
    with pytest.raises(InputError, match="class 'bert': arrivals_per_hour must be > 0, got"):
        JobClass(Job(name="bert", work_gpu_hours=1.0), arrivals_per_hour=rate)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("deadline_hours", 3.0),
        ("checkpoint_hours", 1.0),
        ("shrink_hours", 0.0),
        ("max_cost_usd", 9.0),
        ("value_usd", 5.0),
        ("billing", "slot"),
    ],
)
def test_what_a_stream_does_not_heed_is_refused(name: str, value: Any) -> None:
    job = Job(work_gpu_hours=1.0, **{name: value})
    with pytest.raises(InputError, match=f"class 'job': {name} must be left out .*, got {value}") as caught:
        JobClass(job, arrivals_per_hour=1.0)
    assert caught.value.field == name


@pytest.mark.parametrize("widths", [(), (0, 1), (1, MAX_GPUS + 1)])
def test_a_template_is_checked_as_any_job(widths: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="width"):
        Job(work_gpu_hours=1.0, widths=widths)


def test_a_users_own_speedup_is_asked_at_every_width() -> None:
    def dips(gpus: float) -> float:
        return 0.0 if gpus == 500 else gpus

    with pytest.raises(InputError, match="speedup at 500 GPUs must be > 0, got 0"):
        Job(work_gpu_hours=1.0, speedup=dips)
