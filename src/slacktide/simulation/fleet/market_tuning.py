"""What allocators on a market are tuned by, and what the best of their settings come to at a given spend."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.results.fleets.fleet import FleetRun
from slacktide.results.fleets.fleet_comparison import Measured

TUNED_BY: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "patient-spot": {"width": (1, 2, 4, 8), "wait_hours": (0.0, 0.5, 1.0, 2.0, 4.0, 12.0)},
    "each-alone": {"width": (1, 2, 4, 8)},
    "earliest-deadline": {"width": (1, 2, 4, 8)},
    "on-demand-widths": {"usd_per_job_hour": (1.0, 3.0, 10.0, 30.0, 100.0)},
}
"""Allocators that do not look at the budget, and the settings that are tried of each."""


def settings_of(name: str) -> list[dict[str, Any]]:
    """Return all settings of an allocator that is tuned; none for one that is not."""
    ranges = TUNED_BY.get(name, {})
    return [dict(zip(ranges, values, strict=True)) for values in product(*ranges.values())] if ranges else []


def measured(run: FleetRun) -> Measured:
    """Sum up a run."""
    due = ~run.best_effort & run.admitted
    in_time = run.finish_hours <= run.deadline_hours + TIME_TOLERANCE_HOURS
    served = run.best_effort & run.admitted
    done = np.isfinite(run.finish_hours)
    hours = run.response_hours[served & done]
    ranked = np.sort(hours)
    return Measured(
        mean_hours=float(hours.mean()) if len(hours) else math.nan,
        p95_hours=float(ranked[-(-95 * len(ranked) // 100) - 1]) if len(hours) else math.nan,
        met=int((due & in_time).sum()),
        late=len(run.late),
        refused=len(run.refused),
        unfinished=int((served & ~done).sum()),
        spent_usd=run.spent_usd,
        on_demand_share=run.on_demand_share,
    )


class Mixture(NamedTuple):
    """Two runs of an allocator, and the share of the second between them."""

    low: int
    high: int
    share: float

    def of(self, runs: Sequence[Measured]) -> Measured:
        """Return what lies between them; each figure on the straight line from one to the other."""
        pairs = zip(runs[self.low], runs[self.high], strict=True)
        return Measured(*(one + self.share * (other - one) for one, other in pairs))

    @property
    def nearest(self) -> int:
        """The one of the two that is nearer."""
        return self.low if self.share < 0.5 else self.high


def best_at(runs: Sequence[Measured], usd: float) -> Mixture:
    """Return the runs between which the mean response is least at a spend, in hindsight.

    Runs that miss more hard deadlines, or leave more jobs undone, than the best do not count. Where all that
    count spend more, the cheapest is taken; where all spend less, the one of the least mean.
    """
    worst = [(run.late, run.unfinished) for run in runs]
    places = [place for place, missed in enumerate(worst) if missed == min(worst)]
    below = [place for place in places if runs[place].spent_usd <= usd]
    above = [place for place in places if runs[place].spent_usd > usd]
    if not below:
        cheapest = min(above, key=lambda place: runs[place].spent_usd)
        return Mixture(cheapest, cheapest, 0.0)
    best = min(below, key=lambda place: _mean(runs[place]))
    found = [Mixture(best, best, 0.0)]
    for low, high in product(below, above):
        between = runs[high].spent_usd - runs[low].spent_usd
        found.append(Mixture(low, high, (usd - runs[low].spent_usd) / between))
    return min(found, key=lambda one: _mean(one.of(runs)))


def _mean(run: Measured) -> float:
    return math.inf if math.isnan(run.mean_hours) else run.mean_hours
