"""The price of money: what an hour of waiting is worth, so that the budget lasts for its period.

The work that is left and the work that will come have to be paid with the money that is left: that is a
price for a GPU-hour of work. What a GPU-hour of work was paid lately, at the prices of an hour of waiting
that stood then, tells how far that is off; spending grows with a small power of the price of an hour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from slacktide.deciding import FleetView

MEMORY_HOURS = 36.0
"""For how long what was paid counts, roughly."""
ELASTICITY = 0.22
"""Spending grows with this power of what an hour of waiting is worth; measured on simulated fleets."""
RATE_PRIOR_HOURS = 12.0
"""For this long the work that comes is taken to be what the budget is meant for ..."""
PRIOR_PRICE = 2.0
"""... at so many times the price of spot."""
LEAST_WINDOW_HOURS = 36.0
"""Near the end of a period the money is spread over at least this time, with that of the next one."""
MOST_WINDOW_HOURS = 168.0
STEP, FIRST_STEP, SETTLES_HOURS = 0.05, 0.4, 8.0
"""How far the logarithm of the price may move in an hour; farther in the first hours."""
AIM_SHARE = 0.97
"""What is aimed at of the budget; the rest is kept for what cannot be foreseen."""
LEAST_HOUR_USD, MOST_HOUR_USD = 1e-3, 1e5


@dataclass(slots=True)
class Pacing:
    """Finds the price of an hour of waiting from what has come, what was done and what was paid."""

    log_hour_usd: float = math.nan
    """The logarithm of the price; not a number before the first time."""
    at_hours: float = 0.0
    next_id: int = 0
    """Jobs up to this number have been counted."""
    came_gpu_hours: float = 0.0
    done_gpu_hours: float = 0.0
    ever_usd: float = 0.0
    paid_usd: float = 0.0
    """Lately, as `paid_for` and `paid_at`: what is long past counts less."""
    paid_for_gpu_hours: float = 0.0
    paid_at: float = 0.0
    """The sum over the work that was done of the logarithm of the price at which it was done."""

    def hour_usd(self, view: FleetView) -> float:
        """Return what an hour of waiting is worth now."""
        assert view.site is not None
        if math.isnan(self.log_hour_usd):
            self._begin(view)
        self._count(view)
        money, dt = view.site.money, view.now_hours - self.at_hours
        if dt > 0.0 and math.isfinite(money.budget_usd):
            goal = self._goal(view)
            step = (STEP + FIRST_STEP * math.exp(-view.now_hours / SETTLES_HOURS)) * dt
            self.log_hour_usd += min(max(goal - self.log_hour_usd, -step), step)
        self.at_hours = max(self.at_hours, view.now_hours)
        return math.exp(self.log_hour_usd)

    def _begin(self, view: FleetView) -> None:
        """Begin with an hour that is worth what a GPU costs on demand: rich or poor soon shows."""
        assert view.site is not None
        usd = min(pool.quote.on_demand_usd_per_gpu_hour for pool in view.site.pools)
        self.log_hour_usd = math.log(min(max(usd, LEAST_HOUR_USD), MOST_HOUR_USD))

    def _count(self, view: FleetView) -> None:
        """Take in what came, was done and was paid since the last time."""
        assert view.site is not None
        jobs, site = view.site.jobs, view.site
        work = jobs.ends_gpu_hours[np.arange(len(jobs.kind)), site.kinds.phases[jobs.kind] - 1]
        new = view.jobs.ids >= self.next_id
        self.came_gpu_hours += float(work[new].sum())
        self.next_id = max(self.next_id, int(view.jobs.ids.max(initial=-1)) + 1)
        left = float((work - jobs.progress_gpu_hours).sum())
        done, ever = self.came_gpu_hours - left, site.money.ever_usd
        fades = math.exp(-max(view.now_hours - self.at_hours, 0.0) / MEMORY_HOURS)
        more = max(done - self.done_gpu_hours, 0.0)
        self.paid_usd = self.paid_usd * fades + ever - self.ever_usd
        self.paid_for_gpu_hours = self.paid_for_gpu_hours * fades + more
        self.paid_at = self.paid_at * fades + more * self.log_hour_usd
        self.done_gpu_hours, self.ever_usd = done, ever

    def _goal(self, view: FleetView) -> float:
        """Return the logarithm of the price at which the money just lasts."""
        assert view.site is not None
        money, now = view.site.money, view.now_hours
        spot_usd = min(pool.quote.spot_usd_per_gpu_hour for pool in view.site.pools)
        meant = money.usd_per_hour / (PRIOR_PRICE * max(spot_usd, 1e-6))
        rate = (RATE_PRIOR_HOURS * meant + self.came_gpu_hours) / (RATE_PRIOR_HOURS + now)
        until = money.until_hours - now if math.isfinite(money.until_hours) else LEAST_WINDOW_HOURS
        window = min(max(until, LEAST_WINDOW_HOURS), MOST_WINDOW_HOURS)
        usd = AIM_SHARE * money.budget_usd - money.spent_usd + money.usd_per_hour * (window - until)
        left = self.came_gpu_hours - self.done_gpu_hours
        wanted = max(usd, 0.02 * money.usd_per_hour * window) / (left + rate * window)
        # A little is taken to have been paid already: just what is wanted, at the present price.
        some = 0.25 * RATE_PRIOR_HOURS * rate
        paid = (self.paid_usd + some * wanted) / (self.paid_for_gpu_hours + some)
        at = (self.paid_at + some * self.log_hour_usd) / (self.paid_for_gpu_hours + some)
        goal = at + math.log(wanted / max(paid, 1e-9)) / ELASTICITY
        return min(max(goal, math.log(LEAST_HOUR_USD)), math.log(MOST_HOUR_USD))

    def remember(self) -> Mapping[str, Any]:
        """Return all of it as JSON values."""
        known = asdict(self)
        known["log_hour_usd"] = None if math.isnan(self.log_hour_usd) else self.log_hour_usd
        return known

    @classmethod
    def recalled(cls, memory: Mapping[str, Any]) -> Pacing:
        """Return what was written down."""
        log = memory["log_hour_usd"]
        return cls(**{**memory, "log_hour_usd": math.nan if log is None else log})
