"""Speedups by phase: they add up to the whole job's, early phases scale worse, restarts go by model size."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.budget.classes import JobClass
from slacktide_papers.budget.applications import (
    MODELS,
    NOISE_GROWTH,
    PHASES,
    STATISTICAL_SHARE,
    flat,
    hull_error,
    phase_speedups,
    phased,
    restart_hours_of,
)
from slacktide_papers.budget.fleets import TRAINING_CLASSES

WIDTHS = (1, 2, 4, 16, 64)


@pytest.mark.parametrize("one", TRAINING_CLASSES, ids=lambda one: one.name)
def test_times_of_all_phases_add_up_to_the_whole_jobs(one: JobClass) -> None:
    speedup = one.job.speedup
    whole = 1.0 / np.array([speedup(width) for width in WIDTHS])
    assert (1.0 / phase_speedups(speedup, WIDTHS)).mean(axis=0) == pytest.approx(whole)


def test_later_phases_scale_better_and_none_better_than_in_proportion() -> None:
    found = phase_speedups(TRAINING_CLASSES[1].job.speedup, WIDTHS)
    assert found[:, 0] == pytest.approx(1.0)
    assert (np.diff(found[:, 1:], axis=0) > 0).all()
    assert (found <= np.array(WIDTHS) * (1 + 1e-12)).all()


def test_what_a_phase_wastes_is_the_inverse_of_its_noise() -> None:
    speedup = TRAINING_CLASSES[1].job.speedup
    first, *_, last = phase_speedups(speedup, (16,))[:, 0]
    throughput = speedup(16) + STATISTICAL_SHARE * (16 - speedup(16))
    assert (throughput / first - 1) / (throughput / last - 1) == pytest.approx(NOISE_GROWTH)


def test_a_phased_class_keeps_its_work_and_knows_its_whole_speedup() -> None:
    one = TRAINING_CLASSES[2]
    made = phased(one)
    assert len(made.phases) == PHASES
    assert made.work_gpu_hours == pytest.approx(one.work_gpu_hours)
    assert made.widths == (1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64)
    assert hull_error(one, made) == pytest.approx(0.0, abs=1e-12)
    assert flat(made).phases[0].speedup == one.job.speedup
    assert flat(made).restart_hours == made.restart_hours


def test_restarts_go_from_15_seconds_to_5_minutes_by_model() -> None:
    seconds = [round(restart_hours_of(model.application) * 3600) for model in MODELS]
    assert seconds == [15, 27, 50, 91, 165, 300]
    assert [round(restart_hours_of(model.synthetic) * 3600) for model in MODELS] == seconds
    assert restart_hours_of("unheard of") * 3600 == pytest.approx((15 * 300) ** 0.5)


def test_models_are_those_of_the_synthetic_stream() -> None:
    rates = {one.name: one.arrivals_per_hour for one in TRAINING_CLASSES}
    assert {model.synthetic: model.jobs_per_hour for model in MODELS} == rates
