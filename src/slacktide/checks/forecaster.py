"""The contract of a forecaster, as checks that anyone can run on their own.

    from slacktide.checks import check_forecaster
    check_forecaster(MyForecaster())

Each check takes a forecaster and one pool, and raises CheckFailed with a sentence if the promise does not
hold. Checks against knowing the future skip a forecaster with `knows_the_future = True`.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from slacktide.checks.base import CheckFailed, must, run_all
from slacktide.checks.cases import random_pool, with_other_future
from slacktide.core.arrays import Floats
from slacktide.core.quotes import Quote
from slacktide.market.base import Pool
from slacktide.market.forecast.base import (
    BulkLearner,
    Forecaster,
    ForecastRow,
    Learner,
    forecast_table,
    hour_of_day,
    knows_the_future,
)

ForecasterCheck = Callable[[Forecaster, Pool, np.random.Generator], None]

HORIZON = 7
LONG_SLOT_HOURS, LONG_SLOTS = 6.0, 400
"""A hundred days in few slots, so that any sensible window of a learner is full after half of them."""
GROWTH = 1.02  # the factor by which a learner's memory may still grow then, because its counters get longer


def never_refuses(forecaster: Forecaster, pool: Pool, rng: np.random.Generator) -> None:
    """A learner forecasts before the first quote, after every quote, and for any horizon."""
    learner = _begin(forecaster, pool)
    for slot in range(-1, len(pool)):
        if slot >= 0:
            learner.learn(pool.quote(slot))
        for horizon in (0, 1, HORIZON, 200) if slot in (-1, len(pool) - 1) else (HORIZON,):
            try:
                forecast_quotes = learner.forecast(horizon)
            except Exception as error:
                raise CheckFailed(f"must never refuse, got {error!r} after slot {slot} of {pool}") from error
            got = len(forecast_quotes)
            must(got == horizon, f"{horizon} quotes must be forecast, got {got} after slot {slot}")


def forecasts_what_is_possible(forecaster: Forecaster, pool: Pool, rng: np.random.Generator) -> None:
    """Forecast prices are finite and not negative; GPUs are between 0 and the most seen so far."""
    table = forecast_table(forecaster, pool, HORIZON)
    if table.shape != (len(pool), HORIZON, 3):
        raise CheckFailed(f"a table must be slots x horizon x 3, got {table.shape} of {pool}")
    if not np.isfinite(table).all() or table.min() < 0:
        raise CheckFailed(f"forecasts must be finite and >= 0, got {_odd(table)} in {pool}")
    seen = np.maximum.accumulate(pool.spot_gpus)
    most = np.full_like(seen, seen[-1]) if knows_the_future(forecaster) else seen
    over = np.flatnonzero((table[:, :, 2] > most[:, None] + 1e-9).any(axis=1))
    if len(over):
        raise CheckFailed(
            f"GPUs must be at most the {most[over[0]]} seen, got {table[over[0], :, 2]} in slot {over[0]}"
        )


def keeps_the_listed_price(forecaster: Forecaster, pool: Pool, rng: np.random.Generator) -> None:
    """The on-demand price is forecast to stay the same, because it is a list price, not a market price."""
    if knows_the_future(forecaster):
        return
    listed = forecast_table(forecaster, pool, HORIZON)[:, :, 1]
    if not (listed == pool.on_demand_usd_per_gpu_hour[:, None]).all():
        raise CheckFailed(f"the on-demand price must be forecast to stay, got another in {pool}")


def forecasts_the_same_again(forecaster: Forecaster, pool: Pool, rng: np.random.Generator) -> None:
    """The same parameters and the same past give the same forecast, also after pickling."""
    twin: Forecaster = pickle.loads(pickle.dumps(forecaster))
    if twin != forecaster or hash(twin) != hash(forecaster):
        raise CheckFailed(f"a forecaster must equal its copy, got {twin} and {forecaster}")
    copy = pool.window(0, len(pool))
    if not np.array_equal(forecast_table(forecaster, pool, HORIZON), forecast_table(twin, copy, HORIZON)):
        raise CheckFailed(f"the same past must give the same forecast, got another in {pool}")


def cannot_see_the_future(forecaster: Forecaster, pool: Pool, rng: np.random.Generator) -> None:
    """Two pools that agree up to a slot get the same forecasts up to that slot."""
    if knows_the_future(forecaster) or len(pool) < 2:
        return
    first = int(rng.integers(1, len(pool)))
    other = with_other_future(pool, first, rng)
    left, right = (forecast_table(forecaster, one, HORIZON)[:first] for one in (pool, other))
    differ = np.flatnonzero((left != right).any(axis=(1, 2)))
    if len(differ):
        raise CheckFailed(
            f"a forecaster must not see the future, but slot {differ[0]} depends on slots from {first} on, "
            f"in {pool}"
        )


def fills_the_table_as_it_forecasts(forecaster: Forecaster, pool: Pool, rng: np.random.Generator) -> None:
    """The table of forecasts for a whole pool agrees with what a learner forecasts slot by slot."""
    if knows_the_future(forecaster):
        return
    table = forecast_table(forecaster, pool, HORIZON)
    learner = _begin(forecaster, pool)
    for slot in range(len(pool)):
        learner.learn(pool.quote(slot))
        given, written = list(learner.forecast(HORIZON)), list(ForecastRow(table[slot]))
        if not _alike(given, written):
            raise CheckFailed(
                f"table and learner must agree, got {written} and {given} in slot {slot} of {pool}"
            )


def learns_many_as_it_learns_one_by_one(forecaster: Forecaster, pool: Pool, rng: np.random.Generator) -> None:
    """A learner that learns many quotes at once forecasts the same as one that learned them one by one."""
    many, single = _begin(forecaster, pool), _begin(forecaster, pool)
    if not isinstance(many, BulkLearner):
        return
    first = int(rng.integers(0, len(pool)))
    for rows in (slice(0, first), slice(first, len(pool))):
        many.learn_many(
            pool.spot_usd_per_gpu_hour[rows], pool.on_demand_usd_per_gpu_hour[rows], pool.spot_gpus[rows]
        )
    for slot in range(len(pool)):
        single.learn(pool.quote(slot))
    forecast_quotes, expected = list(many.forecast(HORIZON)), list(single.forecast(HORIZON))
    message = f"learning at once must equal learning one by one, got {forecast_quotes} and {expected}"
    must(forecast_quotes == expected, message)


def does_not_grow(forecaster: Forecaster, pool: Pool, rng: np.random.Generator) -> None:
    """A learner can be pickled, and its memory stops growing, because it may run for months."""
    learner = forecaster.begin(LONG_SLOT_HOURS, 0.0)
    sizes = []
    for slot in range(LONG_SLOTS):
        learner.learn(pool.quote(slot % len(pool)))
        learner.forecast(HORIZON)
        if slot + 1 in (LONG_SLOTS // 2, LONG_SLOTS):
            sizes.append(len(pickle.dumps(learner)))
    got = f"{sizes[0]} bytes after {LONG_SLOTS // 2} slots and {sizes[1]} after {LONG_SLOTS}"
    must(sizes[1] <= GROWTH * sizes[0] + 64, f"a learner's memory must not grow forever, got {got}")


FORECASTER_CHECKS: tuple[ForecasterCheck, ...] = (
    never_refuses, forecasts_what_is_possible, keeps_the_listed_price, forecasts_the_same_again,
    cannot_see_the_future, fills_the_table_as_it_forecasts, learns_many_as_it_learns_one_by_one,
    does_not_grow,
)  # fmt: skip


def check_forecaster(forecaster: Forecaster, *, examples: int = 12, seed: int = 0) -> None:
    """Run every check on `examples` pools; raises CheckFailed at the first broken promise."""
    run_all(FORECASTER_CHECKS, forecaster, lambda: pools(seed, examples), seed)


def pools(seed: int, count: int) -> Iterator[Pool]:
    """Yield this many pools to forecast: constant ones first, one of ten days, then random short ones."""
    rng = np.random.default_rng(seed)
    unkind = (
        _flat(1, 2.0, 3),
        _flat(30, 2.0, 3),
        _flat(30, 0.0, 3),
        _flat(30, 2.0, 0),
        _flat(30, 9.0, 4),
        random_pool(rng, 1.0, 240, 8),
    )
    yield from unkind[:count]
    for _ in range(count - len(unkind)):
        yield random_pool(rng, float(rng.choice([1 / 6, 0.5, 1.0, 25.0])), int(rng.integers(2, 60)), 8)


def _flat(slots: int, usd: float, gpus: int) -> Pool:
    return Pool("flat", 0.5, np.full(slots, usd), np.full(slots, 4.0), np.full(slots, gpus))


def _begin(forecaster: Forecaster, pool: Pool) -> Learner:
    return forecaster.begin(pool.slot_hours, hour_of_day(pool))


def _odd(table: Floats) -> float:
    return float(table[~np.isfinite(table) | (table < 0)][0])


def _alike(given: Sequence[Quote], written: Sequence[Quote]) -> bool:
    return all(
        one.spot_gpus == other.spot_gpus
        and one.on_demand_usd_per_gpu_hour == other.on_demand_usd_per_gpu_hour
        and math.isclose(one.spot_usd_per_gpu_hour, other.spot_usd_per_gpu_hour, rel_tol=1e-9, abs_tol=1e-12)
        for one, other in zip(given, written, strict=True)
    )
