"""Jobs as they are: silent ones, ones without checkpoints, ones that say less than they did."""

from __future__ import annotations

import math

import pytest

from slacktide.backends.base import JobProgress
from slacktide.engine.job.retry_limits import RetryLimits
from slacktide.journal.events import Decided, Lived, Lost, Preempted, PreemptionAsked, Resumed, Stalled

from .test_engine import Bench, context


def live(where: Bench, *hours: float, done: float | None = None, saved: str = "assumed") -> None:
    """Step with workers that are really there and report so much."""
    where.backend.finished, where.backend.gone = False, False
    if done is not None:
        where.backend.progress = JobProgress(done, done, hours[0], saved)  # type: ignore[arg-type]
    where.step(*hours)


def test_a_loss_takes_all_work_of_a_job_without_checkpoints() -> None:
    bench = Bench(context(checkpoint_hours=math.inf))
    bench.step(0.0, 0.5)
    bench.store.append([PreemptionAsked(job="job", at_hours=0.5, actor="user", spot_gpus=2)])
    bench.step(0.75)
    (taken,) = bench.events(Preempted)
    assert isinstance(taken, Preempted)
    assert taken.lost_gpu_hours == pytest.approx(4 * 0.75)
    assert bench.record.progress.state.progress_gpu_hours == 0.0
    bench.step(1.0)
    assert bench.record.progress.lost_gpu_hours == pytest.approx(3.0)


def test_a_change_of_workers_says_what_it_throws_away() -> None:
    bench = Bench(context("on-demand", checkpoint_hours=math.inf))
    bench.step(0.0, 0.5)
    bench.engine.release()
    bench.step(0.75, 0.8)
    again = Bench.reopened(bench)
    again.step(1.0)
    last = [event for event in bench.events(Decided) if isinstance(event, Decided)][-1]
    assert last.lost_gpu_hours > 0
    assert again.state.jobs["job"].progress.lost_gpu_hours == pytest.approx(last.lost_gpu_hours)


def test_who_only_says_how_much_is_done_has_nothing_safe_without_checkpoints() -> None:
    bench = Bench(context(checkpoint_hours=math.inf))
    live(bench, 0.0, 0.1)
    live(bench, 0.5, done=0.25)
    assert bench.record.progress.state.progress_gpu_hours == pytest.approx(3.0)
    assert bench.record.progress.state.checkpointed_gpu_hours == 0.0
    live(bench, 1.0, done=0.5, saved="said")
    assert bench.record.progress.state.checkpointed_gpu_hours == pytest.approx(6.0), "who says so is believed"


def test_what_is_printed_is_safe_up_to_an_interval() -> None:
    bench = Bench(context(checkpoint_hours=0.25))
    live(bench, 0.0, 0.1)
    live(bench, 0.5, done=0.25, saved="unknown")
    assert bench.record.progress.state.checkpointed_gpu_hours == pytest.approx(3.0 - 4 * 0.25)


def test_work_lost_is_what_was_measured() -> None:
    bench = Bench(context())
    live(bench, 0.0, 0.1)
    live(bench, 0.5, done=0.25)
    bench.store.append([PreemptionAsked(job="job", at_hours=0.5, actor="user", spot_gpus=2)])
    live(bench, 0.6)
    assert bench.record.progress.lost_gpu_hours == 0.0, "it had said that all was safe"
    bench.backend.progress = JobProgress(0.25, 0.25, -math.inf)
    live(bench, 0.7)
    assert not bench.events(Resumed)
    live(bench, 0.8, done=0.1)
    (resumed,) = bench.events(Resumed)
    assert isinstance(resumed, Resumed)
    assert (resumed.before_gpu_hours, resumed.after_gpu_hours) == pytest.approx((3.0, 1.2))
    assert bench.record.progress.lost_gpu_hours == pytest.approx(1.8)
    live(bench, 1.0, done=0.4)
    assert len(bench.events(Resumed)) == 1


def test_a_job_that_hangs_is_told_what_to_do_about_it_unless_it_never_may() -> None:
    bench = Bench(context(patience=RetryLimits(silent_s=60)))
    bench.step(0.0, 0.1)
    bench.backend.silent_s = 61.0
    bench.step(0.2)
    (stalled,) = bench.events(Stalled)
    assert "hang_after" in stalled.why
    assert "never" in stalled.why
    patient = Bench(context(patience=RetryLimits(silent_s=math.inf)))
    patient.backend.silent_s = 1e9
    patient.step(0.0, 0.1, 0.2)
    assert not patient.events(Stalled, Lost)


def test_progress_that_nobody_reports_is_said_to_be_an_estimate() -> None:
    bench = Bench(context())
    live(bench, 0.0, 0.1, 0.5)
    assert bench.events(Lived)
    assert bench.record.progress.estimated
    live(bench, 1.0, done=0.5)
    assert not bench.record.progress.estimated
    dry = Bench(context())
    dry.step(0.0, 0.5)
    assert not dry.record.progress.estimated, "in a dry run nothing is real"
