"""What stretches cost, worked out by hand."""

from __future__ import annotations

import math

import pytest

from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.physics.tariff import Charge, Meter, Tariff, price, reach_hours, tariff_of

QUOTE = Quote(1.0, 4.0, 8)
BY_SECOND, BY_SLOT = Tariff(False, 0.5), Tariff(True, 0.5)


def test_by_the_second_gpus_times_price_times_hours() -> None:
    charge, meter = price(BY_SECOND, Meter(), 3, 0, QUOTE, 2, 1, 0.25, 0.0)
    assert charge == Charge(1.5, 1.0, 0.0)
    assert meter == Meter()


def test_by_the_slot_the_slot_is_paid_in_full() -> None:
    charge, meter = price(BY_SLOT, Meter(), 3, 0, QUOTE, 2, 1, 0.01, 0.0)
    assert charge == Charge(3.0, 2.0, 0.0)
    assert meter == Meter(3, 0, 2, 1)


def test_what_is_let_go_and_taken_again_in_a_slot_is_paid_once() -> None:
    _, meter = price(BY_SLOT, Meter(), 3, 0, QUOTE, 2, 1, 0.1, 0.0)
    less, meter = price(BY_SLOT, meter, 3, 0, QUOTE, 0, 1, 0.1, 0.0)
    again, meter = price(BY_SLOT, meter, 3, 0, QUOTE, 3, 1, 0.1, 0.0)
    assert less.usd == 0.0
    assert again == Charge(0.5, 0.0, 0.0)
    assert meter == Meter(3, 0, 3, 1)


def test_a_new_slot_and_another_pool_are_paid_anew() -> None:
    _, meter = price(BY_SLOT, Meter(), 3, 0, QUOTE, 2, 0, 0.1, 0.0)
    assert price(BY_SLOT, meter, 4, 0, QUOTE, 2, 0, 0.1, 0.0)[0].usd == 1.0
    assert price(BY_SLOT, meter, 3, 1, QUOTE, 2, 0, 0.1, 0.0)[0].usd == 1.0


def test_what_is_held_for_no_time_costs_nothing_but_the_move() -> None:
    charge, meter = price(BY_SLOT, Meter(), 3, 0, QUOTE, 2, 1, 0.0, 7.0)
    assert charge == Charge(7.0, 0.0, 7.0)
    assert (meter.spot_gpus, meter.on_demand_gpus) == (0, 0)


@pytest.mark.parametrize(
    ("tariff", "left", "reach"),
    [
        (BY_SECOND, 1.2, 0.2),
        (BY_SECOND, 3.0, math.inf),  # half an hour of two spot and one on demand
        (BY_SECOND, 0.0, 0.0),
        (BY_SLOT, 2.99, 0.0),
        (BY_SLOT, 3.0, math.inf),
    ],
)
def test_money_reaches_so_far(tariff: Tariff, left: float, reach: float) -> None:
    assert reach_hours(tariff, Meter(), 0, 0, QUOTE, 2, 1, left) == pytest.approx(reach)


def test_what_is_paid_already_needs_no_money() -> None:
    assert reach_hours(BY_SLOT, Meter(5, 0, 2, 1), 5, 0, QUOTE, 2, 1, 0.0) == math.inf
    assert reach_hours(BY_SLOT, Meter(5, 0, 2, 1), 5, 0, QUOTE, 3, 1, 0.0) == 0.0


def test_free_gpus_can_always_be_paid() -> None:
    assert reach_hours(BY_SECOND, Meter(), 0, 0, Quote(0.0, 4.0, 8), 2, 0, 0.0) == math.inf


@pytest.mark.parametrize("slot", [0.0, -1.0, math.nan, math.inf])
def test_impossible_slot_length_is_refused(slot: float) -> None:
    with pytest.raises(InputError, match="slot_hours must be > 0"):
        tariff_of("second", slot)
