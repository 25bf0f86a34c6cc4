"""The price of money: what an hour of waiting is worth, so that the budget lasts for its period.

The work that is left and the work that will come have to be paid with the money that is left: that is a
price for a GPU-hour of work. A curve says what a GPU-hour of work costs at each price of an hour of waiting,
between the prices of spot and of on demand:

    u(h) = p + (q - p) * 0.6 * (h / q) ** (1 / 2.6)

and its level is corrected by what was paid beside what the curve says of the same work. The curve is that of
simulated fleets, scarce and not; what it does not know of a fleet is in the level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from slacktide.deciding import FleetView
from slacktide.site.kinds import work_of

MIDDLE_SHARE, POWER = 0.6, 2.6
"""At an hour worth q, work costs this share of the way from spot to on demand; and how that grows."""
MEMORY_HOURS = 120.0
"""For how long what was paid counts, roughly."""
PRIOR_HOURS = 24.0
"""For this long the curve is taken to have been right already."""
RATE_PRIOR_HOURS = 4.0
"""For this long as much work is taken to have come as the budget pays for ..."""
MEANT_SHARE = 0.35
"""... at a price this share of the way from spot to on demand."""
LEAST_WINDOW_HOURS, MOST_WINDOW_HOURS = 24.0, 168.0
"""Over at least this time money is spread near the end of a period, with that of the next; and at most."""
STEP, FIRST_STEP, SETTLES_HOURS = 0.05, 0.15, 12.0
"""How far the logarithm of the price may move in an hour; farther in the first hours."""
LAG_HOURS = 4.0
"""Work is paid at widths that were chosen at the prices of this long ago, roughly."""
LEAST_SHARE, MOST_SHARE = 0.02, 3.0
"""The price of an hour stays where work costs between these shares of the middle."""


@dataclass(slots=True)
class Pacing:
    """Finds the price of an hour of waiting from what has come, what was done and what was paid."""

    log_hour_usd: float = math.nan
    """The logarithm of the price; not a number before the first time."""
    lagging: float = 0.0
    """The same, as it was when the present widths were chosen."""
    at_hours: float = 0.0
    next_id: int = 0
    """Jobs up to this number have been counted."""
    came_gpu_hours: float = 0.0
    done_gpu_hours: float = 0.0
    ever_usd: float = 0.0
    paid_usd: float = 0.0
    """What was paid lately; what is long past counts less."""
    curve_usd: float = 0.0
    """What the curve says that the same work costs."""

    def hour_usd(self, view: FleetView, spot_usd: float, on_demand_usd: float) -> float:
        """Return what an hour of waiting is worth now, at these prices of GPUs."""
        assert view.site is not None
        curve = Curve(spot_usd, max(on_demand_usd, spot_usd * 1.01, 1e-6))
        first = math.isnan(self.log_hour_usd)
        if first:
            self.log_hour_usd = self.lagging = curve.log_hour_usd(curve.meant_usd)
        self._count(view, curve)
        money, hours = view.site.money, view.now_hours - self.at_hours
        if math.isfinite(money.budget_usd) and (hours > 0.0 or first):
            goal = curve.log_hour_usd(self._wanted_usd(view, curve) / self._level(view))
            step = (STEP + FIRST_STEP * math.exp(-view.now_hours / SETTLES_HOURS)) * hours
            self.log_hour_usd += min(max(goal - self.log_hour_usd, -step), step)
        self.at_hours = max(self.at_hours, view.now_hours)
        return math.exp(self.log_hour_usd)

    def _count(self, view: FleetView, curve: Curve) -> None:
        """Take in what came, was done and was paid since the last time."""
        assert view.site is not None
        jobs, site = view.site.jobs, view.site
        work = work_of(site.kinds, jobs)
        self.came_gpu_hours += float(work[view.jobs.ids >= self.next_id].sum())
        self.next_id = max(self.next_id, int(view.jobs.ids.max(initial=-1)) + 1)
        done = self.came_gpu_hours - float((work - jobs.progress_gpu_hours).sum())
        ever = site.money.ever_usd
        hours = max(view.now_hours - self.at_hours, 0.0)
        fades, lags = math.exp(-hours / MEMORY_HOURS), math.exp(-hours / LAG_HOURS)
        self.lagging = lags * self.lagging + (1.0 - lags) * self.log_hour_usd
        more = done - self.done_gpu_hours
        self.paid_usd = self.paid_usd * fades + ever - self.ever_usd
        self.curve_usd = max(self.curve_usd * fades + more * curve.usd(self.lagging), 0.0)
        self.done_gpu_hours, self.ever_usd = done, ever

    def _level(self, view: FleetView) -> float:
        """Return what was paid over what the curve says of it."""
        assert view.site is not None
        known = PRIOR_HOURS * view.site.money.usd_per_hour
        return (self.paid_usd + known) / (self.curve_usd + known)

    def _wanted_usd(self, view: FleetView, curve: Curve) -> float:
        """Return what a GPU-hour of work may cost for the money to last."""
        assert view.site is not None
        money, now = view.site.money, view.now_hours
        meant = RATE_PRIOR_HOURS * money.usd_per_hour / curve.meant_usd
        rate = (meant + self.came_gpu_hours) / (RATE_PRIOR_HOURS + now)
        until = money.until_hours - now if math.isfinite(money.until_hours) else LEAST_WINDOW_HOURS
        window = min(max(until, LEAST_WINDOW_HOURS), MOST_WINDOW_HOURS)
        usd = money.left_usd + money.usd_per_hour * (window - until)
        left = self.came_gpu_hours - self.done_gpu_hours
        return max(usd, 0.0) / (left + rate * window)

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


class Curve(NamedTuple):
    """What a GPU-hour of work costs at each price of an hour of waiting."""

    spot_usd: float
    on_demand_usd: float

    @property
    def meant_usd(self) -> float:
        """What a budget is taken to be meant for, before anything was seen."""
        return self.spot_usd + MEANT_SHARE * (self.on_demand_usd - self.spot_usd)

    def usd(self, log_hour_usd: float) -> float:
        """Return what a GPU-hour of work costs where an hour of waiting is worth this."""
        share = MIDDLE_SHARE * math.exp((log_hour_usd - math.log(self.on_demand_usd)) / POWER)
        return self.spot_usd + (self.on_demand_usd - self.spot_usd) * share

    def log_hour_usd(self, work_usd: float) -> float:
        """Return the logarithm of the price of an hour at which a GPU-hour of work costs this."""
        share = (work_usd - self.spot_usd) / (self.on_demand_usd - self.spot_usd) / MIDDLE_SHARE
        share = min(max(share, LEAST_SHARE), MOST_SHARE)
        return math.log(self.on_demand_usd) + POWER * math.log(share)
