"""How fast Hedge learns: the rate η with which past utilities sharpen its weights.

Each rate comes with the regret it can never pass (uniform prior, feedback at once, K jobs, M arms):

| rate | η of a job | worst regret |
|---|---|---|
| fixed | √(8 ln M / K), K known beforehand | √(K ln M / 2) after K jobs |
| anytime | √(8 ln M / k) for the k-th job | 1.5 √(K ln M / 2) after any K |
| spread | √(8 ln M / (1 + S)), S = sum of squared spreads of the utilities so far | the same, with S for K |

Policies differ by cents where the scale is in hundreds of dollars, so the utilities of one job lie close
together; `spread` measures how close, and learns as much faster as that allows, for the same promise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from slacktide.errors import InputError, unknown_name


class Rate(Protocol):
    """The rate of the next job, from what has ended so far; it never grows."""

    def eta(self, arms: int, ended: int, spread: float) -> float:
        """Return η for `arms` arms after `ended` jobs whose squared spreads sum to `spread`."""
        ...

    def worst_regret(self, arms: int, ended: int) -> float:
        """Return the regret that no sequence of utilities can pass, with a uniform prior and no delay."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """One rate for a number of jobs known beforehand."""

    jobs: int

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise InputError(f"jobs must be >= 1, got {self.jobs}")

    def eta(self, arms: int, ended: int, spread: float) -> float:
        return math.sqrt(8.0 * math.log(arms) / self.jobs)

    def worst_regret(self, arms: int, ended: int) -> float:
        return math.sqrt(math.log(arms) / 8.0) * (math.sqrt(self.jobs) + ended / math.sqrt(self.jobs))


@dataclass(frozen=True, slots=True)
class Anytime:
    """A rate that falls with the number of jobs, so that it need not be known."""

    def eta(self, arms: int, ended: int, spread: float) -> float:
        return math.sqrt(8.0 * math.log(arms) / (ended + 1))

    def worst_regret(self, arms: int, ended: int) -> float:
        return 1.5 * math.sqrt(ended * math.log(arms) / 2.0)


@dataclass(frozen=True, slots=True)
class Spread:
    """A rate that falls only as far as the arms have really differed."""

    def eta(self, arms: int, ended: int, spread: float) -> float:
        return math.sqrt(8.0 * math.log(arms) / (1.0 + spread))

    def worst_regret(self, arms: int, ended: int) -> float:
        return 1.5 * math.sqrt(ended * math.log(arms) / 2.0)


RATES: dict[str, type[Fixed] | type[Anytime] | type[Spread]] = {
    "fixed": Fixed,
    "anytime": Anytime,
    "spread": Spread,
}


def written(rate: Rate) -> dict[str, Any]:
    """Return a rate as `{name: {parameter: value}}`."""
    assert isinstance(rate, Fixed | Anytime | Spread)
    return {type(rate).__name__.lower(): asdict(rate)}


def made(spec: Mapping[str, Any]) -> Rate:
    """Make a rate from `{name: {parameter: value}}`; raises InputError for an unknown name."""
    ((name, parameters),) = spec.items()
    if name not in RATES:
        raise InputError(unknown_name("a rate", str(name), RATES))
    return RATES[name](**parameters)
