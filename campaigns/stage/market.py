"""Markets for real jobs: a slot is over in a second, on a fast clock or on the wall's own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

SLOTS = 4000
HEAD = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour"
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)


class Pace(NamedTuple):
    """How time passes on a market."""

    speed: float
    """How many times as fast as the wall's the market's clock runs."""
    slot_hours: float

    @property
    def scale(self) -> float:
        """How much shorter hours are than in a rehearsal; so much higher are prices."""
        return self.slot_hours / REHEARSAL.slot_hours

    def wall_s(self, market_hours: float) -> float:
        """Return so many hours of the market in seconds of the wall's clock."""
        return market_hours * 3600.0 / self.speed


REHEARSAL = Pace(1800.0, 0.5)
"""Slots of half an hour on a fast clock, which waits for its controller where that is slow."""
REAL_TIME = Pace(1.0, 1.0 / 3600.0)
"""Slots of a second by the wall's clock, which waits for nobody."""


class Offer(NamedTuple):
    """What the market offers in one slot, with prices as in a rehearsal."""

    spot_gpus: int = 3
    spot_usd: float = 2.0
    on_demand_usd: float = 10.0


def write_market(path: Path, offers: Sequence[Offer], pace: Pace, slots: int = SLOTS) -> None:
    """Write a market that offers the same things over and over; a second costs the same at any pace."""
    lines = [HEAD]
    for slot in range(slots):
        gpus, *usd = offers[slot % len(offers)]
        time = BEGIN + timedelta(seconds=round(3600.0 * pace.slot_hours) * slot)
        lines.append(
            ",".join([time.isoformat(), "zone", str(gpus), *(repr(one / pace.scale) for one in usd)])
        )
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def random_offers(rng: random.Random, count: int = 12) -> list[Offer]:
    """Draw a market that gives, takes and changes its prices."""
    return [
        Offer(rng.choice([0, 1, 2, 3, 5, 8]), round(rng.uniform(0.5, 4.0), 2), round(rng.uniform(6, 12), 2))
        for _ in range(count)
    ]
