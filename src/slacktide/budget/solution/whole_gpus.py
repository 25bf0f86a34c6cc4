"""Whole GPUs: what can be chosen among the widths that a class allows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.solution.choices import Choices, Part, is_bound, items_of
from slacktide.budget.solution.curves import Entry, entries_of, rows_of, width_array
from slacktide.budget.solution.hulls import Hulls
from slacktide.budget.solution.paths import Paths
from slacktide.core.arrays import Ints


def choices_of(classes: Sequence[JobClass]) -> Choices:
    """Tabulate what can be chosen among the allowed widths."""
    items = items_of(classes)
    bound = np.array([is_bound(job_class) for job_class in classes])[items.class_of]
    parts: list[tuple[Ints, Part]] = []
    if not bound.all():
        free = [job_class for job_class in classes if not is_bound(job_class)]
        parts.append((np.flatnonzero(~bound), Hulls.of(rows_of(allowed_entries(free)))))
    if bound.any():
        parts.append((np.flatnonzero(bound), paths_of([each for each in classes if is_bound(each)])))
    return Choices(items, tuple(parts))


def allowed_entries(classes: Sequence[JobClass]) -> list[Entry]:
    """List all phases of classes at their allowed widths."""
    return [entry for each in classes for entry in entries_of(each, width_array(each.widths))]


def paths_of(classes: Sequence[JobClass]) -> Paths:
    """Tabulate classes whose phases hang together."""
    phases = [len(job_class.phases) for job_class in classes]
    return Paths.of(rows_of(allowed_entries(classes)), phases, [each.restart_hours for each in classes])
