"""A pool that is still being written: its tape, and the quotes already read whose slots have not begun."""

from __future__ import annotations

from collections import deque

import numpy as np

from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.market.availability import PoolRecord, learned_pool
from slacktide.market.base import Pool
from slacktide.market.formats.samples import MICROS_PER_HOUR, micros_of, stamp, time_of
from slacktide.market.tape import Tape

MOST_AHEAD_SLOTS = 100_000  # rows further ahead are mistakes: this is two years of slots of ten minutes


class LivePool:
    """One pool of a feed. Rows may come late or early: only the clock moves the tape on."""

    def __init__(self, pool: Pool, first_hours: float) -> None:
        self.tape = Tape.of(pool, first_hours)
        self._opened: Pool | None = pool
        """The pool as it was opened, until `advance` first says how much of it is past."""
        self._gpu = pool.gpu
        self._ahead: deque[Quote] = deque()
        self._slots = len(pool)
        """Slots whose quotes have been read."""
        self._step = round(pool.slot_hours * MICROS_PER_HOUR)
        self._first = micros_of(pool.start)
        self._last = self._first + (len(pool) - 1) * self._step
        self._rows_in_slot = 1

    def learn(self, record: PoolRecord) -> None:
        """Replace assumed spot by what was seen of it, as long as no slot of the pool is on the tape."""
        if self._opened is not None:
            self._opened = learned_pool(self._opened, record)

    def take(self, micros: int, quote: Quote) -> None:
        """Add a row; slots between the row before and this one repeat the row before.

        Raises InputError for a row that is not later than the one before, or too far ahead.
        """
        if micros <= self._last:
            raise InputError(
                f"rows must come in order of time and each time once, "
                f"got {stamp(micros)} after {stamp(self._last)}"
            )
        slot = self._slot(micros)
        if slot - max(self._slots, len(self.tape)) > MOST_AHEAD_SLOTS:
            raise InputError(
                f"a row must be at most {MOST_AHEAD_SLOTS} slots ahead, got {stamp(micros)} after "
                f"{stamp(self._last)}"
            )
        if slot < self._slots:
            self._share_slot(quote)
        else:
            before = self._newest()
            self._ahead.extend([before] * (slot - self._slots))
            self._ahead.append(quote)
            self._slots, self._rows_in_slot = slot + 1, 1
        self._last = micros

    def knows(self, micros: int) -> bool:
        """Whether the quote of the slot in which a time lies has been read."""
        return self._slot(micros) < self._slots

    def forget_ahead(self) -> None:
        """Forget the quotes of slots that have not begun, because the file was rewritten."""
        if self._ahead:
            self._slots -= len(self._ahead)
            self._ahead.clear()
            self._last, self._rows_in_slot = self._first + (self._slots - 1) * self._step, 1

    def take_new(self, pool: Pool) -> None:
        """Add the slots of a pool that was read again that are not known yet; the past stays as it was."""
        begin = micros_of(pool.start)
        known = self._slots - (begin - self._first + self._step // 2) // self._step
        for slot in range(max(0, known), len(pool)):
            self.take(begin + slot * self._step, pool.quote(slot))

    def advance(self, hours: float) -> None:
        """Let time pass: quotes of slots that have begun go onto the tape, or the last one is held."""
        begun = self.tape.slots_begun(hours)
        if self._opened is not None:
            self._unroll(self._opened, min(begun, len(self._opened)))
        while self._ahead and self.tape.came < begun:
            self.tape.append(self._ahead.popleft())
        self.tape.hold(begun)

    def pool(self) -> Pool:
        """Return all that is known as a pool, slots that are held included: for reports, not for policies."""
        if self._opened is not None:
            self._unroll(self._opened, len(self._opened))
        past = self.tape.past()
        ahead = np.array(self._ahead if len(past) == past.came else ()).reshape(-1, len(Quote._fields))
        assert past.on_demand_gpus is not None
        return Pool(
            past.name,
            past.slot_hours,
            np.append(past.spot_usd_per_gpu_hour, ahead[:, 0]),
            np.append(past.on_demand_usd_per_gpu_hour, ahead[:, 1]),
            np.append(past.spot_gpus, ahead[:, 2]),
            time_of(self._first),
            self._gpu,
            np.append(past.on_demand_gpus, ahead[:, 3]),
        )

    def _unroll(self, pool: Pool, slots: int) -> None:
        """Put the first slots of the opened pool onto the tape, and the quotes after them aside."""
        self.tape.extend(
            pool.spot_usd_per_gpu_hour[:slots],
            pool.on_demand_usd_per_gpu_hour[:slots],
            pool.spot_gpus[:slots],
            pool.stock(0, slots),
        )
        self._ahead.extendleft(pool.quote(slot) for slot in reversed(range(slots, len(pool))))
        self._opened = None

    def _slot(self, micros: int) -> int:
        """Return the slot in which a row lies: the nearest one."""
        return (micros - self._first + self._step // 2) // self._step

    def _newest(self) -> Quote:
        if self._ahead:
            return self._ahead[-1]
        if self._opened is not None:
            return self._opened.quote(len(self._opened) - 1)
        return self.tape.quote(self.tape.came - 1)

    def _share_slot(self, quote: Quote) -> None:
        """Add another row of the last slot, which gets the lower counts and the mean prices."""
        last, rows = self._newest(), self._rows_in_slot
        both = Quote(
            (rows * last.spot_usd_per_gpu_hour + quote.spot_usd_per_gpu_hour) / (rows + 1),
            (rows * last.on_demand_usd_per_gpu_hour + quote.on_demand_usd_per_gpu_hour) / (rows + 1),
            min(last.spot_gpus, quote.spot_gpus),
            min(last.on_demand_gpus, quote.on_demand_gpus),
        )
        self._rows_in_slot += 1
        if self._opened is not None:
            self._unroll(self._opened, len(self._opened) - 1)
        if self._ahead:
            self._ahead[-1] = both
        else:
            self.tape.revise(both)
