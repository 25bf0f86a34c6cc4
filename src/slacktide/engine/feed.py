"""A market that is still being written: a file to which somebody appends a row per slot.

`feed:PATH` names a market table (CSV) that grows. A slot whose row has not come yet is taken to be like
the last one that has; when the row comes it counts from then on. What is recorded of the past never changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from slacktide.backtesting.plain import DEFAULT_FORECASTER, DEFAULT_HORIZON
from slacktide.errors import BackendError, FileError, InputError
from slacktide.forecast.on_tape import OnTape
from slacktide.market.base import Market, Pool
from slacktide.market.cells import in_lines, records_of
from slacktide.market.csv_rows import rows_of
from slacktide.market.files import as_text, read_bytes
from slacktide.market.growing import Growing
from slacktide.market.samples import COLUMNS, time_of
from slacktide.market.source import open_market
from slacktide.market.tape import first_hours
from slacktide.site.moment import Moment
from slacktide.site.tapes import Tapes
from slacktide.types import Quote

SCHEME = "feed:"
TAIL_BYTES = 256
"""How much of what was read is compared with what is there now: a file that was rewritten is read anew."""


def is_feed(spec: str) -> bool:
    """Whether a market's name means a feed."""
    return spec.startswith(SCHEME)


def open_feed(spec: str, **options: Any) -> Market:
    """Open a feed as it stands now; raises FileError or InputError."""
    path = feed_path(spec)
    return open_market(path, data=whole_lines(read_bytes(path)), **options)


def feed_path(spec: str) -> str:
    """Return the file of a feed."""
    path = spec.removeprefix(SCHEME)
    if not path:
        raise InputError(f"a feed must name its file, as in {SCHEME}prices.csv, got {spec!r}")
    return path


def header_of(data: bytes) -> list[str]:
    """Return the names in the first line of a table in CSV; none where it is something else."""
    names = [name.strip() for name in data.partition(b"\n")[0].decode("utf-8-sig", "replace").split(",")]
    return names if sorted(names) == sorted(COLUMNS) else []


def whole_lines(data: bytes) -> bytes:
    """Return a table without the last line while its end has not been written; other files as they are."""
    return data[: data.rfind(b"\n") + 1] if header_of(data) else data


class Feed:
    """All pools of a market file that grows, on one clock: what is new of it goes onto a tape for each."""

    def __init__(self, spec: str, **options: Any) -> None:
        self._path, self._options = Path(feed_path(spec)), options
        self._stamp = self._look()
        self.market = self._open()
        """The market as it stood at the beginning."""
        self._resampled = options.get("slot_hours") is not None
        self._options = {**options, "slot_hours": self.market.pools[0].slot_hours}
        self._pools: dict[str, Growing] = {}
        self._tapes = Tapes((), ())
        for pool in self.market.pools:
            self._add(pool)

    def at(self, name: str, slot: int) -> Moment:
        """Return the market as it stands in a slot of a pool, with all rows that have come by now."""
        self._read()
        hours = self._pools[name].tape.begin_hours(slot)
        for pool in self._pools.values():
            pool.advance(hours)
        return Moment(self._tapes, hours, list(self._pools).index(name))

    def quote(self, name: str, slot: int) -> Quote:
        """Return what a pool offers, or offered, in a slot."""
        self.at(name, slot)
        return self._pools[name].tape.quote(slot)

    def pool(self, name: str) -> Pool:
        """Return all that is known of a pool."""
        self._read()
        return self._pools[name].pool()

    def _open(self) -> Market:
        """Read the whole file, and remember up to where."""
        data = whole_lines(read_bytes(self._path))
        market = open_market(str(self._path), data=data, **self._options)
        self._header = header_of(data)
        self._offset, self._tail = len(data), data[-TAIL_BYTES:]
        self._line = data.count(b"\n") + 1
        return market

    def _look(self) -> tuple[int, int, int]:
        """Return which file it is, how long, and when it was written."""
        try:
            status = os.stat(self._path)
        except OSError as error:
            raise BackendError(
                f"{self._path}: a feed must stay readable, got: {error.strerror}; its last rows are held"
            ) from error
        return status.st_ino, status.st_size, status.st_mtime_ns

    def _read(self) -> None:
        """Take in what was written since the last time; raises FileError at a row that cannot be meant."""
        stamp = self._look()
        if stamp == self._stamp:
            return
        same_file = stamp[0] == self._stamp[0] and stamp[1] >= self._offset
        self._stamp = stamp
        new = self._new_bytes() if same_file and self._by_rows() else None
        if new is None:
            self._read_again()
        else:
            for line in _lines(new):
                self._take(line)

    def _by_rows(self) -> bool:
        """Whether rows can be taken one by one; some ways to fill gaps or to cut slots need all of them."""
        return bool(self._header) and self._options.get("gaps", "hold") == "hold" and not self._resampled

    def _new_bytes(self) -> bytes | None:
        """Return what follows what was read; None where that does not stand there any more."""
        with self._path.open("rb") as file:
            file.seek(self._offset - len(self._tail))
            data = file.read()
        return data[len(self._tail) :] if data.startswith(self._tail) else None

    def _read_again(self) -> None:
        for pool in self._open().pools:
            if pool.name in self._pools:
                self._pools[pool.name].take_new(pool)
            else:
                self._add(pool)

    def _take(self, line: bytes) -> None:
        """Take in one line; only then has it been read."""
        names: dict[str, int] = {}
        rows = rows_of(as_text(line, self._path), str(self._path), self._line)
        for _, micros, _, gpus, usd, on_demand_usd in records_of(
            self._header, rows, names, str(self._path), in_lines
        ):
            self._take_row(next(iter(names)), micros, Quote(usd, on_demand_usd, gpus))
        self._offset += len(line)
        self._tail = (self._tail + line)[-TAIL_BYTES:]
        self._line += 1

    def _take_row(self, name: str, micros: int, quote: Quote) -> None:
        if name not in self._pools:
            slot_hours = self.market.pools[0].slot_hours
            usd, on_demand_usd, gpus = (np.array([number]) for number in quote)
            self._add(Pool(name, slot_hours, usd, on_demand_usd, gpus, time_of(micros)))
            return
        try:
            self._pools[name].take(micros, quote)
        except InputError as error:
            raise FileError(f"pool {name!r}: {error}", path=self._path, line=self._line) from None

    def _add(self, pool: Pool) -> None:
        growing = Growing(pool, first_hours(pool, self.market.pools[0], 0))
        self._pools[pool.name] = growing
        self._tapes.add(growing.tape, OnTape(DEFAULT_FORECASTER, growing.tape, DEFAULT_HORIZON))


def _lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines that are complete, each with its end."""
    start = 0
    while (end := data.find(b"\n", start) + 1) > 0:
        yield data[start:end]
        start = end
