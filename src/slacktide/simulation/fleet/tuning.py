"""The result of an allocator at a given spend: found by search on a stream, in hindsight on a market.

On a stream one number is tuned run by run (`Tuner`). On a market all settings of a grid are run, and the best
mixture of two of these runs counts as what the allocator could have had (`best_at`). An allocator that has
neither a knob nor settings keeps to the budget by itself, or runs as it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from slacktide.allocators.base import allocators
from slacktide.allocators.streams.fixed_width import FixedWidth
from slacktide.allocators.streams.one_width import OneWidth
from slacktide.allocators.view import AnyAllocator
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream
from slacktide.budget.widths import least_budget_gpus
from slacktide.results.fleet import Measured
from slacktide.results.stream import StreamRun
from slacktide.simulation.fleet.run import simulate
from slacktide.simulation.fleet.settled import is_independent


class Knob(NamedTuple):
    """A family of allocators with one number: the greater it is, the more is spent."""

    make: Callable[[float], AnyAllocator]
    low: float
    high: float
    whole: bool  # whether the number must be whole


def knobs_of(name: str, fleet: Fleet) -> list[Knob]:
    """Return the variants of an allocator, each with one knob; none where it has no knob."""
    find = KNOBS.get(name) or getattr(allocators.get(name), "knobs", None)
    return find(fleet) if find else []


def _fixed_width(fleet: Fleet) -> list[Knob]:
    least = least_budget_gpus(fleet.classes) * (1 + 1e-9)
    most = max(_most_gpus(fleet), 2 * least)
    return [Knob(lambda budget: FixedWidth(float(budget)), least, most, False)]


def _one_width(fleet: Fleet) -> list[Knob]:
    widest = max(one.widths[-1] for one in fleet.classes)
    return [Knob(lambda gpus: OneWidth(int(gpus)), 1, widest, True)]


KNOBS: Mapping[str, Callable[[Fleet], list[Knob]]] = {
    "fixed-width": _fixed_width,
    "one-width": _one_width,
}
"""Knobs of the allocators here; one of another package may have a method `knobs(fleet)`."""


MARKET_SETTINGS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "patient-spot": {"width": (1, 2, 4, 8), "wait_hours": (0.0, 0.5, 1.0, 2.0, 4.0, 12.0)},
}
"""Allocators here that do not look at the budget, and the settings that are tried of each; one of another
package may have an attribute `tried_settings`."""


def settings_of(name: str) -> list[dict[str, Any]]:
    """Return all settings of an allocator that is tuned; none for one that is not."""
    ranges = MARKET_SETTINGS.get(name) or getattr(allocators.get(name), "tried_settings", {})
    return [dict(zip(ranges, values, strict=True)) for values in product(*ranges.values())] if ranges else []


def _most_gpus(fleet: Fleet) -> float:
    """Return the GPUs on average that all jobs at their fastest take, with a restart in every phase."""
    stages = fleet.stages
    fastest = np.argmax(stages.rate, axis=1)
    arrivals = np.repeat([one.arrivals_per_hour for one in fleet.classes], np.diff(stages.first))
    hours = stages.work_gpu_hours / stages.rate[np.arange(len(fastest)), fastest] + stages.restart_hours
    return float((arrivals * fastest * hours).sum())


TOLERANCE = 1e-3  # how far from a target spending may be, as a share of it
LOOKS = 9  # how many values of a knob are tried where spending need not rise with it ...
LOOK_FAR = 3.0
"""... up to this multiple of the target ..."""
HALVINGS = 6
"""... and how often the best one's neighbourhood is then halved."""


@dataclass(slots=True)
class Tuner:
    """The runs of one knob on one stream; they are kept and used again for the next target."""

    knob: Knob
    stream: Stream
    fleet: Fleet
    runs: dict[float, StreamRun] = field(default_factory=dict)

    def run(self, value: float) -> StreamRun:
        if value not in self.runs:
            self.runs[value] = simulate(self.stream, self.fleet, self.knob.make(value))
        return self.runs[value]

    def nearest(
        self, average_gpus: float, start: float, *, tolerance: float = TOLERANCE, tries: int = 12
    ) -> tuple[float, StreamRun]:
        """Return the value, and its run, whose realised average is nearest to a target.

        False position between the nearest runs below and above; spending rises with the knob.
        """
        value = self._allowed(start)
        for _ in range(tries):
            spent = self.run(value).average_gpus
            if abs(spent / average_gpus - 1.0) <= tolerance:
                break
            following = self._following(average_gpus, value)
            if following in self.runs:
                break
            value = following
        best = min(self.runs, key=lambda value: abs(self.runs[value].average_gpus - average_gpus))
        return best, self.runs[best]

    def spending(self, average_gpus: float) -> StreamRun | None:
        """Return the run that spends a target, or as little less as can be found."""
        if is_independent(self.fleet):
            return self.nearest(average_gpus, average_gpus, tolerance=1e-6, tries=60)[1]
        return self.best_within(average_gpus)

    def best_within(self, average_gpus: float) -> StreamRun | None:
        """Return the run with the least mean response within a spend; None where all spend more.

        With nodes spending need not rise with the knob, so values all over the range are tried first; then
        the distance from the best one to the next that spends too much is halved a few times.
        """
        most = average_gpus * (1.0 + TOLERANCE)
        for value in np.geomspace(self.knob.low, min(self.knob.high, LOOK_FAR * average_gpus), LOOKS):
            self.run(float(value))
        for _ in range(HALVINGS):
            best = self._best(most)
            over = [value for value in self.runs if best is not None and value > best]
            if best is None or not over or self.runs[min(over)].average_gpus <= most:
                break
            self.run((best + min(over)) / 2)
        best = self._best(most)
        return None if best is None else self.runs[best]

    def _best(self, most_gpus: float) -> float | None:
        fitting = [value for value, run in self.runs.items() if run.average_gpus <= most_gpus]
        return min(fitting, key=lambda value: self.runs[value].mean_response_hours, default=None)

    def _following(self, average_gpus: float, value: float) -> float:
        spent = {tried: run.average_gpus for tried, run in self.runs.items()}
        below = max((tried for tried in spent if spent[tried] <= average_gpus), default=None)
        above = min((tried for tried in spent if spent[tried] > average_gpus), default=None)
        if below is None:
            assert above is not None
            return self._allowed((self.knob.low + above) / 2 if above > self.knob.low else above)
        if above is None:
            return self._allowed(min(self.knob.high, max(2 * below, below + self.knob.high / 16)))
        share = (average_gpus - spent[below]) / (spent[above] - spent[below])
        # Never close to an end: on a bent curve the steps would become too short.
        guess = below + (above - below) * min(max(share, 0.1), 0.9)
        if self.knob.whole and round(guess) in (below, above) and above - below > 1:
            guess = (below + above) // 2
        return self._allowed(guess)

    def _allowed(self, value: float) -> float:
        value = min(max(value, self.knob.low), self.knob.high)
        return float(round(value)) if self.knob.whole else value


class Mixture(NamedTuple):
    """Two runs of an allocator, and the share of the second between them."""

    low: int
    high: int
    share: float

    def of(self, runs: Sequence[Measured]) -> Measured:
        """Return the figures between the two runs, each interpolated on a straight line."""
        pairs = zip(runs[self.low], runs[self.high], strict=True)
        return Measured(*(one + self.share * (other - one) for one, other in pairs))

    @property
    def nearest(self) -> int:
        return self.low if self.share < 0.5 else self.high


def best_at(runs: Sequence[Measured], usd: float) -> Mixture:
    """Return the two runs whose mixture has the least mean response at a spend, in hindsight.

    Runs that miss more hard deadlines, or leave more jobs undone, than the best do not count. Where all that
    count spend more, the cheapest is taken; where all spend less, the one with the least mean.
    """
    worst = [(run.late, run.unfinished) for run in runs]
    places = [place for place, missed in enumerate(worst) if missed == min(worst)]
    below = [place for place in places if runs[place].spent_usd <= usd]
    above = [place for place in places if runs[place].spent_usd > usd]
    if not below:
        cheapest = min(above, key=lambda place: runs[place].spent_usd)
        return Mixture(cheapest, cheapest, 0.0)
    best = min(below, key=lambda place: _mean(runs[place]))
    mixtures = [Mixture(best, best, 0.0)]
    for low, high in product(below, above):
        between = runs[high].spent_usd - runs[low].spent_usd
        mixtures.append(Mixture(low, high, (usd - runs[low].spent_usd) / between))
    return min(mixtures, key=lambda mixture: _mean(mixture.of(runs)))


def _mean(run: Measured) -> float:
    return math.inf if math.isnan(run.mean_hours) else run.mean_hours
