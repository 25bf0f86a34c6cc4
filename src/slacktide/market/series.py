"""Turn samples into series of regular slots, and change the slot length of series.

A series is a step function of time. In a new slot the availability, spot and on demand, is the minimum
inside it (GPUs that can be kept for the whole slot), and a price is its time-weighted mean.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.errors import InputError, shown
from slacktide.market.base import Market, Pool
from slacktide.market.formats.samples import MICROS_PER_HOUR, Samples, stamp, time_of
from slacktide.market.spec import ReadOptions

MAX_SLOTS = 5_000_000
"""The most slots of a market, over all its pools: 95 years of ten minutes. A mistyped time or slot length
must not take all memory, or hours."""

_FINEST = 1_000_000  # the greatest denominator of the fraction that stands for the ratio of two lengths
_GAP_STEPS = 1.5  # rows further apart than this many steps have a gap between them; nearer is jitter
_SAME_STEP = 1.1  # pools whose steps differ by less than this factor were sampled together


def regular(samples: Samples, options: ReadOptions, step_hours: float | None = None) -> Market:
    """Turn a sampled trace into pools of one slot length: the one requested, or else the trace's own.

    Its own is `step_hours`, or else the median spacing of its rows. Raises FileError for gaps, disorder and
    duplicates that were not allowed.
    """
    parts = _parts_by_pool(samples, _ordered(samples, options))
    spacings = [np.diff(samples.micros[rows]) for rows in parts]
    own = [_median(spacing) for spacing in spacings if len(spacing)]
    slot_hours = options.slot_hours
    common: int | None = None  # the step of pools that were sampled together
    if step_hours is not None:
        common = round(step_hours * MICROS_PER_HOUR)
    elif not own and slot_hours is not None:
        common = max(1, round(_checked(slot_hours) * MICROS_PER_HOUR))
    elif not own:
        raise samples.error(
            0, "the slot length must be given when no pool has two rows, got one; give it with --slot"
        )
    elif max(own) <= _SAME_STEP * min(own):
        common = _median(np.concatenate(spacings))
    steps = [common or (_median(spacing) if len(spacing) else min(own)) for spacing in spacings]
    slots = (int(spacing.sum()) // step + 1 for spacing, step in zip(spacings, steps, strict=True))
    check_slots(sum(slots), samples.path)
    pools = [_pool(samples, rows, step, options) for rows, step in zip(parts, steps, strict=True)]
    assumed = _filled(spacings, steps, options)
    if common is None:
        slot_hours = min(own) / MICROS_PER_HOUR if slot_hours is None else slot_hours
        assumed += (f"Pools sampled at different steps were resampled to slots of {60 * slot_hours:g} min.",)
    market = Market(tuple(pools), samples.path, assumed)
    return market if slot_hours is None else resample(market, slot_hours)


def from_events(samples: Samples, options: ReadOptions, slot_hours: float) -> Market:
    """Turn a feed of changes into pools: every row holds until the next one of its pool.

    Slots lie on whole multiples of their length since 1970 and end with the feed's last change.
    """
    order = np.lexsort((samples.micros, samples.pool))
    order = _without_duplicates(samples, _without_repeats(samples, order), options)
    end = int(samples.micros.max())
    slot = max(1, round(_checked(slot_hours) * MICROS_PER_HOUR))
    parts = _parts_by_pool(samples, order)
    check_slots(sum((end - int(samples.micros[rows[0]])) // slot + 1 for rows in parts), samples.path)
    return Market(tuple(_event_pool(samples, rows, slot, end) for rows in parts), samples.path)


def resample(market: Market, slot_hours: float) -> Market:
    """Bring every pool to another slot length, finer or coarser; an incomplete last slot is dropped."""
    _checked(slot_hours)
    check_slots(sum(pool.hours for pool in market.pools) / slot_hours, market.source)
    return replace(market, pools=tuple(_resampled(pool, slot_hours, market.source) for pool in market.pools))


def check_slots(slots: float, what: str) -> None:
    """Raise InputError for a market of too many slots, before it is made."""
    if not slots <= MAX_SLOTS:
        raise InputError(
            f"{what}: a market must have <= {MAX_SLOTS} slots in all its pools, got {slots:.3g}; use longer "
            "slots, or check the times"
        )


def _ordered(samples: Samples, options: ReadOptions) -> Ints:
    """Return the rows by pool and time, each time once; raises FileError for what is not allowed."""
    order = np.argsort(samples.pool, kind="stable")
    back = _inside_pools(samples, order) & (np.diff(samples.micros[order]) < 0)
    if back.any():
        if options.unsorted == "refuse":
            at = int(np.flatnonzero(back)[order[1:][back].argmin()])
            before, row = samples.micros[order[at]], int(order[at + 1])
            raise samples.error(
                row,
                f"rows must be in order of time, got {stamp(samples.micros[row])} after {stamp(before)}; "
                "sort the file, or allow it with unsorted=sort (--sort)",
            )
        order = np.lexsort((samples.micros, samples.pool))
    return _without_duplicates(samples, order, options)


def _without_duplicates(samples: Samples, order: Ints, options: ReadOptions) -> Ints:
    """Keep one row of each pool and time; raises FileError unless the options say which."""
    twice = _inside_pools(samples, order) & (np.diff(samples.micros[order]) == 0)
    if not twice.any():
        return order
    if options.duplicates == "refuse":
        row = int(order[1:][twice].min())
        raise samples.error(
            row,
            f"a time must come once per pool, got {stamp(samples.micros[row])} again; remove one row, "
            "or choose with duplicates=first or duplicates=last",
        )
    drop = np.append(False, twice) if options.duplicates == "first" else np.append(twice, False)
    return np.asarray(order[~drop])


def _without_repeats(samples: Samples, order: Ints) -> Ints:
    """Drop rows that repeat the time and price of the row before, as feeds do."""
    same = _inside_pools(samples, order) & (np.diff(samples.micros[order]) == 0)
    same &= np.diff(samples.spot_usd_per_gpu_hour[order]) == 0
    return np.asarray(order[np.append(True, ~same)])


def _inside_pools(samples: Samples, order: Ints) -> Bools:
    return np.asarray(np.diff(samples.pool[order]) == 0)


def _parts_by_pool(samples: Samples, order: Ints) -> list[Ints]:
    """Split rows in order by pool; the pools come in the order of their first row in the file."""
    parts = np.split(order, np.flatnonzero(np.diff(samples.pool[order])) + 1)
    return sorted(parts, key=lambda rows: int(rows.min()))


class _Pieces(NamedTuple):
    """A step function cut at the borders of slots."""

    source: Ints  # which step a piece comes from
    length: Ints
    first: Ints  # the first piece of every slot
    slot: Ints  # which slot a piece is in


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
    """Return the median; of two in the middle the lower one, so that it is a spacing that occurs."""
    middle = (len(spacing) - 1) // 2
    return int(np.partition(spacing, middle)[middle])


def _pool(samples: Samples, rows: Ints, step: int, options: ReadOptions) -> Pool:
    """Put the samples of a pool on a regular grid, each on its nearest slot."""
    times = samples.micros[rows]
    _check_gaps(samples, rows, step, options)
    near = (times - times[0] + step // 2) // step
    slots = int(near[-1]) + 1
    first = np.flatnonzero(np.diff(near, prepend=-1))
    last = np.append(first[1:], len(times)) - 1
    which = np.searchsorted(near[first], np.arange(slots), side="right") - 1
    gpus = np.minimum.reduceat(samples.spot_gpus[rows], first)[which]
    if options.gaps == "empty":
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


def _filled(spacings: list[Ints], steps: list[int], options: ReadOptions) -> tuple[str, ...]:
    """Say how many gaps were filled, and with what; a gap's length is what it exceeds the usual step by."""
    missing = np.concatenate(
        [spacing[spacing > _GAP_STEPS * step] - step for spacing, step in zip(spacings, steps, strict=True)]
    )
    if not len(missing):
        return ()
    how = "with the quote before them" if options.gaps == "hold" else "as times without spot"
    hours, longest = missing.sum() / MICROS_PER_HOUR, missing.max() / MICROS_PER_HOUR
    count = len(missing)
    return (
        f"{count} gap{'s' * (count > 1)} of {hours:.4g} h in all, the longest {longest:.3g} h, filled {how}.",
    )


def _check_gaps(samples: Samples, rows: Ints, step: int, options: ReadOptions) -> None:
    if options.gaps != "refuse":
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
