"""What can be had at all: a market may offer more than there are machines."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from slacktide.backends.base import Bounded, Room
from slacktide.core.types import Quote
from slacktide.journal.state.journal_state import JobRecord
from slacktide.physics import physics

if TYPE_CHECKING:
    from slacktide.engine.engine import Engine


def scarce_spot(engine: Engine, tracks: Iterable[JobRecord], now_hours: float) -> dict[str, int]:
    """Return how much spot the market offers now that no machine can give, by pool."""
    if not isinstance(engine.backend, Bounded):
        return {}
    found: dict[str, int] = {}
    for track in tracks:
        lane = engine.lane(track)
        for pool in lane.pool_names:
            room = math.inf if pool in found else _room(engine, pool).spot_gpus
            if math.isfinite(room):
                offered = lane.named(pool).quote(lane.slot(now_hours)).spot_gpus
                found[pool] = max(0, offered - int(room))
    return found


def cut_to_room(
    engine: Engine, track: JobRecord, terms: physics.Terms, left: Quote, spot: int, on_demand: int, pool: str
) -> tuple[int, int]:
    """Cut on-demand GPUs to those that machines can give; spot makes up for the rest as far as it is left."""
    room = _room(engine, pool).on_demand_gpus
    if math.isinf(room):
        return spot, on_demand
    # By claims: those of a fleet are decided about together, so what others were given is not written yet.
    most = max(0, int(room) - engine.spot.on_demand_by_others(track.job).get(pool, 0))
    if on_demand <= most:
        return spot, on_demand
    return physics.cut(terms, left, spot + on_demand - most, most)


def _room(engine: Engine, pool: str) -> Room:
    return engine.backend.room(pool) if isinstance(engine.backend, Bounded) else Room()
