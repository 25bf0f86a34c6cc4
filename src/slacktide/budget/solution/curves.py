"""What a phase takes at each width, the restart of a first start included: hours, and GPU-hours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError, shown
from slacktide.core.speedup import CONCAVE, Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Phase

TIE_SHARE = 1e-12
"""Amounts closer than this share of them are equal: k * x / k is not x in floating point."""


class PhaseWidths(NamedTuple):
    """One phase, whose it is, the widths it may have, and the pause before it."""

    class_name: str
    phase: Phase
    widths: Floats
    start_hours: float = 0.0
    """Hours without progress before the phase, with its width billed: the restart of a first start."""


class WidthTable(NamedTuple):
    """Hours and GPU-hours of some phases at each of their widths, one row after another."""

    start: Ints
    """Where each row begins, and at last where all end."""
    widths: Floats
    hours: Floats
    gpu_hours: Floats


def speedups_at(speedup: Speedup, widths: Floats) -> Floats:
    """Evaluate a speedup at many widths at once; those that are not exactly ours one by one."""
    if type(speedup) not in CONCAVE:
        return np.array([float(speedup(width)) for width in widths.tolist()])
    found: Floats
    if isinstance(speedup, Linear):
        found = speedup.alpha * widths + speedup.beta
    elif isinstance(speedup, Power):
        found = widths**speedup.exponent
    elif isinstance(speedup, Amdahl):
        found = 1.0 / (1.0 - speedup.parallel_share + speedup.parallel_share / widths)
    else:
        assert isinstance(speedup, Table)
        corners = np.array(speedup.hull())
        found = np.interp(widths, corners[:, 0], corners[:, 1])
    return found


@lru_cache(maxsize=64)
def width_array(widths: tuple[int, ...]) -> Floats:
    """Return widths as an array: classes share their tuples, and arrays are slow to make of them."""
    found = np.array(widths, dtype=np.float64)
    found.flags.writeable = False
    return found


def entries_of(job_class: JobClass, widths: Floats) -> list[PhaseWidths]:
    """List the phases of a class at some widths; the first one begins with the restart of a first start."""
    return [
        PhaseWidths(job_class.name, phase, widths, 0.0 if index else job_class.restart_hours)
        for index, phase in enumerate(job_class.phases)
    ]


def rows_of(entries: Sequence[PhaseWidths]) -> WidthTable:
    """Tabulate phases. Raises InputError where a speedup is not a number > 0."""
    known: dict[tuple[int, int], Floats] = {}
    rates = []
    for entry in entries:
        key = id(entry.phase.speedup), id(entry.widths)
        if key not in known:
            known[key] = speedups_at(entry.phase.speedup, entry.widths)
        rates.append(known[key])
    lengths = np.array([len(rate) for rate in rates], dtype=np.int64)
    start = np.concatenate(([0], np.cumsum(lengths)))
    rate = np.concatenate(rates)
    widths = np.concatenate([entry.widths for entry in entries])
    _check(entries, start, widths, rate)
    hours = np.repeat([entry.phase.work_gpu_hours for entry in entries], lengths) / rate
    hours += np.repeat([entry.start_hours for entry in entries], lengths)
    return WidthTable(start, widths, _tied(hours, start, lengths), _tied(widths * hours, start, lengths))


def _check(entries: Sequence[PhaseWidths], start: Ints, widths: Floats, rate: Floats) -> None:
    good = np.isfinite(rate) & (rate > 0)
    if good.all():
        return
    wrong = int(np.argmin(good))
    entry = entries[int(np.searchsorted(start, wrong, side="right")) - 1]
    raise InputError(
        f"class {shown(entry.class_name)}: the speedup must be > 0 at every allowed width, got "
        f"{rate[wrong]:g} at {widths[wrong]:g} GPUs; correct the speedup or leave the width out"
    )


def _tied(values: Floats, start: Ints, lengths: Ints) -> Floats:
    """Make values equal to their row's least where only rounding keeps them apart."""
    least = np.repeat(np.minimum.reduceat(values, start[:-1]), lengths)
    return np.where(values <= least * (1.0 + TIE_SHARE), least, values)
