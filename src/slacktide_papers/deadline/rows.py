"""What experiments return: plain rows, one per point of a curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from slacktide.core.types import Job

ON_DEMAND, MAXIMAL_SPOT, UNIFORM = "on-demand", "maximal-spot", "uniform-progress"
AHAP_ARIMA, AHAP_NOISY, AHANP = "AHAP, ARIMA forecasts", "AHAP, forecasts 10 % off", "AHANP"
HORIZON = "stochastic-horizon"
BASELINES = (ON_DEMAND, MAXIMAL_SPOT, UNIFORM)
PAPER_RATE, OWN_RATE = "paper", "own"
"""Learning rates: the paper's, for a number of jobs known beforehand, and the one `policy: auto` uses."""
SELECTIONS = {PAPER_RATE: "selection, paper's rate", OWN_RATE: "selection, our rate"}
TIGHTNESS, VOLATILITY, NOISE, PARAMETERS = "tightness", "volatility", "noise", "parameters"


class Point(NamedTuple):
    """One series at one place of one panel: means over all runs."""

    experiment: str
    panel: str  # the market or the parameter: points of a panel are drawn together
    x: float
    x_label: str
    series: str  # the policy, with its forecast where that matters
    utility_usd: float
    clairvoyant_usd: float  # the mean utility of the clairvoyant, from the same starts
    share: float  # the one over the other
    share_error: float  # standard error of the share over the starts
    cost_usd: float
    on_time_share: float
    runs: int


class Step(NamedTuple):
    """The online selection after a number of jobs; money is the mean per job so far."""

    scenario: str
    rate: str
    jobs: int
    utility_usd: float  # of the policies drawn
    best_usd: float  # of the one policy that is best over all jobs of the scenario
    pool_usd: float  # the mean of all policies: what drawing blindly would bring
    leader: str
    leader_weight: float
    regret: float  # expected regret in scaled utility against the best fixed policy so far
    rate_bound: float  # what the regret cannot pass with this learning rate
    paper_bound: float  # the square root of (jobs ln arms / 2)


class Chosen(NamedTuple):
    """How a whole scenario of the selection went; money is the mean per job."""

    scenario: str
    rate: str
    jobs: int
    arms: int
    utility_usd: float
    late_utility_usd: float  # over the last quarter of the jobs
    best: str  # the best fixed policy in hindsight
    best_usd: float
    late_best: str  # the policy that is best over the last quarter
    late_best_usd: float
    pool_usd: float
    leader: str
    leader_weight: float
    good_weight: float  # trust in all policies within 1 % of the last quarter's best
    regret: float
    paper_bound: float
    on_demand_usd: float
    maximal_spot_usd: float
    uniform_progress_usd: float


class Gain(NamedTuple):
    """How far a policy's mean utility lies above a baseline's, over the points of the experiments."""

    challenger: str
    baseline: str
    largest: float  # as a share of the baseline's utility
    where: str
    typical: float  # the median over the points
    ahead_share: float  # share of the points where the challenger is ahead
    typical_points: float
    """The median difference as a share of the clairvoyant's utility, which is never near nothing."""
    points: int
    left_out: int  # points where the baseline earns next to nothing, so that a relative gain says nothing


@dataclass(frozen=True, slots=True)
class Reproduction:
    """All results of the deadline experiments, with their settings."""

    seed: int
    quick: bool
    job: Job  # the job of most experiments; others differ in the deadline or in prices
    points: tuple[Point, ...]
    steps: tuple[Step, ...]
    chosen: tuple[Chosen, ...]
    gains: tuple[Gain, ...]
    notes: tuple[str, ...]  # what was left out, and why
