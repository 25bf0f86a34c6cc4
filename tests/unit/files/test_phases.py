"""A job that scales differently as it goes on, and one without checkpoints, worked out by hand."""

from __future__ import annotations

import math

import pytest

from slacktide.core.errors import InputError
from slacktide.core.speedup import Linear, Table
from slacktide.core.types import Job, JobState, Phase
from slacktide.physics import progress as physics

TWICE = Table(((1, 1.0), (2, 2.0)))
HALF = Table(((1, 1.0), (2, 1.0)))
"""The first phase is twice as fast on two GPUs, the second is not."""
JOB = Job(widths=(1, 2), phases=(Phase(4.0, TWICE), Phase(3.0, HALF)), restart_hours=0.5)


def test_the_work_of_a_job_is_that_of_its_phases() -> None:
    assert JOB.work_gpu_hours == 7.0
    assert JOB.work_hours(2) == 5.0
    assert JOB.work_hours(1) == 7.0
    assert JOB.fastest_width == 2


def test_a_job_that_names_no_phases_is_one() -> None:
    assert Job(widths=(1,), work_gpu_hours=5.0).parts == (Phase(5.0, Linear()),)


def test_a_stretch_goes_through_phases() -> None:
    terms = physics.terms(JOB)
    state, passed = physics.pass_time(terms, JobState(), 10.0, 3.5, 0, 2, 0)
    assert state.progress_gpu_hours == pytest.approx(4.0 + 1.0)
    assert passed == physics.Passed(3.5, 0.5, 3.0)
    state, passed = physics.pass_time(terms, state, 13.5, 9.0, 0, 2, 0)
    assert state.finish_hours == pytest.approx(15.5)
    assert passed.hours == pytest.approx(2.0)


def test_what_is_left_is_counted_over_the_phases_to_come() -> None:
    terms = physics.terms(JOB)
    assert physics.work_hours(terms, 2.0, 2) == pytest.approx(1.0 + 3.0)
    assert physics.work_hours(terms, 4.0, 2) == pytest.approx(3.0)
    assert physics.on_demand_finish(terms, JobState(), 1.0, 2) == pytest.approx(1.0 + 0.5 + 5.0)


def test_the_next_end_is_that_of_the_phase() -> None:
    terms = physics.terms(JOB)
    assert physics.next_end_hours(terms, JobState()) == math.inf
    held = JobState(on_demand_gpus=2, pause_hours=0.25, progress_gpu_hours=1.0)
    assert physics.next_end_hours(terms, held) == pytest.approx(0.25 + 1.5)
    assert physics.next_end_hours(terms, held._replace(progress_gpu_hours=4.0)) == pytest.approx(3.25)


def test_a_loss_leads_back_into_an_earlier_phase() -> None:
    terms = physics.terms(Job(widths=(1, 2), phases=JOB.phases, checkpoint_hours=3.0))
    state, _ = physics.pass_time(terms, JobState(), 0.0, 2.5, 0, 2, 0)
    assert physics.phase_of(terms, state.progress_gpu_hours) == 1
    assert physics.phase_of(terms, physics.lose(terms, state, 0).progress_gpu_hours) == 0


def test_checkpoints_are_counted_over_phases() -> None:
    terms = physics.terms(Job(widths=(1, 2), phases=JOB.phases, checkpoint_hours=1.5))
    state, _ = physics.pass_time(terms, JobState(), 0.0, 2.5, 0, 2, 0)
    assert state.checkpointed_gpu_hours == pytest.approx(3.0)
    state, _ = physics.pass_time(terms, state, 2.5, 1.0, 0, 2, 0)
    assert state.checkpointed_gpu_hours == pytest.approx(5.0)


def test_without_checkpoints_any_change_begins_anew() -> None:
    terms = physics.terms(Job(widths=(1, 2), work_gpu_hours=9.0, checkpoint_hours=math.inf))
    state, _ = physics.pass_time(terms, JobState(), 0.0, 2.0, 0, 2, 0)
    assert (state.progress_gpu_hours, state.checkpointed_gpu_hours) == (4.0, 0.0)
    assert physics.lose(terms, state, 1).progress_gpu_hours == 0.0
    assert physics.pass_time(terms, state, 2.0, 1.0, 0, 1, 0)[0].progress_gpu_hours == 1.0
    assert physics.pass_time(terms, state, 2.0, 1.0, 0, 0, 0)[0].progress_gpu_hours == 0.0
    assert physics.pass_time(terms, state, 2.0, 1.0, 0, 2, 0)[0].progress_gpu_hours == 6.0


def test_a_job_needs_no_deadline() -> None:
    job = Job(widths=(1,), work_gpu_hours=5.0)
    assert not job.hard
    assert job.on_time(1e9)
    assert physics.terms(job, submitted_hours=3.0).deadline_hours == math.inf


@pytest.mark.parametrize("work", [0.0, -1.0, math.nan, math.inf])
def test_a_phase_must_have_work(work: float) -> None:
    with pytest.raises(InputError, match="work_gpu_hours must be > 0"):
        Phase(work)
