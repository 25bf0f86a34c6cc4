"""A recorded market played back: its tapes hold what had been quoted by then, and nothing of what comes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slacktide.market.base import Pool
from slacktide.market.forecast.base import Forecaster, OnTape, TrueForecasts, knows_the_future
from slacktide.market.tape import Foresight, MarketView, Tape, Tapes, first_hours


class Playback:
    """The market that a job sees from a start on; it alone holds the recorded series."""

    def __init__(
        self, own: Pool, start: int, neighbours: Sequence[Pool], forecaster: Forecaster, horizon: int
    ) -> None:
        self._pools = (own, *neighbours)
        self._start, self._forecaster, self._horizon = start, forecaster, horizon
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
        for pool, tape in zip(self._pools, self._tapes.tapes, strict=True):
            _play(pool, tape, tape.slots_begun(hours))
        return MarketView(self._tapes, hours, own, notice_hours=self.notice_hours(slot, own, spot_gpus))

    def notice_hours(self, slot: int, own: int, spot_gpus: int) -> float | None:
        """Return in which time a pool offers less than this spot, where it warns of that in a slot.

        It is the first border of slots at which that is so; None where it lies further ahead than is warned.
        """
        pool, slot_hours = self._pools[own], self._pools[0].slot_hours
        if not (spot_gpus and pool.notice_hours):
            return None
        tape = self._tapes.tapes[own]
        for ahead in range(1, math.floor(pool.notice_hours / slot_hours + 1e-6) + 1):
            begun = tape.slots_begun((slot + ahead) * slot_hours)
            if begun < 1 or pool.quote(begun - 1).spot_gpus < spot_gpus:
                return ahead * slot_hours
        return None

    def _begin(self) -> Tapes:
        own = self._pools[0]
        tapes = [Tape.of(pool, first_hours(pool, own, self._start)) for pool in self._pools]
        return Tapes(
            tapes, [self._foresight(pool, tape) for pool, tape in zip(self._pools, tapes, strict=True)]
        )

    def _foresight(self, pool: Pool, tape: Tape) -> Foresight:
        if knows_the_future(self._forecaster):
            return TrueForecasts(self._forecaster, pool, self._horizon)
        return OnTape(self._forecaster, tape, self._horizon)


def _play(pool: Pool, tape: Tape, slots: int) -> None:
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
