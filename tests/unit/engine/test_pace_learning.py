"""What reports teach of a job: its pace, its restarts, its checkpoints; and what silence means."""

from __future__ import annotations

import dataclasses
import math

import pytest

from slacktide.backends.base import JobProgress
from slacktide.core.types import Job
from slacktide.engine.bills.bill import as_measured, bill
from slacktide.journal.events import HealthChanged, PaceRevised
from slacktide.physics.pace import (
    USUAL_SPREAD,
    believed,
    mean_factor,
    prior,
    safe,
    see_checkpoint,
    see_restart,
)
from slacktide.physics.progress import terms
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.report.live.lines import EventLines

from .parts_of_machines import SUBMITTED, Bench, context

HALF = 0.5
"""The pace of these workers over that of their file: 4 GPU-hours an hour, so 0.1 of the work."""


def at_half_pace(bench: Bench, *hours: float, first_hours: float = 0.2) -> None:
    """Let workers report at each step that they go half as fast as said, from their first report on."""
    for now in hours:
        done = HALF * 0.1 * (now - first_hours)
        saved = math.floor(done / 0.01) * 0.01
        bench.machine.says(attempt=1, progress=JobProgress(done, saved, now))
        bench.step(now)


def measured(bench: Bench) -> list[PaceRevised]:
    return [event for event in bench.events(PaceRevised) if isinstance(event, PaceRevised)]


def test_pace_restart_and_checkpoints_are_measured_from_reports() -> None:
    bench = Bench(context(work_spread=USUAL_SPREAD, restart_hours=0.1))
    bench.step(0.0, 0.1)
    at_half_pace(bench, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.1)
    first, *others = measured(bench)
    assert first.pace.restart_hours == pytest.approx(0.2)
    assert first.measured_hours == 0.0
    assert "12.0 minutes from the order" in first.why
    last = others[-1].pace
    assert mean_factor(last, 4) == pytest.approx(HALF, rel=0.02)
    assert last.restarts == 1.0
    assert last.checkpoints > 0
    assert last.checkpoint_hours == pytest.approx(0.2, abs=0.11)
    assert "its file says 40.0" in others[-1].why


def test_a_restart_of_workers_that_stay_begins_when_they_are_told_to_re_form() -> None:
    bench = Bench(context(work_spread=USUAL_SPREAD, restart_hours=0.1))
    bench.step(0.0)
    bench.machine.says(attempt=1, progress=JobProgress(0.01, 0.01, 0.1), reform_hours=math.inf)
    bench.step(0.1, 0.2)
    assert not measured(bench), "until then the old set works on"
    bench.machine.says(attempt=1, progress=JobProgress(0.02, 0.02, 0.3), reform_hours=0.25)
    bench.step(0.3)
    (first,) = measured(bench)
    assert first.pace.restart_hours == pytest.approx(0.05)
    assert "3.0 minutes from the request to re-form" in first.why


def test_a_controller_that_comes_later_measures_no_restart() -> None:
    bench = Bench(context(work_spread=USUAL_SPREAD))
    bench.step(0.0)
    bench.reopened()
    bench.machine.says(attempt=1, progress=JobProgress(0.05, 0.05, 1.0))
    bench.step(1.0)
    assert all(event.pace.restarts == 0.0 for event in measured(bench))


def test_a_job_that_reports_nothing_is_taken_at_its_files_word_until_it_reports() -> None:
    bench = Bench(context(work_spread=USUAL_SPREAD, restart_hours=0.1))
    bench.step(0.0, 0.2, 0.5)
    (silent,) = measured(bench)
    assert math.isinf(silent.pace.hours)
    assert "no progress" in silent.why
    bench.step(0.8, 1.0, 1.5)
    assert len(measured(bench)) == 1, "it is said once"
    for now in (1.6, 1.8, 2.0, 2.1):
        bench.machine.says(attempt=1, progress=JobProgress(HALF * 0.1 * now, 0.0, now))
        bench.step(now)
    assert mean_factor(measured(bench)[-1].pace, 4) == pytest.approx(HALF, rel=0.05)


def test_a_margin_that_a_file_states_is_kept_in_silence() -> None:
    bench = Bench(context(work_spread=0.3, restart_hours=0.1))
    bench.step(0.0, 0.2, 0.5)
    (silent,) = measured(bench)
    assert silent.pace.variance == prior(0.3).variance
    assert math.isfinite(silent.pace.hours)


def test_a_job_whose_file_is_certain_is_never_measured() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.1)
    at_half_pace(bench, 0.2, 0.4, 0.6, 1.0, 1.1)
    assert not measured(bench)


def test_the_outlook_goes_by_the_evidence() -> None:
    bench = Bench(context(work_spread=USUAL_SPREAD, deadline_hours=11.0))
    bench.step(0.0, 0.1)
    at_half_pace(bench, 0.2, 0.4, 0.6, 1.0, 1.1, 1.6)
    words = [event.health for event in bench.events(HealthChanged) if isinstance(event, HealthChanged)]
    assert words[0] == "measuring"
    assert words[-1] == "late", "40 GPU-hours at half the pace take 20 hours"


def test_a_bill_compares_with_the_work_as_it_was_measured() -> None:
    bench = Bench(context(work_spread=USUAL_SPREAD))
    believed_bill = bill(bench.record, bench.job_context)
    bench.step(0.0, 0.1)
    at_half_pace(bench, 0.2, 0.4, 0.6, 1.0, 1.1, 1.6, 2.1)
    found = bill(bench.record, bench.job_context)
    assert found.measured_work_gpu_hours == pytest.approx(80.0, rel=0.1), (
        "on 1 GPU, where nothing was measured"
    )
    assert found.on_demand_alone_usd is not None
    assert believed_bill.on_demand_alone_usd is not None
    assert found.on_demand_alone_usd == pytest.approx(2 * believed_bill.on_demand_alone_usd, rel=0.05)
    phased = as_measured(
        bench.record, dataclasses.replace(bench.job_context.job, phases=bench.job_context.job.parts)
    )
    assert phased.work_hours(4) == pytest.approx(20.0, rel=0.05)


def lived_at_half_pace(spread: float) -> float:
    """Let a job that is twice as slow as its file run where there is no spot; return when it was done.

    Its policy waits for spot to the last moment, so only the guard brings it home.
    """
    waits = DeadlineGuard(policies.make("maximal-spot"))
    bench = Bench(
        context(
            waits, offered=0, widths=(1, 2, 4), deadline_hours=24.0, restart_hours=0.1,
            checkpoint_hours=0.25, work_spread=spread,
        )
    )  # fmt: skip
    done = saved = began = 0.0
    attempt, ticks = 0, 0
    while bench.record.ended is None and ticks < 600:
        now = ticks * 0.1
        order = bench.machine.orders[-1] if bench.machine.orders else None
        if order is not None and order.gpus and not order.ending:
            if order.attempt != attempt:
                attempt, began, done = order.attempt, now, saved
            if now > began + 0.1:
                done = min(1.0, done + HALF * order.gpus * 0.1 / 40.0)
                saved = math.floor(done / 0.02) * 0.02
                told = JobProgress(done, saved, now)
                end = {"finished": True, "gone": True, "until_hours": now} if done == 1.0 else {}
                bench.machine.says(attempt=attempt, progress=told, **end)
            else:
                bench.machine.says(attempt=attempt, progress=JobProgress(saved, saved))
        else:
            bench.machine.says()
        bench.step(now)
        ticks += 1
    assert bench.record.ended is not None
    return float(bench.record.ended.finish_hours)


def test_a_job_twice_as_slow_as_its_file_is_in_time_unless_the_file_is_believed() -> None:
    assert lived_at_half_pace(USUAL_SPREAD) <= 24.0, "on demand from the start takes 20.1 hours"
    assert lived_at_half_pace(0.0) > 24.0


def test_restarts_are_believed_by_their_mean_and_kept_safe_by_their_spread() -> None:
    told = terms(Job(work_gpu_hours=40.0, deadline_hours=20.0, widths=(1, 2, 4), restart_hours=0.1))
    pace = prior(0.3)
    for hours in (0.3, 0.5, 0.4):
        pace = see_restart(pace, hours)
    for hours in (0.2, 0.4):
        pace = see_checkpoint(pace, hours)
    mean = believed(told, pace)
    assert mean.restart_hours == pytest.approx((0.25 * 0.1 + 1.2) / 3.25)
    assert mean.shrink_hours == pytest.approx(mean.restart_hours)
    assert mean.checkpoint_hours == pytest.approx(0.3)
    slow = safe(mean, pace, 0.0, 0.5, 1.5)
    assert slow.restart_hours == pytest.approx(
        mean.restart_hours + 1.5 * math.sqrt(((0.2 * mean.restart_hours) ** 2 + 0.02) / 3)
    )


def test_only_a_pace_that_moved_is_told_in_a_log() -> None:
    event_lines = EventLines()
    event_lines.line(SUBMITTED)

    def told(mean: float, restart_hours: float = 0.0) -> bool:
        pace = prior(0.3)._replace(mean=mean, hours=1.0, restart_hours=restart_hours)
        return (
            event_lines.news(PaceRevised(job="job", at_hours=1.0, gpus=4, measured_hours=0.5, pace=pace))
            is not None
        )

    assert told(-0.5)
    assert not told(-0.52)
    assert told(-0.56)
    assert not told(-0.53)
    assert told(-0.53, restart_hours=0.2)
    assert not told(-0.53, restart_hours=0.25)


def test_a_silent_job_that_goes_on_after_the_work_of_its_file_is_not_on_time() -> None:
    bench = Bench(context(work_spread=USUAL_SPREAD, deadline_hours=30.0))
    bench.machine.says(attempt=1, finished=False)
    bench.step(*(float(hour) for hour in range(16)))
    told = [event for event in bench.events(HealthChanged) if isinstance(event, HealthChanged)]
    assert "on-time" in [event.health for event in told]
    assert told[-1].health == "at-risk"
    assert "what is left is unknown" in told[-1].why
