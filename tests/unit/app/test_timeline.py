"""The course of a job: what pictures show is what its journal says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from slacktide.app.journal.timeline import MOST_HAPPENINGS, MOST_POINTS, Timeline, course_points
from slacktide.core.quotes import Quote
from slacktide.core.types import JobState
from slacktide.journal.events import Decided, Event, Lived, PaceRevised, Preempted, Record
from slacktide.physics.ledger import Priced, Stretch
from slacktide.physics.pace import Pace
from slacktide.physics.tariff import Charge
from slacktide.report.figures.drawing import scene as numbers
from slacktide.results.course import course_of as course_of_run
from tests.unit.report.runs import ODD_RUNS

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
QUOTE = Quote(2.0, 10.0, 5)


def decided(hours: float, spot_gpus: int, done: float = 0.0, **more: object) -> Decided:
    """Return a decision to hold so much spot from an hour on."""
    one = Decided(
        job="job", at_hours=hours, why="take-spot", slot=int(hours), quote=QUOTE,
        state=JobState(progress_gpu_hours=done),
        pool="zone", spot_gpus=spot_gpus, on_demand_gpus=0, wanted_spot_gpus=spot_gpus,
        wanted_on_demand_gpus=0, attempt=1,
    )  # fmt: skip
    return replace(one, **more)  # type: ignore[arg-type]


def lived(hours: float, spot_gpus: int, done: float) -> Lived:
    """Return a stretch of an hour with so much spot, at whose end so much is done."""
    stretch = Stretch(
        payer="job", use="work", slot=int(hours), from_hours=hours, to_hours=hours + 1, held_hours=1.0,
        pool="zone", spot_gpus=spot_gpus, on_demand_gpus=0, quote=QUOTE, productive_hours=1.0,
    )  # fmt: skip
    state = JobState(progress_gpu_hours=done)
    return Lived(
        job="job",
        at_hours=hours + 1,
        priced=Priced(stretch, Charge(2.0 * spot_gpus)),
        state=state,
    )


def course_of(*events: Event) -> Timeline:
    """Return the course of a job to which all of this happened."""
    course = Timeline()
    for seq, event in enumerate(events, start=1):
        course.apply(Record(seq, NOON, event))
    return course


def test_points_tell_what_was_held_paid_and_done() -> None:
    course = course_of(decided(10.0, 3), lived(10.0, 3, 2.5), decided(11.0, 1, 2.5), lived(11.0, 1, 3.5))
    points = course_points(course, 2, 1, over=False)
    assert [point.hours for point in points] == [0.0, 1.0, 2.0], "by the job's own clock"
    assert [(point.spot_gpus, point.on_demand_gpus) for point in points] == [(3, 0), (1, 0), (2, 1)]
    assert [point.progress_gpu_hours for point in points] == [0.0, 2.5, 3.5]
    assert [point.cost_usd for point in points] == [0.0, 6.0, 8.0]
    first = points[0].offered_spot_gpus, points[0].spot_usd_per_gpu_hour, points[0].on_demand_usd_per_gpu_hour
    assert first == (5, 2.0, 10.0)
    assert course_points(course, 2, 1, over=True)[-1].spot_gpus == 0
    assert course_points(Timeline(), 1, 1, over=False) == []


def test_time_that_nobody_saw_is_a_gap_without_gpus() -> None:
    course = course_of(decided(0.0, 3), lived(0.0, 3, 1.0), decided(5.0, 3, 1.0), lived(5.0, 3, 2.0))
    held = [(point.hours, point.spot_gpus) for point in course_points(course, 0, 0, over=True)]
    assert held == [(0.0, 3), (1.0, 0), (5.0, 3), (6.0, 0)]


def test_points_stay_few_enough_to_be_drawn() -> None:
    hours = range(10 * MOST_POINTS)
    course = course_of(decided(0.0, 1), *(lived(float(hour), 1, float(hour)) for hour in hours))
    assert MOST_POINTS <= len(course.course.points) <= 2 * MOST_POINTS
    assert course.course.end is not None
    assert course.course.end.cost_usd == 2.0 * len(hours), "what is left out is in the sum"


def test_of_equal_decisions_the_newest_is_told() -> None:
    pace = PaceRevised(job="job", at_hours=1.0, gpus=1, measured_hours=1.0, pace=Pace())
    taken = Preempted(job="job", at_hours=3.5, slot=3, spot_before=3, spot_left=0, lost_gpu_hours=0.0)
    course = course_of(
        decided(0.0, 3), pace, decided(1.0, 3), pace, decided(2.0, 3), taken, decided(3.5, 3, attempt=2)
    )
    assert [record.seq for record in course.happenings] == [4, 5, 6, 7]


def test_only_the_last_happenings_are_kept() -> None:
    course = course_of(*(decided(float(hour), hour % 2) for hour in range(3 * MOST_HAPPENINGS)))
    assert len(course.happenings) == MOST_HAPPENINGS
    assert course.happenings[-1].seq == 3 * MOST_HAPPENINGS


def test_work_that_was_lost_falls_at_the_loss() -> None:
    course = course_of(decided(0.0, 3), lived(0.0, 3, 2.5), decided(1.0, 1, 2.0), lived(1.0, 1, 3.0))
    work = [(point.hours, point.progress_gpu_hours) for point in course_points(course, 0, 0, over=True)]
    assert work == [(0.0, 0.0), (1.0, 2.5), (1.0, 2.0), (2.0, 3.0)]


@pytest.mark.parametrize("name", sorted(ODD_RUNS))
def test_a_live_run_has_the_same_course_in_the_dashboard_and_in_reports(name: str) -> None:
    told = ODD_RUNS[name]()
    live = course_of(*told.events)
    points = course_of_run(told.run)
    assert course_points(live, 0, 0, over=True) == points
    assert points[-1].cost_usd == pytest.approx(told.run.bill.cost_usd)
    assert numbers.done(told.run).amount[-1] == points[-1].progress_gpu_hours
    assert numbers.spent(told.run).amount[-1] == points[-1].cost_usd
