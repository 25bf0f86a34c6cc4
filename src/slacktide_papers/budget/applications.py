"""Applications as BOA Constrictor sees them: speedups that change while a job trains, restarts by model.

Public figures say how long an application takes on some number of GPUs, not how each epoch scales.
So epochs are made here, by a stated assumption: the gradient noise scale of a job grows tenfold while it
trains, as Pollux reports (OSDI 2021), and where the noise is large a large batch wastes little. Of what an
application loses on k GPUs, k / S(k) - 1, a share is samples that a larger batch wastes; in a phase with
noise scale f this share is scaled by 1 / f. Over all phases of a job the times add up to the measured ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.core.arrays import Floats
from slacktide.core.speedup import Speedup, Table
from slacktide.core.types import Phase
from slacktide_papers.budget.cases import Machines

PHASES = 5  # parts of equal work (on one GPU) into which a job is cut; within one the speedup stays
NOISE_GROWTH = 10.0
"""How many times as large the gradient noise scale is in the last phase as in the first, evenly in logs."""
STATISTICAL_SHARE = 0.6
"""How much of what is lost on many GPUs is statistical. Measured throughputs say 0.45 to 0.65 for cifar10,
deepspeech2 and imagenet; for the others they are too noisy."""
WIDTHS = (1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64)
"""Widths that any job may have: within a node of four, or whole nodes."""
LEAST_RESTART_HOURS, MOST_RESTART_HOURS = 15 / 3600, 300 / 3600
BY_APPLICATION = Machines(node_gpus=4, restarts="restarts of 15s to 5m by application")
HALF_MINUTE = Machines(restart_hours=30 / 3600, node_gpus=4)
NO_RESTARTS = Machines(node_gpus=4)


class Model(NamedTuple):
    """An application of the recorded streams, and its counterpart in the synthetic one."""

    application: str
    synthetic: str
    jobs_per_hour: float  # the synthetic stream's rate, which is like those of the recorded streams


MODELS = (
    Model("ncf", "recommender", 4.0),
    Model("cifar10", "small vision", 8.5),
    Model("imagenet", "large vision", 0.2),
    Model("deepspeech2", "speech", 3.0),
    Model("yolov3", "detection", 0.8),
    Model("bert", "language", 3.5),
)
"""From the smallest model to the largest: NCF, ResNet-18, ResNet-50, DeepSpeech 2, YOLOv3, BERT."""


def place_of(name: str) -> int | None:
    """Return where a class stands among the models by size; None for one that is not among them."""
    for place, model in enumerate(MODELS):
        if name in (model.application, model.synthetic):
            return place
    return None


def restart_hours_of(name: str) -> float:
    """Return an application's restart: from 15 s to 300 s in equal ratios, by the order of model sizes.

    An application that is not known has the middle of this range.
    """
    place = place_of(name)
    share = 0.5 if place is None else place / (len(MODELS) - 1)
    return float(LEAST_RESTART_HOURS * (MOST_RESTART_HOURS / LEAST_RESTART_HOURS) ** share)


def phased(one: JobClass) -> JobClass:
    """Return a class with phases, its own restart and the widths of nodes of four."""
    widths = tuple(width for width in WIDTHS if width in one.widths)
    work = one.work_gpu_hours / PHASES
    phases = tuple(
        Phase(work, Table.of(dict(zip(widths, rates, strict=True))))
        for rates in phase_speedups(one.job.speedup, widths).tolist()
    )
    job = dataclasses.replace(one.job, phases=phases, widths=widths, restart_hours=restart_hours_of(one.name))
    return dataclasses.replace(one, job=job)


def flat(phases: JobClass) -> JobClass:
    """Return a phased class as known to a user who measured one speedup for the whole job."""
    return dataclasses.replace(phases, job=dataclasses.replace(phases.job, phases=()))


def phase_speedups(speedup: Speedup, widths: Sequence[int]) -> Floats:
    """Return [phase, width]: speedups whose times, one phase after the other, add up to the whole job's.

    With u = k / S(k) - 1 lost on k GPUs, of which a share h is statistical, a phase takes (1 + h c u) times
    the samples, where c falls as the noise grows and is 1 on average; the rest is always the same.
    """
    whole = np.array([speedup(width) for width in widths])
    lost = STATISTICAL_SHARE * np.maximum(np.array(widths) / whole - 1.0, 0.0)
    weight = NOISE_GROWTH ** -np.linspace(0.0, 1.0, PHASES)
    weight /= weight.mean()
    found: Floats = whole * (1.0 + lost) / (1.0 + weight[:, None] * lost)
    return found


def hull_error(one: JobClass, phases: JobClass) -> float:
    """Return the most that a phased class is faster than measured, since hulls lie above the points."""
    return max(
        one.work_gpu_hours / one.job.speedup(width) / phases.job.work_hours(width) - 1.0
        for width in phases.widths
    )
