"""The course of a run as points in time: the GPUs held and offered, the work done, and the money paid.

Pictures of finished runs and the dashboard's charts of live ones are drawn from the same points.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slacktide.results.run import Lap, RunResult


@dataclass(frozen=True, slots=True, kw_only=True)
class CoursePoint:
    """What a job held from an hour on, and what it had done and paid until then."""

    hours: float  # since the job began
    pool: str
    spot_gpus: int
    on_demand_gpus: int
    offered_spot_gpus: int  # spot GPUs available, those held included
    spot_usd_per_gpu_hour: float
    on_demand_usd_per_gpu_hour: float
    progress_gpu_hours: float
    cost_usd: float


@dataclass(slots=True)
class Course:
    """The points of one run, stretch by stretch; between two of them work and money grow evenly."""

    points: list[CoursePoint] = field(default_factory=list)
    end: CoursePoint | None = None  # where the last stretch ended; 0 GPUs, because what follows is unknown

    def live(self, lap: Lap) -> None:
        begun, before = self._begun(lap), self.end
        if before is not None and begun.hours > before.hours:  # no controller ran in between
            self.points.append(before)
        if before is not None and begun.progress_gpu_hours < before.progress_gpu_hours:  # work was lost
            self.points.append(replace(begun, progress_gpu_hours=before.progress_gpu_hours))
        self.points.append(begun)
        self.points += _working(begun, lap)
        self.end = replace(
            begun,
            hours=lap.priced.stretch.to_hours,
            spot_gpus=0,
            on_demand_gpus=0,
            progress_gpu_hours=lap.after_gpu_hours,
            cost_usd=begun.cost_usd + lap.priced.charge.usd,
        )

    def _begun(self, lap: Lap) -> CoursePoint:
        stretch = lap.priced.stretch
        return CoursePoint(
            hours=stretch.from_hours,
            pool=stretch.pool,
            spot_gpus=stretch.spot_gpus,
            on_demand_gpus=stretch.on_demand_gpus,
            offered_spot_gpus=stretch.quote.spot_gpus,
            spot_usd_per_gpu_hour=stretch.quote.spot_usd_per_gpu_hour,
            on_demand_usd_per_gpu_hour=stretch.quote.on_demand_usd_per_gpu_hour,
            progress_gpu_hours=lap.before_gpu_hours,
            cost_usd=0.0 if self.end is None else self.end.cost_usd,
        )


def _working(begun: CoursePoint, lap: Lap) -> list[CoursePoint]:
    """Return the point at which work begins after a stretch's initial pause; none without a pause."""
    stretch, charge = lap.priced
    pause = stretch.to_hours - stretch.productive_hours - stretch.from_hours
    if pause <= 0 or lap.after_gpu_hours <= lap.before_gpu_hours:
        return []
    paid = charge.usd * pause / (stretch.to_hours - stretch.from_hours)
    return [replace(begun, hours=begun.hours + pause, cost_usd=begun.cost_usd + paid)]


def course_of(run: RunResult) -> list[CoursePoint]:
    """Return the points of a run from its start to where its last stretch ended."""
    course = Course()
    for lap in run.laps:
        course.live(lap)
    return course.points if course.end is None else [*course.points, course.end]
