"""What to simulate of a fleet on a market: its file, its jobs, and what is to be different."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from slacktide.app.fleets.jobs_question import JobsQuestion
from slacktide.app.markets.market import MarketSpec
from slacktide.budget.allowance import Allowance
from slacktide.core.errors import InputError, shown
from slacktide.files.fleet.keys import short_budget
from slacktide.market.base import Market


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetQuestion(JobsQuestion):
    """Jobs on a market: also which one, from when on and for how long."""

    market: MarketSpec = field(default_factory=MarketSpec)
    start: int | None = None
    """The slot of the market in which hour 0 is; None: that of the jobs' dates, or the first."""
    hours: float | None = None
    """Jobs that come later are left out."""
    periods: float | None = None
    """The same in periods of the budget; None of both: one period, or all jobs where they are fewer."""
    bound: bool = False
    """Whether to work out a mean response that no allocator can beat, too; a minute or so for a month."""

    @property
    def allowance(self) -> Allowance:
        """What may be spent in each period; raises InputError for a budget in GPUs."""
        found = self.file.allowance
        if self.budget is not None:
            try:
                found = short_budget(self.budget).allowance
            except InputError as error:
                raise InputError(f"--budget: {error}") from error
        if found is None:
            came = shown(self.budget or self.file.budget)
            must = "with a market a budget must be money per period, such as 20000 usd/month"
            raise InputError(f"{must}, got {came}")
        return found

    def open_market(self) -> Market:
        """Open the market; only one pool of it where one is named."""
        market, pool = self.market.open(self.file.market), self.market.pool
        return market if pool is None else replace(market, pools=(market.pool(pool),))
