"""Budget pacing: finds what an hour of waiting is worth, so that the budget lasts for its period.

The work that is left and the work that will come must be paid with the money that is left: this gives a price
for a GPU-hour of work. A curve says what a GPU-hour of work costs at each price h of an hour of waiting,
between the prices p of spot and q of on demand:

    u(h) = p + (q - p) * (a + 0.28 * (h / q) ** (1 / 2))

Its shape is that of simulated fleets, with scarce spot and with plenty. Its beginning `a`, what work costs
above spot if waiting is worth nothing (deadlines, restarts, spot that is gone), is learned from what was
paid. The work to come is learned from the jobs that came; the prior is what the fleet file promises, and
counts longer in a burstier stream.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from slacktide.allocators.site.job_tables import work_of
from slacktide.allocators.view import FleetView
from slacktide.budget.estimates.rates import ArrivalRate
from slacktide.budget.fleet import Fleet

GROWTH_SHARE, POWER = 0.28, 2.0
"""The constant and the root of the curve: how it grows with the price of an hour."""
FIRST_SHARE = 0.1  # the prior of the share `a` ...
PRIOR_HOURS = 24.0
"""... which counts as much as the work that the budget pays for in this many hours."""
MEMORY_HOURS = 120.0  # for how long what was paid counts, roughly
MEANT_Q = 0.25  # a budget is assumed to be meant for an hour of waiting worth this share of q
PRIOR_JOBS, PROMISED_JOBS = 30.0, 100.0
"""How many jobs the prior of the work to come counts as: the rate that such a budget pays for, or the rate in
the fleet file. In bursty streams more, in proportion to the dispersion of their counts."""
LEAST_WINDOW_HOURS = 24.0
"""Money is spread over at least this time: near the end of a period, together with that of the next."""
STEP, FIRST_STEP, SETTLES_HOURS = 0.03, 0.05, 12.0
"""How far the logarithm of the price may move in an hour; farther in the first hours."""
LAG_HOURS = 4.0  # roughly how long ago the widths that are paid for now were chosen
LEAST_Q, MOST_Q = 0.02, 20.0
"""The price of an hour stays between these multiples of q: beyond, it hardly changes what is paid."""


class Promised(NamedTuple):
    """How many jobs, and how much work, a fleet file says will arrive per hour."""

    jobs: float
    gpu_hours: float

    @classmethod
    def of(cls, fleet: Fleet | None) -> Promised | None:
        """Return the sums over a fleet's classes; None without a fleet."""
        if fleet is None:
            return None
        jobs = sum(one.arrivals_per_hour for one in fleet.classes)
        return cls(jobs, sum(one.arrivals_per_hour * one.work_gpu_hours for one in fleet.classes))


@dataclass(slots=True)
class Pacing:
    """Finds the price of an hour of waiting from what has come, what was done and what was paid."""

    promised: Promised | None = None
    log_hour_usd: float = math.nan  # the logarithm of the price; NaN before the first decision
    lagging: float = 0.0  # the same, as it was when the present widths were chosen
    at_hours: float = 0.0
    next_id: int = 0  # jobs up to this number have been counted
    arrivals: ArrivalRate = field(default_factory=ArrivalRate)
    came_gpu_hours: float = 0.0
    done_gpu_hours: float = 0.0
    ever_usd: float = 0.0
    lately_gpu_hours: float = 0.0  # recent work; what is long past counts less
    above_usd: float = 0.0  # what was paid for it beyond what the curve says without `a`

    def hour_usd(self, view: FleetView, spot_usd: float, on_demand_usd: float) -> float:
        """Return what an hour of waiting is worth now, at these prices of GPUs."""
        assert view.site is not None
        curve = WorkCostCurve(spot_usd, max(on_demand_usd, spot_usd * 1.01, 1e-6))
        first = math.isnan(self.log_hour_usd)
        if first:
            self.log_hour_usd = self.lagging = math.log(MEANT_Q * curve.on_demand_usd)
        self._count(view, curve)
        money, hours = view.site.money, view.now_hours - self.at_hours
        if math.isfinite(money.budget_usd) and (hours > 0.0 or first):
            goal = curve.log_hour_usd(self._wanted_usd(view, curve) - self._beginning_usd(view, curve))
            step = (STEP + FIRST_STEP * math.exp(-view.now_hours / SETTLES_HOURS)) * hours
            self.log_hour_usd += min(max(goal - self.log_hour_usd, -step), step)
        self.at_hours = max(self.at_hours, view.now_hours)
        return math.exp(self.log_hour_usd)

    def _count(self, view: FleetView, curve: WorkCostCurve) -> None:
        """Take in what came, was done and was paid since the last time."""
        assert view.site is not None
        jobs, site = view.site.jobs, view.site
        work, is_new = work_of(site.kinds, jobs), view.jobs.ids >= self.next_id
        self.came_gpu_hours += float(work[is_new].sum())
        for hours in sorted(jobs.submitted_hours[is_new].tolist()):
            self.arrivals.arrived(hours)
        self.next_id = max(self.next_id, int(view.jobs.ids.max(initial=-1)) + 1)
        done = self.came_gpu_hours - float((work - jobs.progress_gpu_hours).sum())
        self._pay(max(view.now_hours - self.at_hours, 0.0), done, site.money.ever_usd, curve)

    def _pay(self, hours: float, done: float, ever_usd: float, curve: WorkCostCurve) -> None:
        """Compare what was paid with what the curve says of the work that was done for it."""
        fades, lags = math.exp(-hours / MEMORY_HOURS), math.exp(-hours / LAG_HOURS)
        self.lagging = lags * self.lagging + (1.0 - lags) * self.log_hour_usd
        more = done - self.done_gpu_hours
        above = ever_usd - self.ever_usd - more * curve.usd(self.lagging)
        self.lately_gpu_hours = max(self.lately_gpu_hours * fades + more, 0.0)
        self.above_usd = self.above_usd * fades + above
        self.done_gpu_hours, self.ever_usd = done, ever_usd

    def _beginning_usd(self, view: FleetView, curve: WorkCostCurve) -> float:
        """Return what a GPU-hour of work costs above spot if waiting is worth nothing: `a` in USD."""
        assert view.site is not None
        known = PRIOR_HOURS * view.site.money.usd_per_hour / curve.meant_usd
        return (self.above_usd + known * curve.first_usd) / (self.lately_gpu_hours + known)

    def _wanted_usd(self, view: FleetView, curve: WorkCostCurve) -> float:
        """Return what a GPU-hour of work may cost for the money to last."""
        assert view.site is not None
        money, now = view.site.money, view.now_hours
        until = money.until_hours - now if math.isfinite(money.until_hours) else LEAST_WINDOW_HOURS
        window = max(until, LEAST_WINDOW_HOURS)
        usd = money.left_usd + money.usd_per_hour * (window - until)
        left = self.came_gpu_hours - self.done_gpu_hours
        return max(usd, 0.0) / (left + self._coming(view, curve) * window)

    def _coming(self, view: FleetView, curve: WorkCostCurve) -> float:
        """Return how much work comes in an hour, as far as is known."""
        assert view.site is not None
        now, count = view.now_hours, self.arrivals.count
        if self.promised is not None:
            first, jobs, rate = self.promised.gpu_hours, PROMISED_JOBS, self.promised.jobs
        else:
            first, jobs = view.site.money.usd_per_hour / curve.meant_usd, PRIOR_JOBS
            rate = (count + 1.0) / (now + 1.0)
        if count == 0 or not now > 0.0:
            return first
        known = jobs * self.arrivals.dispersion / rate
        seen = self.arrivals.per_hour(now) * self.came_gpu_hours / count
        return (known * first + now * seen) / (known + now)

    def remember(self) -> Mapping[str, Any]:
        """Return all of it as JSON values, except what the fleet file says."""
        known = asdict(self)
        del known["promised"]
        known["arrivals"] = self.arrivals.remember()
        known["log_hour_usd"] = None if math.isnan(self.log_hour_usd) else self.log_hour_usd
        return known

    def recalled(self, memory: Mapping[str, Any]) -> Pacing:
        """Return what was written down, of the same fleet."""
        arrivals, log = ArrivalRate(), memory["log_hour_usd"]
        arrivals.recall(memory["arrivals"])
        known = {**memory, "arrivals": arrivals, "log_hour_usd": math.nan if log is None else log}
        return Pacing(promised=self.promised, **known)


class WorkCostCurve(NamedTuple):
    """What a GPU-hour of work costs at each price of an hour of waiting: the module's curve without `a`."""

    spot_usd: float
    on_demand_usd: float

    @property
    def first_usd(self) -> float:
        """The prior of `a`, in USD."""
        return FIRST_SHARE * (self.on_demand_usd - self.spot_usd)

    @property
    def meant_usd(self) -> float:
        """What a GPU-hour of work is assumed to cost before anything was seen: the budget is meant for it."""
        return self.first_usd + self.usd(math.log(MEANT_Q * self.on_demand_usd))

    def usd(self, log_hour_usd: float) -> float:
        """Return what a GPU-hour of work costs if an hour of waiting is worth this."""
        share = GROWTH_SHARE * math.exp((log_hour_usd - math.log(self.on_demand_usd)) / POWER)
        return self.spot_usd + (self.on_demand_usd - self.spot_usd) * share

    def log_hour_usd(self, work_usd: float) -> float:
        """Return the logarithm of the price of an hour at which a GPU-hour of work costs this."""
        share = max(work_usd - self.spot_usd, 0.0) / (self.on_demand_usd - self.spot_usd) / GROWTH_SHARE
        return math.log(self.on_demand_usd * min(max(share**POWER, LEAST_Q), MOST_Q))
