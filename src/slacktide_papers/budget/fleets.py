"""Fleets whose streams are drawn: the paper's two classes, others of its kind, and a training cluster's."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.stream import Stream, draw_stream, realised_classes
from slacktide.core.speedup import Amdahl, Power, Speedup
from slacktide.core.types import Job
from slacktide_papers.budget.cases import Case

WIDEST = 64  # no job of the training cluster is wider
SYNTHETIC = "synthetic"


class Draw(NamedTuple):
    """A fleet, and how its jobs come."""

    name: str
    classes: tuple[JobClass, ...]
    arrivals: str = "poisson"
    sizes: str = "exponential"

    def stream(self, jobs: int, seed: int) -> Stream:
        """Draw that many jobs."""
        return draw_stream(self.classes, jobs, arrivals=self.arrivals, sizes=self.sizes, seed=seed)


def job_class(name: str, arrivals_per_hour: float, work_gpu_hours: float, speedup: Speedup) -> JobClass:
    """Return a class of any width."""
    return JobClass(
        Job(name=name, work_gpu_hours=work_gpu_hours, speedup=speedup), arrivals_per_hour=arrivals_per_hour
    )


def two_classes(amdahl_per_hour: float, root_per_hour: float) -> tuple[JobClass, ...]:
    """Return the paper's classes at some rates; a job is one GPU-hour of work."""
    return (
        job_class("Amdahl 80 %", amdahl_per_hour, 1.0, Amdahl(0.8)),
        job_class("square root", root_per_hour, 1.0, Power(0.5)),
    )


PAPER_FLEETS = (
    Draw("two classes, 0.4 jobs/h each", two_classes(0.4, 0.4)),
    Draw("the same, 4 jobs/h each", two_classes(4.0, 4.0)),
)
"""The paper's example, and ten times as much of it, where rounding a cluster to whole GPUs matters less."""

MIXED_FLEETS = (
    Draw("mostly Amdahl 80 %", two_classes(7.0, 1.0)),
    Draw("mostly square root", two_classes(1.0, 7.0)),
    Draw("bursts, heavy-tailed sizes", two_classes(4.0, 4.0), "bursty", "pareto"),
    Draw(
        "short jobs scale badly",
        (
            job_class("short, Amdahl 50 %", 8.0, 0.2, Amdahl(0.5)),
            job_class("middling, square root", 2.0, 1.0, Power(0.5)),
            job_class("long, Amdahl 99 %", 0.4, 10.0, Amdahl(0.99)),
        ),
    ),
)
"""Other fleets of the paper's kind: which class is frequent, how jobs come, which jobs scale well."""

TRAINING_CLASSES = tuple(
    JobClass(
        Job(name=name, work_gpu_hours=work_gpu_hours, speedup=speedup, widths=tuple(range(1, WIDEST + 1))),
        arrivals_per_hour=arrivals_per_hour,
    )
    for name, arrivals_per_hour, work_gpu_hours, speedup in (
        ("recommender", 4.0, 0.02, Amdahl(0.2)),
        ("small vision", 8.5, 1.0, Power(0.75)),
        ("language", 3.5, 4.0, Power(0.8)),
        ("speech", 3.0, 5.0, Power(0.7)),
        ("detection", 0.8, 8.0, Power(0.5)),
        ("large vision", 0.2, 150.0, Power(0.9)),
    )
)
"""Six classes like those of the recorded streams in rounded figures: hours from a minute to a week."""


def drawn(draw: Draw, jobs: int, seed: int) -> Case:
    """Return a case whose policies know the fleet's long-run rates."""
    return Case(draw.name, draw.stream(jobs, seed), draw.classes)


def synthetic(jobs: int, seed: int) -> Case:
    """Return the training cluster's stream; policies know its own rates, or those of another draw."""
    draw = Draw(SYNTHETIC, TRAINING_CLASSES, "bursty", "lognormal")
    stream = draw.stream(jobs, seed)
    return Case(
        SYNTHETIC, _sized_by(stream), _known(stream), elsewhere=_known(draw.stream(jobs, seed + 1))
    )  # fmt: skip


def _known(stream: Stream) -> tuple[JobClass, ...]:
    """Return the classes with the figures of a whole stream; as declared if none of their jobs came."""
    realised = realised_classes(TRAINING_CLASSES, stream)
    return tuple(one or declared for one, declared in zip(realised, TRAINING_CLASSES, strict=True))


def _sized_by(stream: Stream) -> Stream:
    """Return the stream with sizes as multiples of the mean that its classes really had."""
    counts = np.maximum(np.bincount(stream.class_index), 1)
    means = np.bincount(stream.class_index, weights=stream.size) / counts
    return Stream(stream.arrival_hours, stream.class_index, stream.size / means[stream.class_index])
