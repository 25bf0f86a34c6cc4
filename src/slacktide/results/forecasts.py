"""Forecasters side by side on a market: pool by pool, and in the mean."""

from __future__ import annotations

from dataclasses import dataclass

from slacktide.market.base import Market
from slacktide.market.forecast.score import Scores, overall


@dataclass(frozen=True, slots=True)
class Forecasts:
    """How far off forecasters would have been on each pool of a market."""

    market: Market
    warmup_share: float  # the share of the market that was only learned from
    pools: tuple[Scores, ...]

    @property
    def overall(self) -> Scores:
        """The mean over pools, every pool counting once."""
        return overall(self.pools)

    @property
    def summary(self) -> Scores:
        """What stands for all pools: their mean, or the only one under its own name."""
        return self.overall if len(self.pools) > 1 else self.pools[0]
