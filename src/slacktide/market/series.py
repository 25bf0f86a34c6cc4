"""From samples to regular series, and from one slot length to another.

A series is a step function of time. In a new slot the availability is the minimum inside it
(GPUs one can keep for the whole slot), also that of on demand, and a price its time-weighted mean.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError, shown
from slacktide.market.base import Market, Pool
from slacktide.market.formats.samples import (
    MICROS_PER_HOUR,
    Irregular,
    Samples,
    ordered,
    parts_by_pool,
    stamp,
    time_of,
    without_duplicates,
    without_repeats,
)

MAX_SLOTS = 5_000_000
"""The most slots of a market, over all its pools: 95 years of ten minutes. A slip in a time or a slot length
must take neither all memory nor hours."""

_FINEST = 1_000_000
"""Lengths differ if they do by more than this share of the shorter one."""
_GAP_STEPS = 1.5
"""Rows further apart than this many steps have a gap between them; nearer is jitter."""
_SAME_STEP = 1.1
"""Pools whose steps differ by less than this factor were sampled together."""


def regular(
    samples: Samples, irregular: Irregular, slot_hours: float | None, step_hours: float | None = None
) -> Market:
    """Turn a sampled trace into pools of one slot length; its own step, unless one is requested.

    Its step is the median spacing of its rows, unless it is known. Raises FileError for gaps, disorder and
    duplicates that were not allowed.
    """
    parts = parts_by_pool(samples, ordered(samples, irregular))
    steps = [_median(np.diff(samples.micros[rows])) if len(rows) > 1 else None for rows in parts]
    if step_hours is not None:
        steps = [round(step_hours * MICROS_PER_HOUR)] * len(parts)
    known = [step for step in steps if step is not None]
    if not known and slot_hours is None:
        raise samples.error(
            0, "the slot length must be given when no pool has two rows, got one; give it with --slot"
        )
    common = known[0] if step_hours is not None else _common_step(samples, parts, known, slot_hours)
    every = [common or step or min(known) for step in steps]
    spans = (samples.micros[rows[-1]] - samples.micros[rows[0]] for rows in parts)
    check_slots(sum(int(span) // step + 1 for span, step in zip(spans, every, strict=True)), samples.path)
    pools = [_pool(samples, rows, step, irregular) for rows, step in zip(parts, every, strict=True)]
    assumed = _filled(samples, parts, every, irregular)
    if common is None:
        slot_hours = min(known) / MICROS_PER_HOUR if slot_hours is None else slot_hours
        assumed += (f"Pools sampled at different steps were resampled to slots of {60 * slot_hours:g} min.",)
    market = Market(tuple(pools), samples.path, assumed)
    return market if slot_hours is None else resample(market, slot_hours)


def from_events(samples: Samples, irregular: Irregular, slot_hours: float) -> Market:
    """Turn a feed of changes into pools: every row is true until the next one of its pool.

    Slots lie on whole multiples of their length since 1970 and end with the feed's last change.
    """
    order = np.lexsort((samples.micros, samples.pool))
    order = without_duplicates(samples, without_repeats(samples, order), irregular)
    end = int(samples.micros.max())
    slot = max(1, round(_checked(slot_hours) * MICROS_PER_HOUR))
    parts = parts_by_pool(samples, order)
    check_slots(sum((end - int(samples.micros[rows[0]])) // slot + 1 for rows in parts), samples.path)
    return Market(tuple(_event_pool(samples, rows, slot, end) for rows in parts), samples.path)


def resample(market: Market, slot_hours: float) -> Market:
    """Bring every pool to another slot length, finer or coarser; a last slot cut short is dropped."""
    _checked(slot_hours)
    check_slots(sum(pool.hours for pool in market.pools) / slot_hours, market.source)
    return replace(market, pools=tuple(_resampled(pool, slot_hours, market.source) for pool in market.pools))


def check_slots(slots: float, what: str) -> None:
    """Refuse a market too long to be meant, before it is made."""
    if not slots <= MAX_SLOTS:
        raise InputError(
            f"{what}: a market must have <= {MAX_SLOTS} slots in all its pools, got {slots:.3g}; use longer "
            "slots, or check the times"
        )


class _Pieces(NamedTuple):
    """A step function cut at the borders of slots."""

    source: Ints
    """Which step a piece comes from."""
    length: Ints
    first: Ints
    """The first piece of every slot."""
    slot: Ints
    """Which slot a piece is in."""


def _pieces(edges: Ints, cuts: Ints) -> _Pieces:
    borders = np.union1d(edges[(edges > cuts[0]) & (edges < cuts[-1])], cuts)
    source = np.searchsorted(edges, borders[:-1], side="right") - 1
    first = np.searchsorted(borders, cuts[:-1])
    slot = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(source))))
    return _Pieces(source, np.diff(borders), first, slot)


def _minimum(values: Ints, pieces: _Pieces) -> Ints:
    return np.asarray(np.minimum.reduceat(values[pieces.source], pieces.first), dtype=np.int64)


def _mean(values: Floats, pieces: _Pieces) -> Floats:
    given = values[pieces.source]
    base = given[pieces.first]
    # Averaging the differences to the slot's first value keeps a constant price exact.
    moved = np.add.reduceat((given - base[pieces.slot]) * pieces.length, pieces.first)
    mean = base + moved / np.add.reduceat(pieces.length, pieces.first)
    low, high = np.minimum.reduceat(given, pieces.first), np.maximum.reduceat(given, pieces.first)
    return np.asarray(np.clip(mean, low, high), dtype=np.float64)


def _resampled(pool: Pool, slot_hours: float, source: str) -> Pool:
    if slot_hours == pool.slot_hours:
        return pool
    slot, step = _ratio(slot_hours / pool.slot_hours)
    total = len(pool) * step
    if slot > total:
        raise InputError(
            f"{source}: pool {shown(pool.name)}: a slot must be at most as long as the series "
            f"({pool.hours:g} h), got {slot_hours:g} h"
        )
    pieces = _pieces(np.arange(len(pool) + 1) * step, np.arange(total // slot + 1) * slot)
    return replace(
        pool,
        slot_hours=slot_hours,
        spot_usd_per_gpu_hour=_mean(pool.spot_usd_per_gpu_hour, pieces),
        on_demand_usd_per_gpu_hour=_mean(pool.on_demand_usd_per_gpu_hour, pieces),
        spot_gpus=_minimum(pool.spot_gpus, pieces),
        on_demand_gpus=None if pool.on_demand_gpus is None else _minimum(pool.on_demand_gpus, pieces),
    )


def _ratio(slots: float) -> tuple[int, int]:
    """Return two lengths as whole numbers of a common unit, so that borders that should meet do meet."""
    if slots < 1:
        step, slot = _ratio(1 / slots)
        return slot, step
    near = Fraction(slots).limit_denominator(_FINEST)
    return near.numerator, near.denominator


def _event_pool(samples: Samples, rows: Ints, slot: int, end: int) -> Pool:
    times = samples.micros[rows]
    start = -(-int(times[0]) // slot) * slot
    slots = max(1, (end - start) // slot)
    cuts = start + np.arange(slots + 1) * slot
    pieces = _pieces(np.append(times, max(int(times[-1]), int(cuts[-1])) + 1), cuts)
    return Pool(
        samples.pools[samples.pool[rows[0]]],
        slot / MICROS_PER_HOUR,
        _mean(samples.spot_usd_per_gpu_hour[rows], pieces),
        _mean(samples.on_demand_usd_per_gpu_hour[rows], pieces),
        _minimum(samples.spot_gpus[rows], pieces),
        time_of(start),
        samples.gpu(int(rows[0])),
    )


def _median(spacing: Ints) -> int:
    """Return the median; the lower one of two, so that it is a spacing that occurs."""
    middle = (len(spacing) - 1) // 2
    return int(np.partition(spacing, middle)[middle])


def _common_step(
    samples: Samples, parts: list[Ints], known: list[int], slot_hours: float | None
) -> int | None:
    """Return the step of pools that were sampled together; None when they were not."""
    if not known:
        assert slot_hours is not None
        return max(1, round(_checked(slot_hours) * MICROS_PER_HOUR))
    if max(known) > _SAME_STEP * min(known):
        return None
    spacing = np.concatenate([np.diff(samples.micros[rows]) for rows in parts])
    return _median(spacing)


def _pool(samples: Samples, rows: Ints, step: int, irregular: Irregular) -> Pool:
    """Put the samples of a pool on a regular grid, each on its nearest slot."""
    times = samples.micros[rows]
    _check_gaps(samples, rows, step, irregular)
    near = (times - times[0] + step // 2) // step
    slots = int(near[-1]) + 1
    first = np.flatnonzero(np.diff(near, prepend=-1))
    last = np.append(first[1:], len(times)) - 1
    which = np.searchsorted(near[first], np.arange(slots), side="right") - 1
    gpus = np.minimum.reduceat(samples.spot_gpus[rows], first)[which]
    if irregular.gaps == "empty":
        gap = np.append(times[first[1:]] - times[last[:-1]] > _GAP_STEPS * step, False)
        gpus[gap[which] & (np.arange(slots) != near[first][which])] = 0
    stock = samples.on_demand_gpus
    counts = last - first + 1
    return Pool(
        samples.pools[samples.pool[rows[0]]],
        step / MICROS_PER_HOUR,
        (np.add.reduceat(samples.spot_usd_per_gpu_hour[rows], first) / counts)[which],
        (np.add.reduceat(samples.on_demand_usd_per_gpu_hour[rows], first) / counts)[which],
        gpus,
        time_of(times[0]),
        samples.gpu(int(rows[0])),
        None if stock is None else np.minimum.reduceat(stock[rows], first)[which],
    )


def _filled(samples: Samples, parts: list[Ints], steps: list[int], irregular: Irregular) -> tuple[str, ...]:
    """Say how many gaps were filled, and with what."""
    missing = np.concatenate([_missing(samples, rows, step) for rows, step in zip(parts, steps, strict=True)])
    if not len(missing):
        return ()
    how = "with the quote before them" if irregular.gaps == "hold" else "as times without spot"
    hours, longest = missing.sum() / MICROS_PER_HOUR, missing.max() / MICROS_PER_HOUR
    count = len(missing)
    return (
        f"{count} gap{'s' * (count > 1)} of {hours:.4g} h in all, the longest {longest:.3g} h, filled {how}.",
    )


def _missing(samples: Samples, rows: Ints, step: int) -> Ints:
    """Return how long each gap of a pool is, beyond the step that any two rows are apart."""
    spacing: Ints = np.diff(samples.micros[rows])
    return spacing[spacing > _GAP_STEPS * step] - step


def _check_gaps(samples: Samples, rows: Ints, step: int, irregular: Irregular) -> None:
    if irregular.gaps != "refuse":
        return
    spacing = np.diff(samples.micros[rows])
    wide = np.flatnonzero(spacing > _GAP_STEPS * step)
    if len(wide):
        at = int(wide[0])
        raise samples.error(
            int(rows[at + 1]),
            f"rows must follow each other every {step / 6e7:g} min, got a gap of {spacing[at] / 6e7:g} min "
            f"before {stamp(samples.micros[rows[at + 1]])}; allow it with gaps=hold (the last row still "
            "holds) or gaps=empty (no spot in the gap)",
        )


def _checked(slot_hours: float) -> float:
    if not (math.isfinite(slot_hours) and slot_hours >= 1e-3 / 3600):
        raise InputError(f"the slot length must be >= 0.001 s, got {3600 * slot_hours:g} s")
    return slot_hours
