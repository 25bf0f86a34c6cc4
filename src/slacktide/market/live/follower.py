"""Write a feed's prices to a table: query the feed each slot, fill gaps, wait longer after failures.

After its first answer, no failure of a source ends this. While there is no answer, the table stays as it is
and its notes say why; the next answer fills the gap as far back as the source reports.

Rows are never changed once they are appended, and the table can be read at any moment. A writer that is
killed in the middle of a row leaves a part of it behind: readers skip it, and the next writer cuts it off.
Only one process at a time writes to a table.
"""

from __future__ import annotations

import csv
import fcntl
import io
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from slacktide.core.errors import FileError, InputError, SlacktideError, shown
from slacktide.core.files import make_durable, write_whole
from slacktide.core.waits import GrowingWait
from slacktide.market.formats.market_bytes import TableNotes, notes_path, read_bytes, read_notes, write_notes
from slacktide.market.formats.samples import MAX_USD_PER_GPU_HOUR, MICROS_PER_HOUR, micros_of, stamp, time_of
from slacktide.market.formats.table import csv_samples
from slacktide.market.live.base import USD, FeedRefused, FeedUnreachable, Price, PriceFeed, Prices

LATE_S = 1.0  # a slot's price is requested this long after the slot began
CLOCKS_APART = timedelta(minutes=5)
"""A price that begins no further in the future than this holds now: clocks differ."""
LONGEST_NAME = 200  # characters in the name of a pool
ENDING = ".csv"
TableRow: TypeAlias = tuple[int, Price]  # when a slot begins, in microseconds, and the price that holds in it
HEADER = ("time_utc", "pool", "gpu", "spot_usd_per_gpu_hour", "on_demand_usd_per_gpu_hour")
FIRST_WAIT_S, LONGEST_WAIT_S = 2.0, 900.0  # before a source that failed is tried again


def is_sound(price: Price) -> bool:
    """Whether a price can be written to a table: a source, or a user's own feed, may report anything."""
    names = (price.pool, price.gpu)
    plain = all(
        text.isprintable() and not set(text) & set(',"') and len(text) <= LONGEST_NAME for text in names
    )
    prices = [price.spot_per_gpu_hour, price.on_demand_per_gpu_hour or 0.0]
    possible = all(0.0 <= usd <= MAX_USD_PER_GPU_HOUR for usd in prices)
    return plain and bool(price.pool.strip()) and possible and price.since_utc.tzinfo is not None


def rows_due(
    prices: Iterable[Price], last_micros: Mapping[str, int], begin: datetime, now: datetime, step_micros: int
) -> list[TableRow]:
    """Return the rows that are missing until now, in order of time.

    `last_micros` is the last row of each pool that has one, `begin` where others begin.
    """
    changes: dict[str, list[Price]] = {}
    for price in prices:
        if price.since_utc <= now + CLOCKS_APART:
            changes.setdefault(price.pool, []).append(price)
    found = [
        row
        for pool, each in changes.items()
        for row in _of_pool(each, last_micros.get(pool, micros_of(begin) - 1), micros_of(now), step_micros)
    ]
    return sorted(found, key=lambda row: row[0])


def _of_pool(changes: list[Price], last_micros: int, now_micros: int, step_micros: int) -> Iterator[TableRow]:
    """Yield a row for each slot after the last one in which a price is known."""
    changes.sort(key=lambda price: price.since_utc)
    times = [micros_of(price.since_utc) for price in changes]
    present = now_micros // step_micros
    first = max(last_micros // step_micros + 1, -(-times[0] // step_micros))
    for slot in range(min(first, present), present + 1):
        if slot * step_micros <= last_micros:
            continue  # it has a row already
        at = bisect_right(times, slot * step_micros) - 1 if slot < present else len(times) - 1
        if at >= 0:
            yield slot * step_micros, changes[at]


class FollowedTable:
    """A table of live prices that one process appends to."""

    def __init__(self, path: str | Path, notes: TableNotes) -> None:
        """Create a table, or continue one that has the same slots and assumed spot GPUs.

        Raises InputError if it has others, if it is no such table, or if another process writes to it.
        """
        self.path = Path(path)
        if self.path.suffix != ENDING:
            raise InputError(f"{path}: a table of live prices must end in {ENDING}; name it so")
        self.is_new = not self.path.exists()
        self.notes = notes if self.is_new else self._going_on(notes)
        if self.is_new:
            write_notes(path, notes)  # first, so that a table with a header always has notes
            write_whole(path, (",".join(HEADER) + "\n").encode())
            make_durable(self.path.resolve().parent)
        self._file = self._locked()
        self.last_micros: dict[str, int] = {}
        """The time of each pool's last row, in microseconds since 1970."""
        try:
            self.last_micros = self._read()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_new and not self.last_micros:  # no row was written
            self.path.unlink(missing_ok=True)
            notes_path(self.path).unlink(missing_ok=True)
        os.close(self._file)

    def append(self, rows: Sequence[TableRow]) -> None:
        """Add rows; when this returns they are on disk. Raises FileError if they cannot be written."""
        if not rows:
            return
        text = io.StringIO(newline="")
        table = csv.writer(text, lineterminator="\n")
        for micros, price in rows:
            usd, on_demand_usd = price.spot_per_gpu_hour, price.on_demand_per_gpu_hour
            assert on_demand_usd is not None
            table.writerow((stamp(micros), price.pool, price.gpu, round(usd, 6), round(on_demand_usd, 6)))
        size = os.fstat(self._file).st_size
        try:
            _write_all(self._file, text.getvalue().encode())
            os.fsync(self._file)
        except OSError as error:
            with suppress(OSError):  # then part of a row is left, which readers skip
                os.ftruncate(self._file, size)
            reason = error.strerror or str(error)
            raise FileError(f"must be writable, got: {reason}; make room for it", path=self.path) from error
        self.last_micros.update({price.pool: micros for micros, price in rows})

    def note(self, notes: TableNotes) -> None:
        """Replace the notes of the table; raises FileError."""
        if notes != self.notes:
            write_notes(self.path, notes)
            self.notes = notes

    def _going_on(self, notes: TableNotes) -> TableNotes:
        before = read_notes(self.path)
        if before is None:
            raise InputError(
                f"{self.path}: a table of live prices must be new, or one that `market follow` began, got "
                "another file; name one that does not exist"
            )
        if before.slot_hours != notes.slot_hours or before.spot_gpus != notes.spot_gpus:
            assert before.slot_hours is not None
            assert notes.slot_hours is not None
            raise InputError(
                f"{self.path}: a table must keep its slots of {60 * before.slot_hours:g} min and "
                f"{before.spot_gpus} assumed spot GPUs, got {60 * notes.slot_hours:g} min and "
                f"{notes.spot_gpus}; name another file"
            )
        return before

    def _locked(self) -> int:
        try:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise FileError(f"must be writable, got: {error.strerror or error}", path=self.path) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise InputError(
                f"{self.path}: only one process may write to a table, got another that does; name another "
                "file"
            ) from None
        return file

    def _read(self) -> dict[str, int]:
        """Cut off an incomplete last row, and return the time of each pool's last row."""
        data = read_bytes(self.path)
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._file, whole)
        if data.count(b"\n") < 2:
            return {}
        samples = csv_samples(data[:whole], str(self.path))
        last: dict[str, int] = {}
        for code, micros in zip(samples.pool.tolist(), samples.micros.tolist(), strict=True):
            last[samples.pools[code]] = max(micros, last.get(samples.pools[code], micros))
        return last


def _write_all(file: int, data: bytes) -> None:
    """Write all bytes, even if the system takes only some of them at a time."""
    while data:
        data = data[os.write(file, data) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowStep:
    """The result of one request."""

    at_utc: datetime
    rows: int = 0  # rows that were written
    latest: tuple[Price, ...] = ()  # the price of each pool that holds now; empty if there was no answer
    error: SlacktideError | None = None  # why there was no answer
    wait_s: float = 0.0  # how long to wait before the next request


class Follower:
    """Keeps a table up to date with a feed's prices in some zones."""

    def __init__(
        self,
        feed: PriceFeed,
        table: FollowedTable,
        *,
        zones: Sequence[str] = (),
        slot_hours: float,
        since_hours: float,
        on_demand_usd: float | None = None,
        wait: GrowingWait | None = None,
    ) -> None:
        """`since_hours` is how far back a new table begins, `on_demand_usd` a price for pools without one."""
        self._feed, self._table, self._zones = feed, table, tuple(zones)
        self._step_micros = round(slot_hours * MICROS_PER_HOUR)
        self._since_hours, self._on_demand_usd = since_hours, on_demand_usd
        self._wait = wait or GrowingWait(FIRST_WAIT_S, LONGEST_WAIT_S)
        self._answered = False
        self._reported: set[str] = set()

    @property
    def failures(self) -> int:
        """How often in a row there was no answer."""
        return self._wait.failures

    def step(self, now_utc: datetime) -> FollowStep:
        """Query once, and write what is new. Raises FeedRefused if it is refused before any answer came."""
        try:
            return self._take(self._queried(now_utc), now_utc)
        except FeedRefused as error:
            if not self._answered:
                raise
            return self._failed(error, now_utc)
        except (FeedUnreachable, FileError) as error:
            return self._failed(error, now_utc)

    def _queried(self, now_utc: datetime) -> Prices:
        """Request all prices since the last rows; a user's own feed may fail in any way."""
        try:
            answer = self._feed.prices(self._zones, self._since(now_utc))
            bad = next((price for price in answer.prices if not is_sound(price)), None)
        except SlacktideError:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise FeedUnreachable(f"a feed must answer, got {kind}: {shown(str(error))}") from error
        if bad is not None:
            raise FeedUnreachable(f"a feed must report possible prices, got {shown(tuple(bad))}")
        if answer.currency != USD:
            raise FeedRefused(f"prices must be in USD, got {shown(answer.currency)}; use another feed")
        return answer

    def _since(self, now_utc: datetime) -> datetime:
        last = self._table.last_micros
        ours = [last[pool] for pool in self._reported if pool in last] or list(last.values())
        return time_of(min(ours)) if ours else self._begin(now_utc)

    def _begin(self, now_utc: datetime) -> datetime:
        return now_utc - timedelta(hours=self._since_hours)

    def _take(self, answer: Prices, now_utc: datetime) -> FollowStep:
        prices, notes = self._priced(answer)
        holding = {price.pool: price for price in prices if price.since_utc <= now_utc + CLOCKS_APART}
        latest = tuple(holding.values())
        if not latest and not self._answered:
            raise FeedRefused(
                f"a feed must have a price to follow, got none; {' '.join(notes) or 'check it'}"
            )
        last = self._table.last_micros
        rows = rows_due(prices, last, self._begin(now_utc), now_utc, self._step_micros)
        self._table.append(rows)
        answered = f"{now_utc:%Y-%m-%dT%H:%M:%SZ}"
        self._table.note(replace(self._table.notes, notes=notes, trouble="", answered_utc=answered))
        self._answered, self._reported = True, {price.pool for price in latest}
        self._wait.reset()
        next_slot_s = (self._step_micros - micros_of(now_utc) % self._step_micros) / 1e6
        return FollowStep(at_utc=now_utc, rows=len(rows), latest=latest, wait_s=next_slot_s + LATE_S)

    def _priced(self, answer: Prices) -> tuple[tuple[Price, ...], tuple[str, ...]]:
        """Return the prices with an on-demand price, their own or the given one, and the table's notes."""
        usd = self._on_demand_usd
        given = [
            price if price.on_demand_per_gpu_hour is not None else price._replace(on_demand_per_gpu_hour=usd)
            for price in answer.prices
        ]
        without = sorted({price.pool for price in given if price.on_demand_per_gpu_hour is None})
        notes = answer.notes
        if without:
            names = ", ".join(without[:5])
            notes += (f"Left out, for want of an on-demand price (--on-demand-usd): {names}.",)
        return tuple(price for price in given if price.on_demand_per_gpu_hour is not None), notes

    def _failed(self, error: SlacktideError, now_utc: datetime) -> FollowStep:
        wait_s = self._wait.after_failure(getattr(error, "retry_after_s", 0.0))
        try:
            self._table.note(replace(self._table.notes, trouble=str(error)))
        except FileError as unwritable:  # a full disk: it is reported on the screen, and rows come later
            error = unwritable
        return FollowStep(at_utc=now_utc, error=error, wait_s=wait_s)
