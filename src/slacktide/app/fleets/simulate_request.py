"""What to simulate of a fleet: its file, its jobs, the market or the machines that they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from slacktide.allocators.view import AnyAllocator
from slacktide.app.markets.market import MarketSpec
from slacktide.budget.allowance import Allowance
from slacktide.core.errors import InputError, shown
from slacktide.core.own_class import Spec
from slacktide.files.fleet.fleet import FleetFile, read_fleet_file
from slacktide.files.fleet.keys import short_budget
from slacktide.market.base import Market

OF_MACHINES = {
    "node_gpus": "--node-gpus", "provisioning_hours": "--provisioning", "idle_grace_hours": "--idle-grace",
}  # fmt: skip
"""What only machines at one price have, which are rented in nodes."""
OF_MARKETS = {"start": "--start", "hours": "--hours", "periods": "--periods", "bound": "--bound"}
"""What only a simulation on a market can be limited by or compared with ..."""
OF_POOLS = {
    "pool": "--pool", "slot_hours": "--slot", "spot_usd": "--spot-usd", "on_demand_usd": "--on-demand-usd",
}  # fmt: skip
"""... and how a market is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateRequest:
    """A fleet file, and what is to be different from it.

    Jobs run on a market of spot and on-demand GPUs where the file or the request names one, else on machines
    at one price.
    """

    file: FleetFile
    jobs: str | None = None  # a table of past jobs; None: jobs are drawn from the classes
    count: int | None = None
    """How many jobs to draw; None: the usual number, or with a market as many as come in its time."""
    arrivals: str | None = None
    sizes: str | None = None
    seed: int = 0
    budget: str | None = None  # instead of the file's
    policies: Sequence[Spec | AnyAllocator] = ()  # empty: the usual ones
    node_gpus: int | None = None
    provisioning_hours: float | None = None
    idle_grace_hours: float | None = None
    market: MarketSpec = field(default_factory=MarketSpec)
    start: int | None = None
    """The slot of the market in which hour 0 is; None: that of the jobs' dates, or the first."""
    hours: float | None = None  # jobs that come later are left out
    periods: float | None = None
    """The same in periods of the budget; None of both: one period, or all jobs where they are fewer."""
    bound: bool = False
    """Whether to work out a mean response that no allocator can beat, too; a minute or so for a month."""

    @property
    def on_market(self) -> bool:
        """Whether the jobs share a market; otherwise they run on machines at one price."""
        return self.market.named(self.file.market) is not None

    def check_options(self) -> None:
        """Raise InputError for what has no meaning with a market, or without one."""
        if self.on_market:
            for name, option in OF_MACHINES.items():
                if getattr(self, name) is not None:
                    must = f"{option} must not be given with a market, whose GPUs come one by one"
                    raise InputError(must)
            return
        for given, options in ((self, OF_MARKETS), (self.market, OF_POOLS)):
            for name, option in options.items():
                if getattr(given, name):
                    raise without_market(option)

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


def without_market(option: str) -> InputError:
    """Return the error of an option that needs a market, where there is none."""
    return InputError(f"{option} must come with a market, got none; name --market, or 'market:' in the file")


__all__ = ["SimulateRequest", "read_fleet_file", "without_market"]
