"""What policies may know of pools: tapes of the quotes so far, and the market as a job sees it.

Tapes are appended to as time passes and hold nothing of the future. A policy sees a `Past`: read-only arrays
over a buffer that a tape owns and that holds only what was appended. A slice of the whole series would not
do, because the rest could be reached as the array's base.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from slacktide.core.arrays import Floats, Ints, LazySequence
from slacktide.core.quotes import UNLIMITED_GPUS, Quote, Sighting
from slacktide.market.base import Pool, new_key

SAME_TIME_SHARE = 1e-6
"""Two moments closer than this share of a slot are one moment."""
FEWEST_ROOM = 64
NOT_BEGUN = Quote(math.inf, math.inf, 0)  # what a pool offers before its first quote

Mark: TypeAlias = tuple[int, int, int]
"""Identifies what a past says: its series, the quotes that have come, and its slots, held ones included."""
Columns: TypeAlias = tuple[Floats, Floats, Ints, Ints]
"""Spot prices, on-demand prices, spot GPUs, on-demand GPUs."""


@dataclass(frozen=True, slots=True, eq=False)
class Past(LazySequence[Quote]):
    """What a pool has quoted up to a moment, the present slot last: as arrays, or as a sequence of quotes."""

    key: int
    """Names the series: caches are keyed by `mark`, hold no market, and survive new rows."""
    came: int
    """Slots whose quotes have come; any after them are held: they repeat the last one that has."""
    name: str
    slot_hours: float
    first_hours: float
    """When its first slot began, on the clock of the market; negative for what came before a run."""
    first_hour_of_day: float
    spot_usd_per_gpu_hour: Floats
    on_demand_usd_per_gpu_hour: Floats
    spot_gpus: Ints
    on_demand_gpus: Ints | None = None
    """On-demand GPUs that could be had; None: unlimited."""

    @classmethod
    def of(cls, pool: Pool, first_hours: float = 0.0) -> Past:
        """Return a whole pool as a past, for the simulator's side: what a policy sees comes from a tape."""
        columns = (pool.spot_usd_per_gpu_hour, pool.on_demand_usd_per_gpu_hour, pool.spot_gpus)
        hour, stock = pool.first_hour_of_day, pool.on_demand_gpus
        return cls(pool.key, len(pool), pool.name, pool.slot_hours, first_hours, hour, *columns, stock)

    def __len__(self) -> int:
        return len(self.spot_gpus)

    def item(self, index: int) -> Quote:
        return Quote(
            float(self.spot_usd_per_gpu_hour[index]),
            float(self.on_demand_usd_per_gpu_hour[index]),
            int(self.spot_gpus[index]),
            UNLIMITED_GPUS if self.on_demand_gpus is None else int(self.on_demand_gpus[index]),
        )

    def begin_hours(self, slot: int) -> float:
        """Return when a slot begins, on the clock of the market."""
        return self.first_hours + slot * self.slot_hours

    def slots_before(self, hours: float) -> int:
        """Return how many slots began before this moment."""
        begun = math.ceil((hours - self.first_hours) / self.slot_hours - SAME_TIME_SHARE)
        return min(max(begun, 0), len(self))

    def until(self, hours: float) -> Past:
        """Return the slots that began before this moment: what a refit then could learn from."""
        end = self.slots_before(hours)
        return replace(
            self,
            came=min(self.came, end),
            spot_usd_per_gpu_hour=self.spot_usd_per_gpu_hour[:end],
            on_demand_usd_per_gpu_hour=self.on_demand_usd_per_gpu_hour[:end],
            spot_gpus=self.spot_gpus[:end],
            on_demand_gpus=None if self.on_demand_gpus is None else self.on_demand_gpus[:end],
        )

    def mark(self, slots: int) -> Mark:
        """Return what identifies the content of the first `slots` slots."""
        return self.key, min(self.came, slots), slots


class Tape:
    """A pool's quotes so far. On average, appending one costs the same however many there are."""

    def __init__(
        self,
        name: str,
        slot_hours: float,
        *,
        first_hours: float = 0.0,
        first_hour_of_day: float = 0.0,
        key: int | None = None,
    ) -> None:
        self.name, self.slot_hours = name, slot_hours
        self.first_hours, self.first_hour_of_day = first_hours, first_hour_of_day
        self.key = new_key() if key is None else key
        self.came = 0
        """Rows that have come; any after them are held."""
        self._slots = 0
        self._columns = _room(FEWEST_ROOM)
        self._shown = _read_only(self._columns)

    @classmethod
    def of(cls, pool: Pool, first_hours: float = 0.0) -> Tape:
        """Return an empty tape for the quotes of a pool; tapes of one pool share its key."""
        hour = pool.first_hour_of_day
        return cls(pool.name, pool.slot_hours, first_hours=first_hours, first_hour_of_day=hour, key=pool.key)

    def __len__(self) -> int:
        return self._slots

    def append(self, quote: Quote) -> None:
        """Append the quote of the next slot, in place of any that were held."""
        self._drop_held()
        self._make_room(self.came + 1)
        for column, number in zip(self._columns, quote, strict=True):
            column[self.came] = number
        self.came = self._slots = self.came + 1

    def extend(self, spot_usd: Floats, on_demand_usd: Floats, gpus: Ints, stock: Ints | None = None) -> None:
        """Append many quotes at once; without a stock, on-demand GPUs are unlimited."""
        self._drop_held()
        end = self.came + len(gpus)
        self._make_room(end)
        known = (spot_usd, on_demand_usd, gpus, UNLIMITED_GPUS if stock is None else stock)
        for column, numbers in zip(self._columns, known, strict=True):
            column[self.came : end] = numbers
        self.came = self._slots = end

    def hold(self, slots: int) -> None:
        """Repeat the last quote that has come until there are this many slots."""
        if self.came == 0 or slots <= self._slots:
            return
        self._make_room(slots)
        for column in self._columns:
            column[self._slots : slots] = column[self.came - 1]
        self._slots = slots

    def revise(self, quote: Quote) -> None:
        """Replace the last quote that has come; what was learned from it is void, so the key changes."""
        self._drop_held()
        self.came = self._slots = self.came - 1
        self.append(quote)
        self.key = new_key()

    def quote(self, slot: int) -> Quote:
        """Return what was quoted for a slot that has begun."""
        spot, on_demand, gpus, stock = self._columns
        return Quote(float(spot[slot]), float(on_demand[slot]), int(gpus[slot]), int(stock[slot]))

    def quote_at(self, hours: float) -> Quote:
        """Return what the pool offers at a moment; after its series only on demand, at the last price."""
        begun = self.slots_begun(hours)
        if min(begun, len(self)) == 0:
            return NOT_BEGUN
        if begun > len(self):
            return self.quote(len(self) - 1)._replace(spot_gpus=0, on_demand_gpus=UNLIMITED_GPUS)
        return self.quote(begun - 1)

    def begin_hours(self, slot: int) -> float:
        """Return when a slot begins, on the clock of the market."""
        return self.first_hours + slot * self.slot_hours

    def slots_begun(self, hours: float) -> int:
        """Return how many slots have begun at this moment, whether their quotes have come or not."""
        return max(0, math.floor((hours - self.first_hours) / self.slot_hours + SAME_TIME_SHARE) + 1)

    def past(self, slots: int | None = None) -> Past:
        """Return all that was quoted, or the first `slots` of it, without copying."""
        end = self._slots if slots is None else min(slots, self._slots)
        spot, on_demand, gpus, stock = self._shown
        return Past(
            self.key, min(self.came, end), self.name, self.slot_hours, self.first_hours,
            self.first_hour_of_day, spot[:end], on_demand[:end], gpus[:end], stock[:end],
        )  # fmt: skip

    def _drop_held(self) -> None:
        """Forget what was held, leaving zeros behind."""
        if self._slots > self.came:
            for column in self._columns:
                column[self.came : self._slots] = 0
            self._slots = self.came

    def _make_room(self, slots: int) -> None:
        """Move to a larger buffer if needed; its unused part is zero, never a quote."""
        if slots <= len(self._columns[0]):
            return
        larger = _room(2 * slots)
        for column, old in zip(larger, self._columns, strict=True):
            column[: self._slots] = old[: self._slots]
        self._columns = larger
        self._shown = _read_only(larger)


def first_hours(pool: Pool, own: Pool, start: int) -> float:
    """Return when a pool's first slot begins, counted from slot `start` of a job's own pool."""
    return (pool.start - own.start).total_seconds() / 3600.0 - start * own.slot_hours


def _read_only(columns: Columns) -> Columns:
    spot, on_demand, gpus, stock = columns
    shown = spot.view(), on_demand.view(), gpus.view(), stock.view()
    for array in shown:
        array.flags.writeable = False
    return shown


def _room(slots: int) -> Columns:
    return np.zeros(slots), np.zeros(slots), np.zeros(slots, dtype=np.int64), np.zeros(slots, dtype=np.int64)


class ForecastTape(Protocol):
    """The tape of a pool, which its owner moves on, and the forecasts of the run's forecaster."""

    tape: Tape

    def at(self, slots: int) -> Sequence[Quote]:
        """Return what was forecast when this many slots had begun, the next slot first."""
        ...


class PoolView(NamedTuple):
    """One pool at a moment."""

    name: str
    quote: Quote  # what is offered to the job, without what other jobs hold
    notice_hours: float | None = None
    """How soon the job will lose spot that it holds here, as it was warned; None: it was not warned. Only the
    pool that the job is in can warn it."""


def offer(quote: Quote, held_by_others: int, on_demand_by_others: int = 0) -> Quote:
    """Return a pool's quote without what other jobs hold: of spot, and of on demand if that is limited."""
    if on_demand_by_others > 0 and quote.on_demand_gpus < UNLIMITED_GPUS:
        quote = quote._replace(on_demand_gpus=max(0, quote.on_demand_gpus - on_demand_by_others))
    if held_by_others <= 0:
        return quote
    return quote._replace(spot_gpus=max(0, quote.spot_gpus - held_by_others))


@dataclass(slots=True, eq=False)
class MarketView(LazySequence[PoolView]):
    """All pools of a market at one moment, as a job in one of them sees them; each is made when read."""

    _tapes: Sequence[ForecastTape]
    hours: float
    own: int  # the pool that the job is in
    by_others: Mapping[str, int] = field(default_factory=dict)  # spot that other jobs hold, by pool
    since_hours: float = 0.0
    """`hours`, and the times of pasts, are counted from this moment of the tapes' clock."""
    on_demand_by_others: Mapping[str, int] = field(default_factory=dict)
    notice_hours: float | None = None  # the warning that the job got
    _seen: dict[int, PoolView] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._tapes)

    def item(self, index: int) -> PoolView:
        """Return what a pool offers to the job."""
        if index not in self._seen:
            tape = self._tapes[index].tape
            notice = self.notice_hours if index == self.own else None
            others = self.by_others.get(tape.name, 0), self.on_demand_by_others.get(tape.name, 0)
            whole = tape.quote_at(self.hours + self.since_hours)
            self._seen[index] = PoolView(tape.name, offer(whole, *others), notice)
        return self._seen[index]

    def sharing(self, by_others: Mapping[str, int], on_demand_by_others: Mapping[str, int]) -> MarketView:
        """Return the same moment for a job among others, which hold this spot and on demand, by pool."""
        return replace(self, by_others=by_others, on_demand_by_others=on_demand_by_others)

    def warned(self, notice_hours: float | None) -> MarketView:
        """Return the same moment for a job that was warned that it will lose spot in this time."""

        return self if notice_hours == self.notice_hours else replace(self, notice_hours=notice_hours)

    def _slots_begun(self, pool: int) -> int:
        return self._tapes[pool].tape.slots_begun(self.hours + self.since_hours)

    def past(self, pool: int) -> Past:
        """Return what a pool has quoted up to this moment."""
        past = self._tapes[pool].tape.past(self._slots_begun(pool))
        if self.since_hours == 0.0:
            return past
        return replace(past, first_hours=past.first_hours - self.since_hours)

    def forecast(self, pool: int) -> Sequence[Quote]:
        """Return what is forecast at this moment."""
        return self._tapes[pool].at(self._slots_begun(pool))

    def sightings(self, pool: int) -> Sequence[Sighting]:
        """Return nothing: quotes already say how much spot there was."""
        return ()
