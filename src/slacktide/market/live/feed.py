"""A market that is still being written: a file to which another process appends a row per slot.

`feed:PATH` names a market table (CSV) that grows. A slot whose row has not come yet repeats the last row that
has; when its row comes, that counts from then on. The recorded past never changes. If no row comes for long,
the feed's `trouble` says that its prices are old.

A feed that was opened once never fails. While its file is missing, unreadable or not a table, the known rows
are used, `trouble` says why, and the file is tried again the next time. A row that is damaged, out of order
or too far ahead in time is skipped, and the rows after it count. A file that was rewritten is read again from
its beginning: its rows for slots that have not begun replace the known ones.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from slacktide.core.errors import FileError, InputError, SlacktideError
from slacktide.core.files import utf8_text
from slacktide.core.quotes import Quote
from slacktide.market.availability import PoolRecord, gpus_at, record_for
from slacktide.market.base import Market, Pool
from slacktide.market.forecast.base import OnTape
from slacktide.market.forecast.persistence import DEFAULT_FORECASTER, DEFAULT_HORIZON
from slacktide.market.formats.market_bytes import NO_NOTES, read_bytes, read_notes
from slacktide.market.formats.samples import (
    COLUMNS,
    Record,
    SamplePlace,
    first_line,
    is_header,
    records_of,
    rows_of,
    time_of,
)
from slacktide.market.live.live_pool import LivePool
from slacktide.market.source import open_market
from slacktide.market.spec import feed_path
from slacktide.market.tape import MarketView, Tape, first_hours

MOST_POOLS = 4096
MOST_WHOLE_BYTES = 1 << 26
"""The longest file of a feed that has to be read as a whole for every new row."""
KEPT = "its last good rows are used"
STALE_SLOTS, STALE_HOURS = 6, 0.5
"""Prices are old when no row came for this many slots, and for this long: rows may well be a little late."""
PIECE_BYTES = 1 << 16  # read at a time: one or two thousand rows, which take some hundredths of a second
LONGEST_LINE_BYTES = 1 << 12
TAIL_BYTES = 256
"""How much of what was read last is compared with the file, to notice that it was rewritten."""


def open_feed(spec: str, **options: Any) -> Market:
    """Open a feed as it stands now; raises FileError or InputError."""
    path = feed_path(spec)
    return open_market(path, data=whole_lines(read_bytes(path)), **options)


class Feed:
    """All pools of a market file that grows, on one clock: new rows go onto a tape for each pool."""

    def __init__(self, spec: str, **options: Any) -> None:
        """Open the file; raises FileError or InputError, which no other method does for a bad file."""
        self._path, self._options = Path(feed_path(spec)), options
        self._file = FeedFile(self._path)
        self._header: list[str] = []
        self.market = self._open()
        """The market as it stood at the beginning."""
        # Some ways to fill gaps or to cut slots need all rows at once.
        in_order = options.get("gaps", "hold") == "hold" and options.get("slot_hours") is None
        self._by_rows = in_order and bool(self._header)
        self._options = {**options, "slot_hours": self.market.pools[0].slot_hours}
        self._seen: Mapping[str, PoolRecord] = {}
        self._uncounted_gpus = (read_notes(self._path) or NO_NOTES).spot_gpus
        self._file_trouble = self._row_trouble = self._stale_trouble = ""
        self._caught_up, self._again = True, False
        self._pools: dict[str, LivePool] = {}
        self._tapes = list[OnTape]()
        self._parts: dict[tuple[str, ...], list[OnTape]] = {}
        for pool in self.market.pools:
            self._add(pool)

    @property
    def trouble(self) -> str:
        """What is wrong with the file, in a sentence; empty while all is well.

        Trouble with rows is over once newer rows have come without a bad one among them.
        """
        return self._file_trouble or self._row_trouble or self._stale_trouble

    @property
    def is_uncounted(self) -> bool:
        """Whether the file has prices only, so that what is available must be learned by trying."""
        return bool(self.market.uncounted)

    def learn(self, records: Mapping[str, PoolRecord]) -> None:
        """Use what was seen of spot, as the file has no counts: for new rows and, the first time, for all."""
        if not self._seen:
            for name, pool in self._pools.items():
                record = record_for(name, len(self._pools), records)
                if record is not None:
                    pool.learn(record)
        self._seen = records

    def at(self, name: str, slot: int) -> MarketView:
        """Return the market as it stands in a slot of a pool, with all rows that have come by now."""
        self._read()
        hours = self._pools[name].tape.begin_hours(slot)
        for pool in self._pools.values():
            pool.advance(hours)
        self._stale_trouble = self._stale(self._pools[name].tape)
        return MarketView(self._tapes, hours, list(self._pools).index(name))

    def _stale(self, tape: Tape) -> str:
        """Say since when no row came, if that is too long, and why, if the file's writer noted it.

        The sentence stays the same while that lasts, so that one event of a journal reports it.
        """
        held = len(tape) - tape.came
        if held < STALE_SLOTS or held * tape.slot_hours < STALE_HOURS:
            return ""
        if not self._stale_trouble:
            since = self.market.pools[0].start + timedelta(hours=tape.begin_hours(tape.came - 1))
            why = (read_notes(self._path) or NO_NOTES).trouble
            rule = f"prices must keep coming, got none after {since:%Y-%m-%d %H:%M} UTC"
            return f"{self._path}: {rule}{f' ({why})' if why else ''}; {KEPT}"
        return self._stale_trouble

    def among(self, names: tuple[str, ...], slot: int, start_slot: int, own: int) -> MarketView:
        """Return some pools as they are in a slot of the first of them, for a job that is in one of them.

        The moment and its pasts are on the clock of the job, which begins with the job's first slot.
        """
        self.at(names[0], slot)
        tape = self._pools[names[0]].tape
        hours = (slot - start_slot) * tape.slot_hours
        if names not in self._parts:
            all_names = list(self._pools)
            self._parts[names] = [self._tapes[all_names.index(name)] for name in names]
        return MarketView(self._parts[names], hours, own, since_hours=tape.begin_hours(start_slot))

    def quote(self, name: str, slot: int) -> Quote:
        """Return what a pool offers, or offered, in a slot."""
        self.at(name, slot)
        return self._pools[name].tape.quote(slot)

    def pool(self, name: str) -> Pool:
        """Return all that is known of a pool."""
        self._read()
        return self._pools[name].pool()

    def _open(self) -> Market:
        data = whole_lines(read_bytes(self._path))
        market = open_market(str(self._path), data=data, **self._options)
        self._header = header_of(data)
        self._file.passed(data)
        return market

    def _read(self) -> None:
        """Read what was written since the last time, or a bounded piece of it; remember any trouble."""
        try:
            if self._file.changed():
                self._take_rows() if self._by_rows else self._take_whole()
            self._file_trouble = ""
        except OSError as error:
            reason = error.strerror or str(error)
            self._file_trouble = f"{self._path}: a feed must stay readable, got: {reason}; {KEPT}"
        except SlacktideError as error:
            self._file_trouble = f"{error}; {KEPT}"

    def _take_rows(self) -> None:
        if self._caught_up:
            self._row_trouble = ""
        try:
            lines = self._file.more()
        except FileError as error:
            lines = []
            self._pass_over(error)
        if lines is None:
            self._read_again()
            return
        for line in lines:
            try:
                self._take(line)
            except SlacktideError as error:
                self._pass_over(error)
        self._caught_up = not self._file.changed()
        self._again &= not self._caught_up

    def _read_again(self) -> None:
        self._header = self._file.begin_again()
        self._again, self._caught_up = True, False
        for pool in self._pools.values():
            pool.forget_ahead()

    def _pass_over(self, error: SlacktideError) -> None:
        self._row_trouble = self._row_trouble or f"{error}; the row is skipped, {KEPT}"

    def _take_whole(self) -> None:
        self._file.give_up()
        try:
            market = self._whole()
        except SlacktideError as error:
            self._row_trouble = f"{error}; {KEPT}"
            return
        self._row_trouble = ""
        for pool in market.pools:
            if pool.name in self._pools:
                self._pools[pool.name].take_new(pool)
            else:
                self._add(pool)

    def _whole(self) -> Market:
        size = self._path.stat().st_size
        if size > MOST_WHOLE_BYTES:
            raise FileError(
                f"a feed that is read as a whole must have at most {MOST_WHOLE_BYTES >> 20} MiB, got "
                f"{size >> 20}; leave out --slot and --gaps, then it is read row by row",
                path=self._path,
            )
        data = whole_lines(read_bytes(self._path))
        return open_market(str(self._path), data=data, **self._options)

    def _take(self, line: FeedLine) -> None:
        path = str(self._path)
        rows = rows_of(utf8_text(line.data, path, line.number), path, line.number)
        for record in records_of(self._header, rows, path, SamplePlace, self._uncounted_gpus):
            self._take_record(record, self._offered(record))

    def _offered(self, record: Record) -> Quote:
        """Return the quote of a row, with the spot that was seen until then if the file has no counts."""
        gpus = record.spot_gpus
        if self._seen:
            seen = record_for(record.pool, len(self._pools), self._seen)
            gpus = gpus_at(seen, time_of(record.micros), gpus)
        usd, on_demand_usd = record.spot_usd_per_gpu_hour, record.on_demand_usd_per_gpu_hour
        return Quote(usd, on_demand_usd, gpus, record.on_demand_gpus)

    def _take_record(self, record: Record, quote: Quote) -> None:
        name, line = record.pool, record.number
        if name not in self._pools:
            if len(self._pools) >= MOST_POOLS:
                must = f"a feed must have at most {MOST_POOLS} pools"
                raise FileError(f"{must}, got more", path=self._path, line=line)
            slot_hours = self.market.pools[0].slot_hours
            usd, on_demand_usd, gpus, stock = (np.array([number]) for number in quote)
            begin = time_of(record.micros)
            self._add(Pool(name, slot_hours, usd, on_demand_usd, gpus, begin, record.gpu, stock))
        elif not (self._again and self._pools[name].knows(record.micros)):
            try:
                self._pools[name].take(record.micros, quote)
            except InputError as error:
                raise FileError(f"pool {name!r:.80}: {error}", path=self._path, line=line) from None

    def _add(self, pool: Pool) -> None:
        growing = LivePool(pool, first_hours(pool, self.market.pools[0], 0))
        self._pools[pool.name] = growing
        self._tapes.append(OnTape(DEFAULT_FORECASTER, growing.tape, DEFAULT_HORIZON))


_shared: WeakValueDictionary[str, Feed] = WeakValueDictionary()
"""Jobs on one feed share it, as long as any of them runs."""


def shared_feed(written: str) -> Feed:
    """Return the feed that a submission names, as JSON of its options; raises FileError or InputError."""
    feed = _shared.get(written)
    if feed is None:
        feed = _shared[written] = Feed(**json.loads(written))
    return feed


def troubles() -> dict[str, str]:
    """Return the troubles of all feeds that jobs of this process run on, by what the feed was opened with."""
    return {written: feed.trouble for written, feed in _shared.items() if feed.trouble}


class FeedLine(NamedTuple):
    """A line with its line break, and its number in the file."""

    number: int
    data: bytes


class FeedFile:
    """Reads a file that grows by lines, each time from where it stopped; notices a rewrite."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._offset, self._line, self._tail = 0, 1, b""
        self._inside_long = False

    def changed(self) -> bool:
        """Whether there is something to read; raises OSError where the file cannot be looked at."""
        return self._look() != self._seen

    def passed(self, data: bytes) -> None:
        """Continue after these first bytes of the file, which the caller has read."""
        self._seen, self._inside_long = (), False
        self._offset, self._line, self._tail = len(data), data.count(b"\n") + 1, data[-TAIL_BYTES:]

    def begin_again(self) -> list[str]:
        """Go back to the first row and return the header's names; raises OSError or FileError."""
        with self._path.open("rb") as file:
            first = file.readline(LONGEST_LINE_BYTES)
        header, got = header_of(first), first.decode("utf-8", "replace")
        if not header or not first.endswith(b"\n"):
            raise FileError(
                f"a feed must keep its header {','.join(COLUMNS)}, got {got!r:.60}", path=self._path, line=1
            )
        self.passed(first)
        return header

    def give_up(self) -> None:
        """Do not look at the file again before it has changed."""
        self._seen = self._look()

    def more(self) -> list[FeedLine] | None:
        """Return the next complete lines; None if what was read before is no longer there.

        Raises OSError if the file cannot be read, and FileError, once, for a line that is too long, which
        is skipped.
        """
        seen = self._look()
        with self._path.open("rb") as file:
            file.seek(self._offset - len(self._tail))
            piece = file.read(len(self._tail) + PIECE_BYTES)
        if not piece.startswith(self._tail):
            return None
        piece = piece[len(self._tail) :]
        end = piece.rfind(b"\n") + 1
        if len(piece) < PIECE_BYTES:
            self._seen = seen  # all that was there
        if not end and len(piece) > LONGEST_LINE_BYTES:
            return self._skip(piece)
        return self._lines(piece[:end])

    def _lines(self, data: bytes) -> list[FeedLine]:
        first, lines = self._line, data.split(b"\n")[:-1]
        self._pass(data)
        numbered = [FeedLine(first + index, line + b"\n") for index, line in enumerate(lines)]
        if self._inside_long and numbered:
            self._inside_long = False
            return numbered[1:]  # the first is the end of a line that was skipped
        return numbered

    def _skip(self, piece: bytes) -> list[FeedLine]:
        reported, self._inside_long = self._inside_long, True
        self._pass(piece)
        if not reported:
            raise FileError(
                f"a row must have at most {LONGEST_LINE_BYTES} bytes, got more",
                path=self._path,
                line=self._line,
            )
        return []

    def _pass(self, data: bytes) -> None:
        self._offset += len(data)
        self._line += data.count(b"\n")
        self._tail = (self._tail + data)[-TAIL_BYTES:]

    def _look(self) -> tuple[int, ...]:
        status = os.stat(self._path)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a file any more")  # a pipe could be waited for forever
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def header_of(data: bytes) -> list[str]:
    """Return the names in the header of a CSV table; an empty list if it is something else."""
    names = first_line(data)
    return names if is_header(names) else []


def whole_lines(data: bytes) -> bytes:
    """Return a table without a last line that is still being written; other files as they are."""
    return data[: data.rfind(b"\n") + 1] if header_of(data) else data
