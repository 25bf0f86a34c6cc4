"""Real widths: the optimum when a job may hold any share of GPUs on average.

Amdahl's law, power laws and straight pieces (linear speedups, measured tables) have closed forms; where no
restart precedes them, pieces are straight in the plane of GPU-hours and hours too, and their corners are
enough. Any other speedup is searched from a fine grid on by golden sections. Classes whose phases hang
together walk through a grid of GRID widths in equal ratios, with all allowed whole widths and all corners of
tables. What that misses is small, as costs are flat near their least: on 450 random fleets with widths from
1 to 64, at most 4e-6 of the mean response against a grid eight times as fine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.solution.closed_forms import AmdahlPhases, PausedPieces, PowerPhases
from slacktide.budget.solution.curves import PhaseWidths, entries_of, rows_of, speedups_at, width_array
from slacktide.budget.solution.golden_section import Golden
from slacktide.budget.solution.hulls import Hulls
from slacktide.budget.solution.paths import Paths
from slacktide.budget.solution.width_options import WidthChooser, WidthOptions, is_bound, items_of
from slacktide.core.arrays import Floats, Ints
from slacktide.core.speedup import Amdahl, Linear, Power, Table
from slacktide.core.types import Phase


def choices_of(classes: Sequence[JobClass]) -> WidthOptions:
    """Tabulate what can be chosen among the allowed widths."""
    items = items_of(classes)
    bound = np.array([is_bound(job_class) for job_class in classes])[items.class_of]
    parts: list[tuple[Ints, WidthChooser]] = []
    if not bound.all():
        free = [job_class for job_class in classes if not is_bound(job_class)]
        parts.append((np.flatnonzero(~bound), Hulls.of(rows_of(allowed_entries(free)))))
    if bound.any():
        parts.append((np.flatnonzero(bound), paths_of([each for each in classes if is_bound(each)])))
    return WidthOptions(items, tuple(parts))


def allowed_entries(classes: Sequence[JobClass]) -> list[PhaseWidths]:
    """List all phases of classes at their allowed widths."""
    return [entry for each in classes for entry in entries_of(each, width_array(each.widths))]


def paths_of(classes: Sequence[JobClass]) -> Paths:
    """Tabulate classes whose phases hang together."""
    phases = [len(job_class.phases) for job_class in classes]
    return Paths.of(rows_of(allowed_entries(classes)), phases, [each.restart_hours for each in classes])


GRID = 1024
"""Widths in the grid of a class whose phases hang together."""


Member = tuple[JobClass, Phase]


def real_choices_of(classes: Sequence[JobClass]) -> WidthOptions:
    """Describe what can be chosen among real widths."""
    items = items_of(classes)
    phases = [(job_class, phase) for job_class in classes for phase in job_class.phases]
    members: dict[Callable[[list[Member]], WidthChooser], list[int]] = {}
    for item, first in enumerate(items.first_phase[:-1]):
        members.setdefault(_maker(*phases[first]), []).append(item)
    return WidthOptions(
        items,
        tuple(
            (np.array(found), make([phases[items.first_phase[item]] for item in found]))
            for make, found in members.items()
        ),
    )


def _maker(job_class: JobClass, phase: Phase) -> Callable[[list[Member]], WidthChooser]:
    """Return what makes the part that chooses for a phase, or for all of a class."""
    if is_bound(job_class):
        return _paths
    straight = _pieces if job_class.restart_hours > 0 else _corners_only
    makers = {Amdahl: _amdahl, Power: _power, Linear: straight, Table: straight}
    return makers.get(type(phase.speedup), _golden)


def _amdahl(members: list[Member]) -> WidthChooser:
    speedups = [phase.speedup for _, phase in members if isinstance(phase.speedup, Amdahl)]
    shares = np.array([speedup.parallel_share for speedup in speedups])
    return AmdahlPhases(_work(members), _starts(members), shares, *_spans(members))


def _power(members: list[Member]) -> WidthChooser:
    speedups = [phase.speedup for _, phase in members if isinstance(phase.speedup, Power)]
    exponents = np.array([speedup.exponent for speedup in speedups])
    return PowerPhases(_work(members), _starts(members), exponents, *_spans(members))


def _corners_only(members: list[Member]) -> WidthChooser:
    return Hulls.of(
        rows_of([PhaseWidths(each.name, phase, _corners(each, [phase])) for each, phase in members])
    )


def _pieces(members: list[Member]) -> WidthChooser:
    rows = []
    for index, (each, phase) in enumerate(members):
        corners = _corners(each, [phase])
        speeds = speedups_at(phase.speedup, corners)
        for left in range(max(1, len(corners) - 1)):
            right = min(left + 1, len(corners) - 1)
            ends = (corners[left], corners[right], speeds[left], speeds[right])
            rows.append((index, phase.work_gpu_hours, each.restart_hours, *ends))
    phases, *columns = np.array(rows).T.copy()
    phase_of = phases.astype(np.int64)
    return PausedPieces(phase_of, np.searchsorted(phase_of, np.arange(len(members))), *columns)


def _golden(members: list[Member]) -> WidthChooser:
    return Golden.of(
        [
            PhaseWidths(each.name, phase, width_array(each.widths), each.restart_hours)
            for each, phase in members
        ]
    )


def _paths(members: list[Member]) -> WidthChooser:
    entries, phases, restarts = [], [], []
    for job_class, _ in members:
        entries += entries_of(job_class, _grid(job_class))
        phases.append(len(job_class.phases))
        restarts.append(job_class.restart_hours)
    return Paths.of(rows_of(entries), phases, restarts)


def _work(members: list[Member]) -> Floats:
    return np.array([phase.work_gpu_hours for _, phase in members])


def _starts(members: list[Member]) -> Floats:
    """Return the hours before each phase: phases that are chosen alone are their class's first, or free."""
    return np.array([job_class.restart_hours for job_class, _ in members])


def _spans(members: list[Member]) -> tuple[Floats, Floats]:
    """Return the least and the greatest width of each phase."""
    ends = np.array([(each.widths[0], each.widths[-1]) for each, _ in members], dtype=np.float64)
    return ends[:, 0], ends[:, 1]


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


def _grid(job_class: JobClass) -> Floats:
    least, most = job_class.widths[0], job_class.widths[-1]
    ratios = np.clip(np.geomspace(least, most, GRID), least, most)
    return np.unique(np.concatenate((ratios, job_class.widths, _corners(job_class, job_class.phases))))
