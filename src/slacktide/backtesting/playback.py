"""A recorded market played back: its tapes hold what had been quoted by then, and nothing of what comes."""

from __future__ import annotations

from collections.abc import Sequence

from slacktide.forecast.base import Forecaster, knows_the_future
from slacktide.forecast.on_tape import Foresight, OnTape, Told
from slacktide.market.base import Pool
from slacktide.market.tape import Tape, first_hours
from slacktide.site.moment import Moment
from slacktide.site.tapes import Tapes


class Playback:
    """The market that a job sees from a start on; it alone holds the recorded series."""

    def __init__(
        self, own: Pool, start: int, neighbours: Sequence[Pool], forecaster: Forecaster, horizon: int
    ) -> None:
        self._pools = (own, *neighbours)
        self._start, self._forecaster, self._horizon = start, forecaster, horizon
        self._tapes = self._begin()
        self._slot = -1

    def at(self, slot: int, own: int = 0) -> Moment:
        """Let time pass up to a slot of the job, which is in one of the pools.

        A slot of before is played back anew.
        """
        if slot < self._slot:
            self._tapes = self._begin()
        self._slot = slot
        hours = slot * self._pools[0].slot_hours
        for pool, tape in zip(self._pools, self._tapes.tapes, strict=True):
            _play(pool, tape, tape.slots_begun(hours))
        return Moment(self._tapes, hours, own)

    def _begin(self) -> Tapes:
        own = self._pools[0]
        tapes = [Tape.of(pool, first_hours(pool, own, self._start)) for pool in self._pools]
        return Tapes(
            tapes, [self._foresight(pool, tape) for pool, tape in zip(self._pools, tapes, strict=True)]
        )

    def _foresight(self, pool: Pool, tape: Tape) -> Foresight:
        if knows_the_future(self._forecaster):
            return Told(self._forecaster, pool, self._horizon)
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
