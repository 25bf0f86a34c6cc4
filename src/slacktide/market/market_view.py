"""All pools of a market at one moment, as they are offered to one job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from slacktide.core.arrays import LazySequence
from slacktide.core.quotes import UNLIMITED_GPUS, Quote, Sighting
from slacktide.market.tape import Past, Tape


class Foresight(Protocol):
    """The forecasts of one pool."""

    def at(self, slots: int) -> Sequence[Quote]:
        """Return what was forecast when this many slots had begun, the next slot first."""
        ...


NOT_BEGUN = Quote(math.inf, math.inf, 0)  # what a pool offers before its first quote


class Tapes:
    """The tapes of a market's pools, and the run's forecasts of each; their owner moves the time."""

    def __init__(self, tapes: Sequence[Tape], foresights: Sequence[Foresight]) -> None:
        self.tapes = list(tapes)
        self._foresights = list(foresights)

    def __len__(self) -> int:
        return len(self.tapes)

    def add(self, tape: Tape, foresight: Foresight) -> None:
        """Take in a pool that has come into being."""
        self.tapes.append(tape)
        self._foresights.append(foresight)

    def some(self, pools: Sequence[int]) -> Tapes:
        """Return the same tapes of some of the pools, in this order."""
        return Tapes([self.tapes[pool] for pool in pools], [self._foresights[pool] for pool in pools])

    def quote(self, pool: int, hours: float) -> Quote:
        """Return what a pool offers at a moment; after its series only on demand, at the last price."""
        tape = self.tapes[pool]
        begun = tape.slots_begun(hours)
        if min(begun, len(tape)) == 0:
            return NOT_BEGUN
        if begun > len(tape):
            return tape.quote(len(tape) - 1)._replace(spot_gpus=0, on_demand_gpus=UNLIMITED_GPUS)
        return tape.quote(begun - 1)

    def past(self, pool: int, hours: float) -> Past:
        """Return what a pool has quoted up to a moment, the slot of that moment last."""
        tape = self.tapes[pool]
        return tape.past(tape.slots_begun(hours))

    def forecast(self, pool: int, hours: float) -> Sequence[Quote]:
        """Return what the run's forecaster says at a moment of the slots after it."""
        return self._foresights[pool].at(self.tapes[pool].slots_begun(hours))


class PoolView(NamedTuple):
    """One pool at a moment."""

    name: str
    quote: Quote  # what is offered to the job: what other jobs hold is gone from it
    notice_hours: float | None = None
    """In this time spot goes that the job holds here, as it was warned; None: it was not warned. Only the
    pool that the job is in can warn it."""


ALONE: Mapping[str, int] = {}  # what other jobs hold where there are none


def offer(quote: Quote, held_by_others: int, on_demand_by_others: int = 0) -> Quote:
    """Return what is left for a job of what a pool offers to all: spot, and on demand where it is limited."""
    if on_demand_by_others > 0 and quote.on_demand_gpus < UNLIMITED_GPUS:
        quote = quote._replace(on_demand_gpus=max(0, quote.on_demand_gpus - on_demand_by_others))
    if held_by_others <= 0:
        return quote
    return quote._replace(spot_gpus=max(0, quote.spot_gpus - held_by_others))


class MarketView(LazySequence[PoolView]):
    """All pools of a market at one moment; nothing is made before it is read."""

    __slots__ = (
        "_at_hours", "_by_others", "_notice_hours", "_on_demand_by_others", "_seen", "_since_hours", "_tapes",
        "hours", "own",
    )  # fmt: skip

    def __init__(
        self,
        tapes: Tapes,
        hours: float,
        own: int,
        by_others: Mapping[str, int] = ALONE,
        since_hours: float = 0.0,
        on_demand_by_others: Mapping[str, int] = ALONE,
        notice_hours: float | None = None,
    ) -> None:
        """Stand at a moment, in one of the pools; `by_others` says what spot other jobs hold, by pool.

        Hours are counted from `since_hours` of the tapes' clock on, also in what is shown of the past.
        `notice_hours` is the warning that the job got.
        """
        self.hours, self.own = hours, own
        self._tapes, self._by_others, self._on_demand_by_others = tapes, by_others, on_demand_by_others
        self._since_hours, self._at_hours = since_hours, hours + since_hours
        self._notice_hours = notice_hours
        self._seen: dict[int, PoolView] = {}

    def __len__(self) -> int:
        return len(self._tapes)

    def item(self, index: int) -> PoolView:
        """Return what a pool offers to the job."""
        if index not in self._seen:
            name = self._tapes.tapes[index].name
            whole = self._tapes.quote(index, self._at_hours)
            notice = self._notice_hours if index == self.own else None
            others = self._by_others.get(name, 0), self._on_demand_by_others.get(name, 0)
            self._seen[index] = PoolView(name, offer(whole, *others), notice)
        return self._seen[index]

    def sharing(
        self, by_others: Mapping[str, int], on_demand_by_others: Mapping[str, int] = ALONE
    ) -> MarketView:
        """Return the same moment for a job among others, which hold this spot and on demand, by pool."""
        return self._like(by_others, on_demand_by_others, self._notice_hours)

    def warned(self, notice_hours: float | None) -> MarketView:
        """Return the same moment for a job that was warned that its spot goes in this time."""
        if notice_hours == self._notice_hours:
            return self
        return self._like(self._by_others, self._on_demand_by_others, notice_hours)

    def _like(
        self, by_others: Mapping[str, int], on_demand: Mapping[str, int], notice_hours: float | None
    ) -> MarketView:
        return MarketView(
            self._tapes, self.hours, self.own, by_others, self._since_hours, on_demand, notice_hours
        )

    def past(self, pool: int) -> Past:
        """Return what a pool has quoted up to this moment."""
        past = self._tapes.past(pool, self._at_hours)
        if self._since_hours == 0.0:
            return past
        return replace(past, first_hours=past.first_hours - self._since_hours)

    def forecast(self, pool: int) -> Sequence[Quote]:
        """Return what is forecast at this moment."""
        return self._tapes.forecast(pool, self._at_hours)

    def sightings(self, pool: int) -> Sequence[Sighting]:
        """Return nothing: all that pools quote is recorded."""
        return ()
