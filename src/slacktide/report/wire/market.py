"""The figures of a market in their documented keys."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from slacktide.market.base import Market
from slacktide.market.pools.statistics import describe, largest_gpus, moves_between, side_by_side

COMPARED = (
    "gpu", "region", "spot_now_usd", "on_demand_now_usd", "spot_now_gpus", "half_of_largest_share",
    "largest_share",
)  # fmt: skip
"""What is written of a pool in addition to its own figures."""


def as_json(found: Market) -> dict[str, Any]:
    """Return the figures of a market in the documented keys."""
    compared = {one.pool: asdict(one) for one in side_by_side(found)}
    return {
        "source": found.source,
        "assumptions": list(found.assumptions),
        "largest_spot_gpus": largest_gpus(found),
        "moves": [asdict(move) for move in moves_between(found)],
        "pools": [
            {
                "name": pool.name,
                "start": _stamp(pool.start),
                "end": _stamp(pool.end),
                "slot_hours": pool.slot_hours,
                **asdict(describe(pool)),
                **{key: compared[pool.name][key] for key in COMPARED},
            }
            for pool in found.pools
        ],
    }


def _stamp(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")
