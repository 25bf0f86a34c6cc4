"""What every reader makes of its file: samples in the file's own order, and how to point back at them.

`ordered` brings them into the order of pool and time, each time once, or refuses with the line that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.errors import FileError, UnknownNameError, shown

COLUMNS = ("time_utc", "pool", "spot_gpus", "spot_usd_per_gpu_hour", "on_demand_usd_per_gpu_hour")
"""The columns of our own table format."""
GPU_COLUMN = "gpu"
"""A column that a table may have besides: the GPU type of the pool, the same in all its rows."""

STOCK_COLUMN = "on_demand_gpus"
"""Another: how many GPUs can be had on demand; a blank cell means no limit."""
OPTIONAL_COLUMNS = (GPU_COLUMN, STOCK_COLUMN)
COUNT_COLUMN = "spot_gpus"
"""What a table in CSV may leave out, as tables of live prices do: no source counts spot GPUs."""
PRICE_COLUMNS = tuple(name for name in COLUMNS if name != COUNT_COLUMN)
ASSUMED_SPOT_GPUS = 16
"""Spot GPUs that are assumed where no source says how many there are."""

MICROS_PER_HOUR = 3_600_000_000
MAX_ROWS = 10_000_000
"""The most rows of a table that are read."""
MAX_SPOT_GPUS = 10**9
MAX_USD_PER_GPU_HOUR = 1e9
"""Greater numbers are slips, and could overflow sums."""

_UNIX = datetime(1970, 1, 1, tzinfo=UTC)

LEAST_MICROS, MOST_MICROS = -62_135_596_800_000_000, 253_402_300_799_999_999
"""Microseconds since 1970 when the year 1 begins and when the year 9999 ends: Python has no other times."""


@dataclass(frozen=True, slots=True)
class Irregular:
    """What to do about gaps, rows out of order and rows given twice; all are refused by default."""

    gaps: str = "refuse"
    """`refuse`, `hold` (the last row stays true) or `empty` (no spot until the next row)."""
    unsorted: str = "refuse"
    """`refuse` or `sort`."""
    duplicates: str = "refuse"
    """`refuse`, or the one to keep: `first` or `last`."""

    def __post_init__(self) -> None:
        _one_of("gaps", self.gaps, ("refuse", "hold", "empty"))
        _one_of("unsorted", self.unsorted, ("refuse", "sort"))
        _one_of("duplicates", self.duplicates, ("refuse", "first", "last"))


class SamplePlace(NamedTuple):
    """Where a sample stands in its file: a line, or words where a file has no lines."""

    line: int | None
    words: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """What a file says about its pools, row by row in the file's order; numbers are already checked."""

    path: str
    pools: tuple[str, ...]
    pool: Ints
    """Index into `pools`."""
    micros: Ints
    """Microseconds since 1970, UTC."""
    spot_gpus: Ints
    spot_usd_per_gpu_hour: Floats
    on_demand_usd_per_gpu_hour: Floats
    place: Callable[[int], SamplePlace]
    """Finds a row in the file; may be slow, because it is only called when something is wrong."""
    gpu_types: tuple[str, ...] = ()
    """The GPU type of each pool, empty where it is not known; none at all where no pool's is."""
    on_demand_gpus: Ints | None = None
    """On-demand GPUs that can be had; None where the file does not say."""
    counted: bool = True
    """Whether the file says how many spot GPUs there are; what stands for that is assumed where not."""

    def __len__(self) -> int:
        return len(self.micros)

    def gpu(self, row: int) -> str:
        """Return the GPU type of the pool of a row; empty where it is not known."""
        return self.gpu_types[self.pool[row]] if self.gpu_types else ""

    def error(self, row: int, message: str) -> FileError:
        """Make the error that names the file, the line and the pool of a row."""
        line, words = self.place(row)
        pool = self.pools[self.pool[row]]
        prefix = f"{words}: " if words else ""
        return FileError(f"{prefix}pool {shown(pool)}: {message}", path=self.path, line=line)


def is_header(names: Sequence[str]) -> bool:
    """Whether these are the columns of a table, in any order, each once."""
    may = (*OPTIONAL_COLUMNS, COUNT_COLUMN)
    rest = [name for name in names if name not in may]
    return sorted(rest) == sorted(PRICE_COLUMNS) and all(names.count(name) <= 1 for name in may)


def micros_of(time: datetime) -> int:
    """Return microseconds since 1970; a time without zone is UTC."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _UNIX) // timedelta(microseconds=1)


def time_of(micros: int) -> datetime:
    """Return the time of a number of microseconds since 1970, in UTC."""
    return _UNIX + timedelta(microseconds=int(micros))


def stamp(micros: int) -> str:
    """Write a time as in our files: `2025-10-04T00:10:00Z`."""
    return time_of(micros).isoformat().replace("+00:00", "Z")


def _one_of(name: str, given: str, known: tuple[str, ...]) -> None:
    if given not in known:
        raise UnknownNameError(name, given, known)


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
