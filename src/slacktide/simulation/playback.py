"""Playback of a recorded market, slot by slot, so that a job in a back-test cannot see the future."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from slacktide.core.arrays import LazySequence
from slacktide.core.quotes import Quote, Sighting
from slacktide.market.base import Market, Pool
from slacktide.market.forecast.base import Forecaster, OnTape, TrueForecasts, knows_the_future
from slacktide.market.forecast.persistence import DEFAULT_FORECASTER, DEFAULT_HORIZON
from slacktide.market.tape import ForecastTape, MarketView, Past, PoolView, Tape, first_hours
from slacktide.physics.truth import AS_SAID, Truth


class TruthByStart(Protocol):
    """How a job differs from its file, for each start: always in the same way, or drawn."""

    def at(self, start: int) -> Truth: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run is given apart from job, pool and policy; all policies of a comparison share it."""

    forecaster: Forecaster = DEFAULT_FORECASTER
    neighbours: tuple[Pool, ...] = ()
    """Other pools whose past a policy may know; a job that may move knows its own pools instead."""
    truth: TruthByStart = AS_SAID
    """How the job differs from its file; policies know only the file and what was measured."""

    @classmethod
    def on(cls, market: Market, pool: Pool, truth: TruthByStart = AS_SAID) -> Setting:
        """Return the setting on a pool of a market, where policies may know the other pools' past."""
        others = tuple(other for other in market.pools if other is not pool)
        return cls(neighbours=others, truth=truth)


USUAL = Setting()


class Playback:
    """The market that a job sees from a start on; it alone holds the recorded series."""

    def __init__(self, own: Pool, start: int, setting: Setting = USUAL) -> None:
        self._pools = (own, *setting.neighbours)
        self._start, self._forecaster = start, setting.forecaster
        self._tapes = self._begin()
        self._slot = -1

    def at(self, slot: int, own: int = 0, spot_gpus: int = 0) -> MarketView:
        """Return the market in a slot of the job, which is in pool number `own` and holds `spot_gpus` there.

        Going back to an earlier slot is allowed. All that the moment tells of the future is a warning.
        """
        if slot < self._slot:  # tapes only grow, so going back means starting again
            self._tapes = self._begin()
        self._slot = slot
        hours = slot * self._pools[0].slot_hours
        for pool, forecast in zip(self._pools, self._tapes, strict=True):
            play(pool, forecast.tape, forecast.tape.slots_begun(hours))
        return MarketView(self._tapes, hours, own, notice_hours=self.notice_hours(slot, own, spot_gpus))

    def notice_hours(self, slot: int, own: int, spot_gpus: int) -> float | None:
        """Return in how many hours a pool offers less than `spot_gpus`, if it warns of that by this slot.

        None where the pool gives no warnings, or does not warn that far ahead.
        """
        pool, slot_hours = self._pools[own], self._pools[0].slot_hours
        if not (spot_gpus and pool.notice_hours):
            return None
        tape = self._tapes[own].tape
        for ahead in range(1, math.floor(pool.notice_hours / slot_hours + 1e-6) + 1):
            begun = tape.slots_begun((slot + ahead) * slot_hours)
            if begun < 1 or pool.quote(begun - 1).spot_gpus < spot_gpus:
                return ahead * slot_hours
        return None

    def _begin(self) -> list[ForecastTape]:
        return [self._tape(pool) for pool in self._pools]

    def _tape(self, pool: Pool) -> ForecastTape:
        tape = Tape.of(pool, first_hours(pool, self._pools[0], self._start))
        if knows_the_future(self._forecaster):
            return TrueForecasts(self._forecaster, pool, tape, DEFAULT_HORIZON)
        return OnTape(self._forecaster, tape, DEFAULT_HORIZON)


def play(pool: Pool, tape: Tape, slots: int) -> None:
    """Append a pool's quotes until the tape has this many slots, as far as they are recorded."""
    if slots == tape.came + 1 and slots <= len(pool):
        tape.append(pool.quote(tape.came))
    elif slots > tape.came:
        rows = slice(tape.came, slots)
        tape.extend(
            pool.spot_usd_per_gpu_hour[rows],
            pool.on_demand_usd_per_gpu_hour[rows],
            pool.spot_gpus[rows],
            pool.stock(tape.came, slots),
        )


class TriedMoment(LazySequence[PoolView]):
    """A moment of the market for a job that knows prices, but must find out which spot there is by trying.

    How much a job knows of pools is one of two settings. *Feed*: everything that pools offer. *Tried*: only
    prices and the stock of on-demand GPUs; the job then learns about a pool's spot by holding some there, by
    losing it, or by a try (`pool_options.obtain`).
    """

    def __init__(self, whole: MarketView, sightings: Sequence[Sequence[Sighting]]) -> None:
        self.hours, self.own = whole.hours, whole.own
        self._whole, self._sightings = whole, sightings

    def __len__(self) -> int:
        return len(self._whole)

    def item(self, index: int) -> PoolView:
        """Return a pool as far as it is known."""
        view, seen = self._whole[index], self._sightings[index]
        # Spot changes from moment to moment, so a sighting counts only at the moment it was made.
        gpus = seen[-1].at_least_gpus if seen and seen[-1].at_hours == self.hours else 0
        return view._replace(quote=view.quote._replace(spot_gpus=gpus))

    def past(self, pool: int) -> Past:
        return self._whole.past(pool).until(0.0)

    def forecast(self, pool: int) -> Sequence[Quote]:
        """Return nothing: there is no forecast of a pool that is not observed."""
        return ()

    def sightings(self, pool: int) -> Sequence[Sighting]:
        return self._sightings[pool]
