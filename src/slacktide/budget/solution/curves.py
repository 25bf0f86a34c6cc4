"""What a phase takes at each width, the restart of a first start included, and what is chosen of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from slacktide.budget.classes import speedups_at
from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError, shown
from slacktide.core.types import Phase

TIE_SHARE = 1e-12  # amounts closer than this share of them are equal: k * x / k is not x in floating point


class PhaseWidths(NamedTuple):
    """One phase, whose it is, the widths it may have, and the pause before it."""

    class_name: str
    phase: Phase
    widths: Floats
    start_hours: float = 0.0
    """Hours without progress before the phase, with its width billed: the restart of a first start."""


class WidthTable(NamedTuple):
    """Hours and GPU-hours of some phases at each of their widths, one row after another."""

    start: Ints  # where each row begins, and at last where all end
    widths: Floats
    hours: Floats
    gpu_hours: Floats


class WidthChoice(NamedTuple):
    """One choice for each item."""

    gpu_hours: Floats  # by item, for one job
    hours: Floats
    widths: Floats  # by phase, all phases of all items in order


class Weights(NamedTuple):
    """What an hour and a GPU-hour count."""

    hour: float
    gpu_hour: float


class WidthChooser(Protocol):
    """Items of one kind."""

    def cheapest(self, hour_weight: float, gpu_hour_weight: float) -> WidthChoice:
        """Minimise weighted hours and GPU-hours for each item; at ties whichever has less of the other."""
        ...


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
