"""Forecasters compared: how far off each would have been on the pools of a market."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slacktide.app.markets.market_files import ReadRequest, read_market
from slacktide.core.register import Spec
from slacktide.market.forecast.score import DEFAULT_WARMUP_SHARE, Scores, named, score
from slacktide.results.forecasts import Forecasts
from slacktide.simulation.compare import Progress

USUAL_FORECASTERS: tuple[Spec, ...] = ("harmonic", "seasonal")
"""Those that need no extra package and are fast; `arima` must be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRequest:
    """A market, and which forecasters are tried on it."""

    market: ReadRequest
    forecasters: Sequence[Spec] = USUAL_FORECASTERS
    horizon: int = 12  # how many slots ahead
    warmup_share: float = DEFAULT_WARMUP_SHARE
    """The share of the market that is learned from before forecasts are scored."""


def compare_forecasters(request: ForecastRequest, *, progress: Progress | None = None) -> Forecasts:
    """Score forecasters on every pool of a market, against persistence.

    Raises InputError when a pool is too short for warm-up and horizon, or a forecaster is not known.
    """
    market = read_market(request.market)
    wanted = named(request.forecasters)
    scored: list[Scores] = []
    for number, pool in enumerate(market.pools):
        if progress is not None:
            progress(number, len(market))
        scored.append(score(pool, wanted, horizon=request.horizon, warmup_share=request.warmup_share))
    return Forecasts(market, request.warmup_share, tuple(scored))
