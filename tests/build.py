"""The nouns that tests need again and again, with usual values; a test names only what it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slacktide.core.types import Job
from slacktide.journal.events import Event, Record, Submitted
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market, Pool
from slacktide.market.formats import table
from slacktide.market.formats.market_bytes import read_bytes
from slacktide.market.spec import ReadOptions

Series = float | Sequence[float] | np.ndarray[Any, Any]
"""One value for all slots, or one per slot."""

SUBMITTED_UTC = "2026-01-01T00:00:00+00:00"


def job(**changes: Any) -> Job:
    """Return 12 GPU-hours of work on 1, 2 or 4 GPUs that must be done in 10 hours, with changes."""
    return Job(**{"work_gpu_hours": 12.0, "deadline_hours": 10.0, "widths": (1, 2, 4), **changes})


def pool(
    spot_usd: Series = 1.0,
    on_demand_usd: Series = 4.0,
    spot_gpus: Series = 4,
    *,
    slots: int | None = None,
    name: str = "here",
    slot_hours: float = 0.5,
    **more: Any,
) -> Pool:
    """Return a pool; `slots` says how long it is where none of its series does."""
    series = (spot_usd, on_demand_usd, spot_gpus)
    lengths = [len(one) for one in series if not isinstance(one, float | int)]
    count = lengths[0] if lengths else slots
    assert count is not None, "slots must be given where all series are one value"
    usd, fallback_usd, gpus = (np.full(count, one) if isinstance(one, float | int) else one for one in series)
    return Pool(name, slot_hours, np.asarray(usd), np.asarray(fallback_usd), np.asarray(gpus), **more)


def submitted(job: str = "job", **changes: Any) -> Submitted:
    """Return the event that opens a job's history, with changes."""
    usual = {
        "at_hours": 0.0, "text": "", "submitted_utc": SUBMITTED_UTC, "path": "", "policy": "",
        "slot_hours": 0.5, "start_slot": 0,
    }  # fmt: skip
    return Submitted(job=job, **{**usual, **changes})


class Killed(BaseException):
    """The controller was killed here: no handler of an error runs."""


class DyingStore(MemoryStore):
    """A journal whose controller dies at the nth write from now on, just before it or just after it."""

    def __init__(self, left: int = 0, *, before: bool = False) -> None:
        super().__init__()
        self.left, self.before = left, before

    def append(self, events: Iterable[Event]) -> list[Record]:
        self.left -= 1
        if self.left == 0 and self.before:
            raise Killed
        records = super().append(events)
        if self.left == 0:
            raise Killed
        return records


def read_as(reader: Callable[[str, bytes, ReadOptions], Market], path: str | Path, **options: Any) -> Market:
    """Read a file with the reader of one format; gaps are refused unless something else is said."""
    return reader(str(path), read_bytes(path), ReadOptions(**{"gaps": "refuse", **options}))


def read_table(path: str | Path, **options: Any) -> Market:
    """Read a table in our own format."""
    return read_as(table.read_table, path, **options)
