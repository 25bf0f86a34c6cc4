"""A recorded market as a job sees it in a run: played back, so that nothing is known of what comes."""

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
    """What a job really is from each start: always the same, or drawn."""

    def at(self, start: int) -> Truth: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """What a run is given apart from job, pool and policy; all policies of a comparison share it."""

    forecaster: Forecaster = DEFAULT_FORECASTER
    neighbours: tuple[Pool, ...] = ()
    """Other pools whose past may be known; a job over pools knows its own pools instead."""
    truth: TruthByStart = AS_SAID
    """What the job really is from each start; policies know only what it says and what was measured."""

    @classmethod
    def on(cls, market: Market, pool: Pool, truth: TruthByStart = AS_SAID) -> Setting:
        """Return what all policies share on a pool of a market, whose other pools' past is known."""
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
        """Let time pass up to a slot of the job, which is in one of the pools and holds this spot there.

        An earlier slot is played back from the start. Of what is to come, the moment knows only a warning.
        """
        if slot < self._slot:  # tapes only grow, so going back means to begin anew
            self._tapes = self._begin()
        self._slot = slot
        hours = slot * self._pools[0].slot_hours
        for pool, forecast in zip(self._pools, self._tapes, strict=True):
            play(pool, forecast.tape, forecast.tape.slots_begun(hours))
        return MarketView(self._tapes, hours, own, notice_hours=self.notice_hours(slot, own, spot_gpus))

    def notice_hours(self, slot: int, own: int, spot_gpus: int) -> float | None:
        """Return in which time a pool offers less than this spot, where it warns of that in a slot.

        It is the first border of slots at which that is so; None where it lies further ahead than is warned.
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
    """Append what a pool quotes up to this many slots, as far as it is recorded."""
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
    """A moment at which only prices of other pools are known, and what was seen of their spot by tries.

    How much a job knows of the other pools is one of two settings. *Feed*: what every pool offers is recorded
    and known. *Tried*: only prices and the stock of on-demand GPUs are. A job then learns about a pool's spot
    by holding some there, by losing it, or by a try (`pool_options.obtain`).
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
