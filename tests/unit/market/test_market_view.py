"""Forecasts on a tape: what a learner says that has seen the same, in whatever order they are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from slacktide.core.quotes import Quote
from slacktide.market.base import Pool
from slacktide.market.forecast.base import Forecaster, OnTape, forecasters, hour_of_day
from slacktide.market.source import open_market
from slacktide.market.tape import Tape

HONEST = ["harmonic", "persistence", "seasonal"]


@pytest.fixture(scope="module")
def pool() -> Pool:
    return open_market("synthetic:volatile?days=3&slot=30m&seed=4").pools[0]


def recorded(pool: Pool, slots: int) -> Tape:
    tape = Tape.of(pool)
    tape.extend(
        pool.spot_usd_per_gpu_hour[:slots], pool.on_demand_usd_per_gpu_hour[:slots], pool.spot_gpus[:slots]
    )
    return tape


def expected(forecaster: Forecaster, pool: Pool, quotes: Sequence[Quote]) -> list[Quote]:
    learner = forecaster.begin(pool.slot_hours, hour_of_day(pool))
    for quote in quotes:
        learner.learn(quote)
    return list(learner.forecast(4))


@pytest.mark.parametrize("name", HONEST)
def test_any_moment_may_be_asked_for_in_any_order(pool: Pool, name: str) -> None:
    forecaster = forecasters.make(name)
    for length in (140, 60):  # a second run on the same pool goes on from what the first has learned
        foresight = OnTape(forecaster, recorded(pool, length), 4)
        for slots in (50, 51, 30, 55, 1, 55, 60):
            told = expected(forecaster, pool, [pool.quote(slot) for slot in range(slots)])
            assert list(foresight.at(slots)) == told


@pytest.mark.parametrize("name", HONEST)
def test_held_quotes_are_not_learned_for_good(pool: Pool, name: str) -> None:
    forecaster, tape = forecasters.make(name), recorded(pool, 40)
    foresight = OnTape(forecaster, tape, 4)
    quotes = [pool.quote(slot) for slot in range(45)]
    tape.hold(43)
    assert list(foresight.at(43)) == expected(forecaster, pool, quotes[:40] + quotes[39:40] * 3)
    for quote in quotes[40:]:
        tape.append(quote)
    assert list(foresight.at(43)) == expected(forecaster, pool, quotes[:43])


def test_a_revised_tape_is_learned_anew(pool: Pool) -> None:
    tape = recorded(pool, 40)
    foresight = OnTape(forecasters.make("persistence"), tape, 1)
    foresight.at(40)
    tape.revise(Quote(7.0, 8.0, 1))
    assert list(foresight.at(40)) == [Quote(7.0, 8.0, 1)]
    assert np.array_equal(tape.past().spot_gpus[:39], pool.spot_gpus[:39])
