"""What every reader makes of its file: samples in the file's own order, and how to point back at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from slacktide.core.arrays import Floats, Ints
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
