"""Results of comparisons: of policies from the same starts, of forecasters on the same market."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.market.forecast.score import Scores, overall
from slacktide.physics.truth import AS_SAID, Truths
from slacktide.results.run import Run, RunResult


@dataclass(frozen=True, slots=True)
class PolicySummary:
    """One policy over all starts and pools."""

    policy: str
    mean_cost_usd: float
    mean_utility_usd: float
    on_time_share: float
    cost_over_clairvoyant: float
    """Its whole bill over the clairvoyant's; infinite when the clairvoyant paid nothing."""
    p10_cost_usd: float
    p50_cost_usd: float
    p90_cost_usd: float
    mean_finish_hours: float
    mean_spot_gpu_hours: float
    mean_on_demand_gpu_hours: float
    mean_preemptions: float
    pool: str = ""
    """Where a job may move: the pool in which the policy stayed, the best one for it; empty if it moved."""
    mean_moves: float = 0.0
    mean_move_usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a back-test: all runs, a summary of each policy, and one typical start in full detail."""

    job: Job
    market: str  # where the market came from
    pools: tuple[Pool, ...]
    assumptions: tuple[str, ...]
    runs: Sequence[Run]
    summary: tuple[PolicySummary, ...]
    detail: tuple[RunResult, ...]  # one run per policy, all from the same start, with every decision kept
    clairvoyant_spare_usd: float | None = None
    """How much less the best plans could cost than the clairvoyant's, on average and at the most; None where
    the clairvoyant's are the best, as far as a grid shows."""
    truth: Truths = AS_SAID  # how the job really differed from its file, the same for all runs from a start
    sight: str = ""
    """What a job that may move saw of other pools: `feed` or `tried`; empty where jobs stay in their pool."""
    fixed: tuple[PolicySummary, ...] = ()
    """Where a job may move: every policy that stays, and the clairvoyant, in every pool."""

    @property
    def roams(self) -> bool:
        return bool(self.sight)


@dataclass(frozen=True, slots=True)
class Forecasts:
    """How far off forecasters would have been on each pool of a market."""

    market: Market
    warmup_share: float  # the share of the market, at its start, that was learned from and not scored
    pools: tuple[Scores, ...]

    @property
    def overall(self) -> Scores:
        return overall(self.pools)

    @property
    def summary(self) -> Scores:
        """The mean scores of all pools; of a single pool its own, under its own name."""
        return self.overall if len(self.pools) > 1 else self.pools[0]
