"""One series under an ARMA model: fitted on a schedule, carried forward in between."""

from __future__ import annotations

import importlib
import math
import warnings
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.errors import InputError

FEWEST = 20  # values per coefficient below which nothing is fitted


@cache
def estimator() -> Callable[..., Any]:
    """Return the library's maximum-likelihood estimator; raises InputError when it is not installed."""
    try:
        library = importlib.import_module("statsmodels.tsa.arima.estimators.innovations")
    except ImportError as error:
        raise InputError(
            "the forecaster 'arima' needs statsmodels, which is not installed; "
            "install it with: pip install 'slacktide[arima]'"
        ) from error
    found: Callable[..., Any] = library.innovations_mle
    return found


class Arma(NamedTuple):
    """A fitted model of the (differenced) series."""

    mean: float
    ar: tuple[float, ...]
    ma: tuple[float, ...]

    def next(self, values: Sequence[float], errors: Sequence[float]) -> float:
        """Return the expected next value; both sequences newest first."""
        return (
            self.mean
            + math.fsum(one * (value - self.mean) for one, value in zip(self.ar, values, strict=False))
            + math.fsum(one * error for one, error in zip(self.ma, errors, strict=False))
        )


class ArmaSeries:
    """The latest window of a series, the model fitted to it, and the model's present errors."""

    def __init__(self, order: tuple[int, int, int], window: int, refit: int) -> None:
        self._lags, self._differences, self._averages = order
        self._window: deque[float] = deque(maxlen=window + 1)
        self._refit = refit
        self._slots = 0
        self._most = 0.0
        self._model: Arma | None = None
        self._values: deque[float] = deque(maxlen=max(1, self._lags))
        self._errors: deque[float] = deque(maxlen=max(1, self._averages))
        self._params: Floats | None = None
        self.outcomes: Counter[str] = Counter()

    def learn(self, value: float) -> None:
        """Add the next value; fit the model again when that is due."""
        last = self._window[-1] if self._window else value
        self._window.append(value)
        self._most = max(self._most, value)
        self._slots += 1
        if self._model is not None:
            self._carry(self._model, value - last if self._differences else value)
        if self._slots % self._refit == 0:
            self._fit()

    def forecast(self, horizon: int) -> list[float]:
        """Return the expected values of the next slots, between 0 and the highest value seen."""
        level = self._window[-1] if self._window else 0.0
        if self._model is None:
            return [level] * horizon
        values, errors = self._values.copy(), self._errors.copy()
        out = []
        for _ in range(horizon):
            expected = self._model.next(values, errors)
            values.appendleft(expected)
            errors.appendleft(0.0)
            level = level + expected if self._differences else expected
            out.append(min(max(level, 0.0), self._most))
        return out

    def _carry(self, model: Arma, value: float) -> float:
        """Take one more value into the model's state and return by how much it was missed."""
        error = value - model.next(self._values, self._errors)
        self._values.appendleft(value)
        self._errors.appendleft(error)
        return error

    def _fit(self) -> None:
        series = np.array(self._window)
        series = np.diff(series) if self._differences else series[-(self._window.maxlen or 1) + 1 :]
        if len(series) < FEWEST * (self._lags + self._averages):
            return
        self._model = None
        if np.ptp(self._window) == 0:
            self.outcomes["fitted"] += 1  # a constant series is known exactly without a model
            return
        model = self._estimate(series)
        self._model = model if model is not None and self._start(model, series) else None

    def _estimate(self, series: Floats) -> Arma | None:
        """Fit by maximum likelihood, from the last coefficients if they still serve as a start."""
        mean = 0.0 if self._differences else float(series.mean())
        order = (self._lags, 0, self._averages)
        for start in (self._params, None) if self._params is not None else (None,):
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    found, _ = estimator()(series - mean, order=order, demean=False, start_params=start)
            except (ArithmeticError, ValueError, IndexError, np.linalg.LinAlgError):
                continue  # the reason differs with the version of the library; that it failed is counted
            if np.isfinite(found.params).all() and found.is_stationary and found.is_invertible:
                self._params = found.params
                return Arma(mean, tuple(map(float, found.ar_params)), tuple(map(float, found.ma_params)))
        self._params = None
        self.outcomes["no fit found"] += 1
        return None

    def _start(self, model: Arma, series: Floats) -> bool:
        """Run a new model through its window; return whether it did as well there as persistence."""
        self._values.clear()
        self._errors.clear()
        self._values.extend([model.mean] * self._lags)
        self._errors.extend([0.0] * self._averages)
        missed = math.fsum(self._carry(model, value) ** 2 for value in series.tolist())
        naive = series if self._differences else np.diff(series)
        better = missed <= float(np.square(naive).sum()) * len(series) / len(naive)
        self.outcomes["fitted" if better else "worse than the last value"] += 1
        return better
