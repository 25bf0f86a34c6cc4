"""The recount of a bill: examples worked out by hand."""

from __future__ import annotations

import pytest

from campaigns.recount import Held, recount


def held(
    hours: float, spot: int, on_demand: int, slot: int = 0, payer: str = "job", pool: str = "here"
) -> Held:
    return Held(payer, pool, slot, hours, spot, on_demand, 2.0, 10.0)


def test_by_the_second_every_gpu_is_paid_for_as_long_as_it_is_held() -> None:
    stretches = [held(0.25, 2, 1), held(0.25, 0, 0), held(0.5, 1, 0, slot=1)]
    (found,) = recount(stretches, {}).values()
    assert found.usd == pytest.approx(0.25 * (2 * 2.0 + 10.0) + 0.5 * 2.0)
    assert (found.spot_gpu_hours, found.on_demand_gpu_hours) == (1.0, 0.25)


def test_by_the_slot_the_most_of_each_kind_is_paid_for_the_whole_slot() -> None:
    stretches = [held(0.1, 2, 0), held(0.1, 1, 1), held(0.2, 3, 0, slot=1), held(0.0, 9, 9, slot=1)]
    (found,) = recount(stretches, {"job": 0.5}).values()
    assert found.usd == pytest.approx(0.5 * (2 * 2.0 + 1 * 10.0) + 0.5 * 3 * 2.0)


def test_pools_and_payers_are_paid_apart() -> None:
    stretches = [held(0.1, 1, 0), held(0.1, 1, 0, pool="there"), held(0.1, 1, 0, payer="other")]
    found = recount(stretches, {"job": 0.5})
    assert {payer: one.usd for payer, one in found.items()} == pytest.approx({"job": 2.0, "other": 0.2})
