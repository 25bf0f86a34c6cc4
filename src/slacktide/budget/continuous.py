"""Real widths: the optimum when a job may hold any share of GPUs on average.

Amdahl's law and power laws have closed forms. Straight pieces (linear speedups, measured tables) are
straight in the plane of GPU-hours and hours too, so their corners are enough. Any other speedup is
searched from a fine grid on by golden sections. Classes whose phases hang together walk through a grid of
GRID widths in equal ratios, with all allowed whole widths and all corners of tables. What that misses is
small, as costs are flat near their least: on 450 random fleets with widths from 1 to 64, at most 4e-6 of
the mean response against a grid eight times as fine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slacktide.budget.assemble import Mix
from slacktide.budget.choices import Choice, Choices, Items, Part, is_bound, items_of
from slacktide.budget.classes import JobClass, Phase
from slacktide.budget.curves import TIE_SHARE, Entry, rows_of, speedups_at, width_array
from slacktide.budget.golden import Golden
from slacktide.budget.hulls import Hulls
from slacktide.budget.paths import Paths
from slacktide.market.base import Floats
from slacktide.speedup import Amdahl, Linear, Power, Table

GRID = 1024
"""Widths in the grid of a class whose phases hang together."""


@dataclass(frozen=True, slots=True, eq=False)
class AmdahlPhases:
    """Phases that follow Amdahl's law: k = sqrt(f / (price * (1 - f)))."""

    work_gpu_hours: Floats
    parallel_share: Floats
    least: Floats
    most: Floats

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> Choice:
        """Choose each phase's width by its closed form."""
        share = self.parallel_share
        gain, cost = hour_weight * share, gpu_hour_weight * (1.0 - share)
        # A job without a serial part is served best at its widest at any price.
        square = np.divide(gain, cost, out=np.full_like(gain, math.inf), where=cost > 0)
        best = np.where(share == 1.0, math.inf, np.where(share == 0.0, 0.0, np.sqrt(square)))
        widths = np.clip(best, self.least, self.most)
        hours = self.work_gpu_hours * (1.0 - share + share / widths)
        return Choice(widths * hours, hours, widths)


@dataclass(frozen=True, slots=True, eq=False)
class PowerPhases:
    """Phases that follow a power law: k = p / (price * (1 - p))."""

    work_gpu_hours: Floats
    exponent: Floats
    least: Floats
    most: Floats

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> Choice:
        """Choose each phase's width by its closed form."""
        gain, cost = hour_weight * self.exponent, gpu_hour_weight * (1.0 - self.exponent)
        best = np.divide(gain, cost, out=np.full_like(gain, math.inf), where=cost > 0)
        widths = np.clip(best, self.least, self.most)
        hours = self.work_gpu_hours / widths**self.exponent
        return Choice(widths * hours, hours, widths)


def real_choices_of(classes: Sequence[JobClass]) -> Choices:
    """Describe what can be chosen among real widths."""
    items = items_of(classes)
    members: dict[type, list[int]] = {}
    phases = [(job_class, phase) for job_class in classes for phase in job_class.phases]
    for item, (index, first) in enumerate(zip(items.class_of, items.first_phase, strict=False)):
        members.setdefault(_kind(classes[index], phases[first][1]), []).append(item)
    return Choices(
        items,
        tuple(
            (
                np.array(found, dtype=np.int64),
                _part(kind, [phases[items.first_phase[item]] for item in found]),
            )
            for kind, found in members.items()
        ),
    )


def _kind(job_class: JobClass, phase: Phase) -> type:
    """Return the part that chooses for a phase."""
    if is_bound(job_class):
        return Paths
    by_speedup = {Amdahl: AmdahlPhases, Power: PowerPhases, Linear: Hulls, Table: Hulls}
    return by_speedup.get(type(phase.speedup), Golden)


def _part(kind: type, members: list[tuple[JobClass, Phase]]) -> Part:
    if kind is Hulls:
        return Hulls.of(
            rows_of([Entry(each.name, phase, _corners(each, [phase])) for each, phase in members])
        )
    if kind is Paths:
        return _paths([job_class for job_class, _ in members])
    if kind is Golden:
        return Golden.of([Entry(each.name, phase, width_array(each.widths)) for each, phase in members])
    work = np.array([phase.work_gpu_hours for _, phase in members])
    least = np.array([job_class.widths[0] for job_class, _ in members], dtype=np.float64)
    most = np.array([job_class.widths[-1] for job_class, _ in members], dtype=np.float64)
    if kind is AmdahlPhases:
        shares = [phase.speedup.parallel_share for _, phase in members]  # type: ignore[attr-defined]
        return AmdahlPhases(work, np.array(shares), least, most)
    exponents = [phase.speedup.exponent for _, phase in members]  # type: ignore[attr-defined]
    return PowerPhases(work, np.array(exponents), least, most)


def _corners(job_class: JobClass, phases: Sequence[Phase]) -> Floats:
    """Return the least width, the greatest, and those between at which a measured speedup bends."""
    least, most = job_class.widths[0], job_class.widths[-1]
    bends = {
        gpus
        for phase in phases
        if isinstance(phase.speedup, Table)
        for gpus, _ in phase.speedup.hull()
        if least < gpus < most
    }
    return np.array(sorted({float(least), float(most), *bends}))


def _paths(classes: Sequence[JobClass]) -> Paths:
    entries = [
        Entry(job_class.name, phase, widths)
        for job_class in classes
        for widths in (_grid(job_class),)
        for phase in job_class.phases
    ]
    phases = [len(job_class.phases) for job_class in classes]
    return Paths.of(rows_of(entries), phases, [each.restart_hours for each in classes])


def _grid(job_class: JobClass) -> Floats:
    least, most = job_class.widths[0], job_class.widths[-1]
    ratios = np.clip(np.geomspace(least, most, GRID), least, most)
    return np.unique(np.concatenate((ratios, job_class.widths, _corners(job_class, job_class.phases))))


def purified(classes: Sequence[JobClass], items: Items, mix: Mix) -> Mix:
    """Replace a mix of two widths by the one between them that takes as many GPU-hours and hours.

    Where a speedup is concave there is one that is at least as good; elsewhere the mix stays.
    """
    if mix.item < 0 or len(mix.wide_widths) > 1:
        return mix
    item, narrow = mix.item, mix.choice
    hours = (1.0 - mix.share) * narrow.hours[item] + mix.share * mix.wide_hours
    gpu_hours = (1.0 - mix.share) * narrow.gpu_hours[item] + mix.share * mix.wide_gpu_hours
    at = int(items.first_phase[item])
    phase = [phase for job_class in classes for phase in job_class.phases][at]
    width = np.array([gpu_hours / hours])
    one = phase.work_gpu_hours / float(speedups_at(phase.speedup, width)[0])
    if not one <= hours * (1.0 + TIE_SHARE):
        return mix
    for values, value in ((narrow.hours, one), (narrow.gpu_hours, width[0] * one), (narrow.widths, width[0])):
        values[item if values is not narrow.widths else at] = value
    return Mix(narrow)
