"""The tapes of all pools on one market clock: what may be known of them at a moment."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slacktide.core.quotes import UNLIMITED_GPUS, Quote
from slacktide.market.forecast.on_tape import Foresight
from slacktide.market.tape import Past, Tape

NOT_BEGUN = Quote(math.inf, math.inf, 0)
"""What a pool offers before its first quote."""


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
