"""What a stretch of time costs: the only place where money is counted.

By the second: GPUs x price x hours held. By the slot: a slot costs, for each payer, pool and kind, its price
x the slot's length x the most GPUs of that kind held at any moment of the slot. Written as a running rule: a
stretch pays only for GPUs above the highest count of its slot so far, at its own quote. So cutting a stretch
changes nothing, a GPU let go and taken again inside a slot is paid once, and back-test, live run and audit
agree, whatever moments they looked at.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from slacktide.core.compiled import compilable, inlined
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.core.types import Billing

MONEY_TOLERANCE_USD = 1e-9  # two sums closer than this are the same sum


class Tariff(NamedTuple):
    """How a payer is billed."""

    whole_slots: bool  # whether a slot in which anything is held is paid in full
    slot_hours: float


BY_THE_SECOND = Tariff(whole_slots=False, slot_hours=1.0)
"""The tariff for machines that no job uses; without whole slots the length of a slot does not matter."""


class Meter(NamedTuple):
    """The most GPUs that one payer has held so far in the present slot and pool."""

    slot: int = -1
    pool: int = -1
    spot_gpus: int = 0
    on_demand_gpus: int = 0


class Charge(NamedTuple):
    """What a stretch costs."""

    usd: float = 0.0  # all of it; kept as a number because the sum of its parts differs in the last bits
    on_demand_usd: float = 0.0  # of this, for on-demand GPUs
    move_usd: float = 0.0  # of this, for carrying a checkpoint to another pool

    @property
    def spot_usd(self) -> float:
        """Of this, for spot GPUs."""
        return self.usd - self.on_demand_usd - self.move_usd


def tariff_of(billing: Billing, slot_hours: float) -> Tariff:
    """Return how a job with this billing pays on a market with slots of this length."""
    if not (math.isfinite(slot_hours) and slot_hours > 0):
        raise InputError(f"slot_hours must be > 0, got {slot_hours:g}")
    return Tariff(billing == "slot", float(slot_hours))


@inlined
def usd_per_hour(quote: Quote, spot: int, on_demand: int) -> float:
    """Return what an hour with these GPUs costs by the second."""
    return quote.spot_usd_per_gpu_hour * spot + quote.on_demand_usd_per_gpu_hour * on_demand


@inlined
def price(
    tariff: Tariff,
    meter: Meter,
    slot: int,
    pool: int,
    quote: Quote,
    spot: int,
    on_demand: int,
    held_hours: float,
    move_usd: float,
) -> tuple[Charge, Meter]:
    """Return what a stretch inside one slot costs, and the meter after it."""
    if not tariff.whole_slots:
        return _charge(quote, spot, on_demand, held_hours, move_usd), meter
    paid_spot, paid_on_demand = _paid(meter, slot, pool)
    if held_hours <= 0.0:  # held for no time at all, so not held in this slot
        return Charge(move_usd, 0.0, move_usd), Meter(slot, pool, paid_spot, paid_on_demand)
    more_spot, more_on_demand = max(0, spot - paid_spot), max(0, on_demand - paid_on_demand)
    return (
        _charge(quote, more_spot, more_on_demand, tariff.slot_hours, move_usd),
        Meter(slot, pool, max(spot, paid_spot), max(on_demand, paid_on_demand)),
    )


@inlined
def _charge(quote: Quote, spot: int, on_demand: int, hours: float, move_usd: float) -> Charge:
    """Return what these GPUs cost for that many hours, with a move."""
    on_demand_usd = quote.on_demand_usd_per_gpu_hour * on_demand * hours
    return Charge(usd_per_hour(quote, spot, on_demand) * hours + move_usd, on_demand_usd, move_usd)


@inlined
def _paid(meter: Meter, slot: int, pool: int) -> tuple[int, int]:
    """Return the GPUs of each kind that are paid for already in a slot and pool."""
    # Another pool is another seller: what was paid there in this slot buys nothing here.
    if meter.slot == slot and meter.pool == pool:
        return meter.spot_gpus, meter.on_demand_gpus
    return 0, 0


@compilable
def reach_hours(
    tariff: Tariff,
    meter: Meter,
    slot: int,
    pool: int,
    quote: Quote,
    spot: int,
    on_demand: int,
    left_usd: float,
) -> float:
    """Return for how long the money left pays for a holding inside a slot; infinite if for the whole slot.

    With whole slots that is infinite or 0. The caller ends the stretch there and says that the money ended.
    """
    if tariff.whole_slots:
        charge, _ = price(tariff, meter, slot, pool, quote, spot, on_demand, tariff.slot_hours, 0.0)
        return math.inf if charge.usd <= left_usd + MONEY_TOLERANCE_USD else 0.0
    hourly = usd_per_hour(quote, spot, on_demand)
    # Free GPUs may be held without limit, but not by a job that already owes more than it had.
    if hourly <= 0.0:
        return math.inf if left_usd >= -MONEY_TOLERANCE_USD else 0.0
    reach = max(0.0, left_usd) / hourly
    # Money that lasts to within a rounding error of the slot's end lasts to the end.
    return math.inf if left_usd + MONEY_TOLERANCE_USD >= hourly * tariff.slot_hours else reach


def lasts_hours(
    tariff: Tariff,
    meter: Meter,
    slot: int,
    pool: int,
    quote: Quote,
    spot: int,
    on_demand: int,
    left_usd: float,
    rest_hours: float,
    stop_hours: float,
    worst: Quote,
) -> float:
    """Return how long a holding may be kept until its workers must be stopped for the money left to suffice.


    `rest_hours` are left of the slot. Stopping takes up to `stop_hours`, in which prices may rise to those of
    `worst`; before that the quote stays, because each slot has its own decision. If whole slots are paid, the
    next one is paid as soon as anything is held in it.
    """
    if not tariff.whole_slots:
        hourly = usd_per_hour(quote, spot, on_demand)
        # Kept back for the time in which workers are stopped, which may cost the higher of the two prices.
        reserve_usd = max(hourly, usd_per_hour(worst, spot, on_demand)) * stop_hours
        return max(0.0, left_usd - reserve_usd) / hourly if hourly > 0.0 else math.inf
    charge, meter = price(tariff, meter, slot, pool, quote, spot, on_demand, tariff.slot_hours, 0.0)
    if charge.usd > left_usd + MONEY_TOLERANCE_USD:
        return 0.0
    # A minute in the next slot costs all of it: without that money, all GPUs must be gone before it begins.
    following = reach_hours(tariff, meter, slot + 1, pool, worst, spot, on_demand, left_usd - charge.usd)
    return math.inf if following > 0.0 else max(0.0, rest_hours - stop_hours)
