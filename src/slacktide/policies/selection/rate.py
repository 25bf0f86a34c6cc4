"""How fast Hedge learns: the rate η with which past utilities sharpen its weights.

Each rate comes with the regret it can never pass (uniform prior, feedback at once, K jobs, M arms):

| rate | η of a job | worst regret |
|---|---|---|
| fixed | √(8 ln M / K), K known beforehand | √(K ln M / 2) after K jobs |
| anytime | √(8 ln M / k) for the k-th job | 1.5 √(K ln M / 2) after any K |
| adaptive | ln M / (0.1 + Δ), Δ = sum of the mixability gaps so far | √(S ln M) + 2.1, S ≤ K |

Real policies earn nearly the same from most jobs, and a hopeless one is so from the start: far from the
worst case, for which the first two rates are made. The mixability gap of a job (`hedge` defines it) is
what drawing an arm cost beyond what a learner that mixes all of them would have paid; `adaptive` slows down
only as such costs come up (AdaHedge: de Rooij et al., JMLR 2014). S is the sum of the squared spreads of
each job's utilities. Why the bound holds: a gap is at most η s²/8 and at most 1, so
Δ_k² − Δ_{k−1}² = (2 Δ_{k−1} + gap) gap ≤ s² ln M / 4 + gap, which sums to Δ ≤ √(S ln M) / 2 + 1; and the
regret is at most ln M / η + Δ ≤ 0.1 + 2 Δ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from slacktide.core.errors import InputError, unknown_name

CAUTION = 0.1
"""What the adaptive rate takes the gaps to be before the first one: it should not believe a single job."""


class LearningRate(Protocol):
    """The rate of the next job, from what has ended so far; it never grows."""

    def eta(self, arms: int, ended: int, gap: float) -> float:
        """Return η for `arms` arms after `ended` jobs whose mixability gaps sum to `gap`."""
        ...

    def worst_regret(self, arms: int, ended: int) -> float:
        """Return the regret that no sequence of utilities can pass, with a uniform prior and no delay."""
        ...


@dataclass(frozen=True, slots=True)
class FixedRate:
    """One rate for a number of jobs known beforehand."""

    jobs: int

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InputError(f"jobs must be >= 1, got {self.jobs}")

    def eta(self, arms: int, ended: int, gap: float) -> float:
        return math.sqrt(8.0 * math.log(arms) / self.jobs)

    def worst_regret(self, arms: int, ended: int) -> float:
        return math.sqrt(math.log(arms) / 8.0) * (math.sqrt(self.jobs) + ended / math.sqrt(self.jobs))


@dataclass(frozen=True, slots=True)
class Anytime:
    """A rate that falls with the number of jobs, so that it need not be known."""

    def eta(self, arms: int, ended: int, gap: float) -> float:
        return math.sqrt(8.0 * math.log(arms) / (ended + 1))

    def worst_regret(self, arms: int, ended: int) -> float:
        return 1.5 * math.sqrt(ended * math.log(arms) / 2.0)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """A rate that falls only as the cost of drawing, the sum of the gaps, grows (AdaHedge)."""

    def eta(self, arms: int, ended: int, gap: float) -> float:
        return math.log(arms) / (CAUTION + gap)

    def worst_regret(self, arms: int, ended: int) -> float:
        return math.sqrt(ended * math.log(arms)) + 2.0 + CAUTION


RATES: dict[str, type[FixedRate] | type[Anytime] | type[Adaptive]] = {
    "fixed": FixedRate,
    "anytime": Anytime,
    "adaptive": Adaptive,
}


def written(rate: LearningRate) -> dict[str, Any]:
    """Return a rate as `{name: {parameter: value}}`."""
    assert isinstance(rate, FixedRate | Anytime | Adaptive)
    name = next(name for name, kind in RATES.items() if isinstance(rate, kind))
    return {name: asdict(rate)}


def made(spec: Mapping[str, Any]) -> LearningRate:
    """Make a rate from `{name: {parameter: value}}`; raises InputError for an unknown name."""
    ((name, parameters),) = spec.items()
    if name not in RATES:
        raise InputError(unknown_name("a rate", str(name), RATES))
    return RATES[name](**parameters)
