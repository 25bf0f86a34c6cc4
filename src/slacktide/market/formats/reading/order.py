"""The order of samples: by pool and time, each time once, or a refusal that names the line."""

from __future__ import annotations

import numpy as np

from slacktide.core.arrays import Bools, Ints
from slacktide.market.formats.reading.samples import Irregular, Samples, stamp


def ordered(samples: Samples, irregular: Irregular) -> Ints:
    """Return the rows by pool and time, each time once; raises FileError for what is not allowed."""
    order = np.argsort(samples.pool, kind="stable")
    back = _inside_pools(samples, order) & (np.diff(samples.micros[order]) < 0)
    if back.any():
        if irregular.unsorted == "refuse":
            at = int(np.flatnonzero(back)[order[1:][back].argmin()])
            before, row = samples.micros[order[at]], int(order[at + 1])
            raise samples.error(
                row,
                f"rows must be in order of time, got {stamp(samples.micros[row])} after {stamp(before)}; "
                "sort the file, or allow it with unsorted=sort (--sort)",
            )
        order = np.lexsort((samples.micros, samples.pool))
    return without_duplicates(samples, order, irregular)


def without_duplicates(samples: Samples, order: Ints, irregular: Irregular) -> Ints:
    """Keep one row of each pool and time; raises FileError unless it is said which one."""
    twice = _inside_pools(samples, order) & (np.diff(samples.micros[order]) == 0)
    if not twice.any():
        return order
    if irregular.duplicates == "refuse":
        row = int(order[1:][twice].min())
        raise samples.error(
            row,
            f"a time must come once per pool, got {stamp(samples.micros[row])} again; remove one row, "
            "or choose with duplicates=first or duplicates=last",
        )
    drop = np.append(False, twice) if irregular.duplicates == "first" else np.append(twice, False)
    kept: Ints = order[~drop]
    return kept


def without_repeats(samples: Samples, order: Ints) -> Ints:
    """Drop rows that say again what the row before says of the same moment: feeds repeat themselves."""
    same = _inside_pools(samples, order) & (np.diff(samples.micros[order]) == 0)
    same &= np.diff(samples.spot_usd_per_gpu_hour[order]) == 0
    kept: Ints = order[np.append(True, ~same)]
    return kept


def _inside_pools(samples: Samples, order: Ints) -> Bools:
    """Return which neighbours in this order belong to one pool."""
    return np.asarray(np.diff(samples.pool[order]) == 0)


def parts_by_pool(samples: Samples, order: Ints) -> list[Ints]:
    """Split rows in order by pool; the pools come in the order of their first row in the file."""
    parts = np.split(order, np.flatnonzero(np.diff(samples.pool[order])) + 1)
    return sorted(parts, key=lambda rows: int(rows.min()))
