"""What allocators on a cluster of fixed size share: its size, and the widths that fit into it."""

from __future__ import annotations

import math

from slacktide.allocators.base import allowed_widths, at_least_one
from slacktide.budget.fleet import Fleet
from slacktide.core.arrays import Ints
from slacktide.core.errors import InputError, shown


def cluster_size(fleet: Fleet, cluster_gpus: int | None) -> int:
    """Return the size of a fixed cluster: what was given, else the whole GPUs of the budget."""
    if cluster_gpus is not None:
        at_least_one("cluster_gpus", cluster_gpus)
        return cluster_gpus
    if not 1 <= fleet.budget_gpus < math.inf:
        raise InputError(
            f"a fixed cluster must have at least one GPU, got a budget of {fleet.budget_gpus:g}; "
            "give cluster_gpus"
        )
    return int(fleet.budget_gpus)


def fitting_widths(fleet: Fleet, gpus: int, size_gpus: int) -> Ints:
    """Return `allowed_widths` no wider than a cluster; raises InputError where a class does not fit."""
    widths = allowed_widths(fleet, min(gpus, size_gpus))
    widest = max(fleet.classes, key=lambda one: one.widths[0])
    if widest.widths[0] > size_gpus:
        raise InputError(
            f"a cluster must have room for every class, got {size_gpus} GPUs and class {shown(widest.name)}, "
            f"which needs {widest.widths[0]}"
        )
    return widths
