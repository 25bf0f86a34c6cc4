"""ARIMA: its own recursion equals the library's, and what cannot be fitted is persistence."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError
from slacktide.market.forecast.base import forecasters
from slacktide_papers.forecasters.arima import Arima
from slacktide_papers.forecasters.arma_model import ArmaSeries, estimator
from tests import build

needs_library = pytest.mark.skipif(
    "not __import__('importlib.util').util.find_spec('statsmodels')", reason="needs the extra 'arima'"
)


def wander(length: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    values = np.empty(length)
    values[0] = 10.0
    for slot in range(1, length):
        values[slot] = 10.0 + 0.8 * (values[slot - 1] - 10.0) + rng.normal()
    return np.maximum(values, 0.0)


@needs_library
@pytest.mark.parametrize("order", [(2, 0, 1), (1, 0, 0), (2, 1, 1)])
def test_forecasts_what_the_library_forecasts(order: tuple[int, int, int]) -> None:
    from statsmodels.tsa.arima.model import ARIMA  # type: ignore[import-untyped,unused-ignore]

    values = wander(400)
    series = ArmaSeries(order, window=1000, refit=300)
    for value in values:
        series.learn(float(value))
    model = series._model
    assert model is not None
    coefficients = [*model.ar, *model.ma, 1.0]
    theirs = ARIMA(values, order=order, trend="c" if order[1] == 0 else "n")
    known = theirs.smooth([model.mean, *coefficients] if order[1] == 0 else coefficients)
    # Moving averages near one forget their first errors, which are not known, but slowly.
    assert series.forecast(6) == pytest.approx(known.forecast(6).tolist(), rel=1e-3 if order[1] else 1e-6)


@needs_library
def test_learns_that_a_series_returns() -> None:
    series = ArmaSeries((1, 0, 0), window=500, refit=100)
    for value in wander(300):
        series.learn(float(value))
    assert series._model is not None
    assert series._model.ar[0] == pytest.approx(0.8, abs=0.12)


@needs_library
def test_notes_say_when_persistence_stood_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **options: Any) -> None:
        raise ValueError("did not converge")

    monkeypatch.setattr("slacktide_papers.forecasters.arma_model.estimator", lambda: fails)
    gpus = wander(200).astype(np.int64)
    pool = build.pool(1.0, 1.0, gpus, name="zone", slot_hours=1.0)
    assert (Arima().table(pool, 3)[:, :, 2] == gpus[:, None]).all()
    (note,) = Arima().notes(pool, 3)
    assert "fits of the availability as persistence" in note
    assert "no fit found" in note


@needs_library
def test_short_pool_is_persistence_and_says_so() -> None:
    pool = build.pool(1.0, 1.0, np.arange(5), name="zone", slot_hours=1.0)
    assert (Arima().table(pool, 2)[:, :, 2] == np.arange(5)[:, None]).all()
    assert all("too short" in note for note in Arima().notes(pool, 2))


def test_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "statsmodels.tsa.arima.estimators.innovations", None)
    estimator.cache_clear()
    with pytest.raises(InputError, match=r"slacktide\[arima\]"):
        Arima().begin(1.0, 0.0)


def test_order_may_come_from_a_file() -> None:
    made = forecasters.make({"arima": {"order": [1, 0, 1]}})
    assert made == Arima((1, 0, 1))
    assert hash(made) == hash(Arima((1, 0, 1)))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"order": (1, 2)}, "three whole"),
        ({"order": (1, 2, 1)}, "0 or 1"),
        ({"order": (0, 1, 0)}, "lag"),
        ({"refit_hours": 0.0}, "refit_hours"),
        ({"refit_hours": 200.0}, "window_hours"),
    ],
)
def test_refuses_senseless_parameters(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Arima(**wrong)
