"""A second opinion on money, written from the rules in the docs and from nothing else.

By the second, a stretch costs its GPUs times their price times the hours they were held. By the slot, a slot
costs, for each payer, pool and kind, its price times its length times the most GPUs of that kind held at any
moment of it (docs/design/billing.md). Nothing here imports the tariff, the ledger or the
engine.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

CENT_USD = 0.005
"""Two sums that differ by less are the same to the cent."""


class Held(NamedTuple):
    """What one payer held from one moment to another of one slot, at which prices."""

    payer: str
    pool: str
    slot: int
    hours: float
    spot_gpus: int
    on_demand_gpus: int
    spot_usd: float
    """For a GPU and an hour, as the market quotes it in this slot."""
    on_demand_usd: float


class Sum(NamedTuple):
    """What a payer owes."""

    usd: float
    spot_gpu_hours: float
    on_demand_gpu_hours: float


def recount(stretches: Iterable[Held], slot_hours: Mapping[str, float | None]) -> dict[str, Sum]:
    """Say what each payer owes; `slot_hours` is a slot's length for payers of whole slots, else None."""
    by_payer: dict[str, list[Held]] = defaultdict(list)
    for one in stretches:
        by_payer[one.payer].append(one)
    return {payer: _sum(held, slot_hours.get(payer)) for payer, held in by_payer.items()}


def _sum(stretches: list[Held], slot_hours: float | None) -> Sum:
    usd = _by_the_second(stretches) if slot_hours is None else _by_the_slot(stretches, slot_hours)
    return Sum(
        usd,
        math.fsum(one.spot_gpus * one.hours for one in stretches),
        math.fsum(one.on_demand_gpus * one.hours for one in stretches),
    )


def _by_the_second(stretches: list[Held]) -> float:
    return math.fsum(
        (one.spot_gpus * one.spot_usd + one.on_demand_gpus * one.on_demand_usd) * one.hours
        for one in stretches
    )


def _by_the_slot(stretches: list[Held], slot_hours: float) -> float:
    most: dict[tuple[str, int, str], tuple[int, float]] = {}
    for one in stretches:
        if one.hours > 0:
            for kind, gpus, usd in (
                ("spot", one.spot_gpus, one.spot_usd),
                ("on demand", one.on_demand_gpus, one.on_demand_usd),
            ):
                key = one.pool, one.slot, kind
                most[key] = max(most.get(key, (0, usd)), (gpus, usd))
    return math.fsum(gpus * usd * slot_hours for gpus, usd in most.values())
