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
from functools import partial
from typing import Any

import numpy as np

from slacktide.budget.classes import JobClass, speedups_at, width_array
from slacktide.budget.solution.curves import PhaseWidths, WidthChooser, rows_of
from slacktide.budget.solution.real_widths import AmdahlPhases, Golden, PausedPieces, PowerPhases, grid_with
from slacktide.budget.solution.whole_widths import Hulls, Paths
from slacktide.budget.solution.width_options import WidthOptions, is_bound, items_of
from slacktide.core.arrays import Floats, Ints
from slacktide.core.speedup import Amdahl, Linear, Power, Table
from slacktide.core.types import Phase

GRID = 1024  # widths in the grid of a class whose phases hang together

Member = tuple[JobClass, Phase]


def choices_of(classes: Sequence[JobClass]) -> WidthOptions:
    """Tabulate what can be chosen among the allowed widths."""
    items = items_of(classes)
    bound = np.array([is_bound(job_class) for job_class in classes])[items.class_of]
    parts: list[tuple[Ints, WidthChooser]] = []
    if not bound.all():
        free = [job_class for job_class in classes if not is_bound(job_class)]
        parts.append((np.flatnonzero(~bound), Hulls.of(rows_of(entries_of(free)))))
    if bound.any():
        parts.append((np.flatnonzero(bound), paths_of([each for each in classes if is_bound(each)])))
    return WidthOptions(items, tuple(parts))


def _allowed(job_class: JobClass) -> Floats:
    return width_array(job_class.widths)


def entries_of(
    classes: Sequence[JobClass], widths_of: Callable[[JobClass], Floats] = _allowed
) -> list[PhaseWidths]:
    """List all phases of classes at some widths; each class begins with the restart of a first start."""
    return [
        PhaseWidths(each.name, phase, widths, 0.0 if index else each.restart_hours)
        for each, widths in ((each, widths_of(each)) for each in classes)
        for index, phase in enumerate(each.phases)
    ]


def paths_of(classes: Sequence[JobClass], widths_of: Callable[[JobClass], Floats] = _allowed) -> Paths:
    """Tabulate classes whose phases hang together."""
    phases = [len(job_class.phases) for job_class in classes]
    restarts = [job_class.restart_hours for job_class in classes]
    return Paths.of(rows_of(entries_of(classes, widths_of)), phases, restarts)


def real_choices_of(classes: Sequence[JobClass]) -> WidthOptions:
    """Describe what can be chosen among real widths."""
    items = items_of(classes)
    phases = [(job_class, phase) for job_class in classes for phase in job_class.phases]
    members: dict[Callable[[list[Member]], WidthChooser], list[int]] = {}
    for item, first in enumerate(items.first_phase[:-1]):
        members.setdefault(_maker(*phases[first]), []).append(item)
    parts = [
        (np.array(found), make([phases[items.first_phase[item]] for item in found]))
        for make, found in members.items()
    ]
    return WidthOptions(items, tuple(parts))


def _maker(job_class: JobClass, phase: Phase) -> Callable[[list[Member]], WidthChooser]:
    """Return what makes the part that chooses for a phase, or for all of a class."""
    if is_bound(job_class):
        return _paths
    straight = _pieces if job_class.restart_hours > 0 else _corners_only
    # By exact type: a user's own subclass may scale in any way, so it is searched.
    return {**FORMULAS, Linear: straight, Table: straight}.get(type(phase.speedup), _golden)


def _by_formula(
    chooser: type[AmdahlPhases | PowerPhases], parameter: str, members: list[Member]
) -> WidthChooser:
    ends = np.array([(each.widths[0], each.widths[-1]) for each, _ in members], dtype=np.float64)
    return chooser(
        np.array([phase.work_gpu_hours for _, phase in members]),
        # Phases that are chosen alone are their class's first, or begin without a restart.
        np.array([job_class.restart_hours for job_class, _ in members]),
        np.array([getattr(phase.speedup, parameter) for _, phase in members]),
        ends[:, 0],
        ends[:, 1],
    )


FORMULAS: dict[type[Any], Callable[[list[Member]], WidthChooser]] = {
    Amdahl: partial(_by_formula, AmdahlPhases, "parallel_share"),
    Power: partial(_by_formula, PowerPhases, "exponent"),
}


def _corners_only(members: list[Member]) -> WidthChooser:
    rows = [PhaseWidths(each.name, phase, _corners(each, [phase])) for each, phase in members]
    return Hulls.of(rows_of(rows))


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
        [PhaseWidths(each.name, phase, _allowed(each), each.restart_hours) for each, phase in members]
    )


def _paths(members: list[Member]) -> WidthChooser:
    return paths_of([job_class for job_class, _ in members], _grid)


def _corners(job_class: JobClass, phases: Sequence[Phase]) -> Floats:
    """Return the least width, the greatest, and those between at which a measured speedup bends."""
    least, most = job_class.widths[0], job_class.widths[-1]
    tables = [phase.speedup for phase in phases if isinstance(phase.speedup, Table)]
    bends = {gpus for table in tables for gpus, _ in table.hull() if least < gpus < most}
    return np.array(sorted({float(least), float(most), *bends}))


def _grid(job_class: JobClass) -> Floats:
    allowed_and_bends = np.concatenate((job_class.widths, _corners(job_class, job_class.phases)))
    return grid_with(np.unique(allowed_and_bends), GRID)
