"""What to simulate of a fleet: its file, the jobs that arrive, and the market or machines that they share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from slacktide.allocators.view import AnyAllocator
from slacktide.app.markets.market import MarketSpec
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import Member
from slacktide.budget.stream import draw_stream
from slacktide.core.errors import InputError, shown
from slacktide.core.own_class import Spec
from slacktide.files.fleet.fleet import FleetFile, read_fleet_file
from slacktide.files.fleet.keys import short_budget
from slacktide.files.fleet.recorded_jobs import FleetJobs, read_fleet_jobs
from slacktide.market.base import Market

OF_MACHINES = {
    "node_gpus": "--node-gpus", "provisioning_hours": "--provisioning", "idle_grace_hours": "--idle-grace",
}  # fmt: skip
"""Options that are only for machines at one price, which are rented in nodes."""
OF_MARKETS = {"start": "--start", "hours": "--hours", "periods": "--periods", "bound": "--bound"}
"""Options that are only for a simulation on a market ..."""
OF_POOLS = {
    "pool": "--pool", "slot_hours": "--slot", "spot_usd": "--spot-usd", "on_demand_usd": "--on-demand-usd",
}  # fmt: skip
"""... and those that say how to read the market."""


MOST_JOBS = 200_000  # more jobs than a run of a fleet gets through in an hour
NEARLY = 0.95  # past jobs that cover this share of a period count as covering all of it


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateRequest:
    """A fleet file to simulate, and what replaces its settings.

    Jobs run on a market of spot and on-demand GPUs where the file or the request names one, else on machines
    at one price.
    """

    file: FleetFile
    jobs: str | None = None  # a table of past jobs; None: jobs are drawn from the classes
    count: int | None = None
    """How many jobs to draw; None: the usual number, or on a market as many as come in the hours."""
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
    """The slot of the market in which hour 0 is; None: that of the first job's date, or the first."""
    hours: float | None = None  # jobs that come later are left out
    periods: float | None = None
    """The same in periods of the budget; if both are None: one period, or all jobs if they cover less."""
    bound: bool = False
    """Whether to compute a mean response that no allocator can beat, too: a minute or so for a month."""

    @property
    def on_market(self) -> bool:
        """Whether the jobs share a market; otherwise they run on machines at one price."""
        return self.market.named(self.file.market) is not None

    def check_options(self) -> None:
        """Raise InputError for options that have no meaning with a market, or without one."""
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
    def jobs_from(self) -> str:
        """Where the jobs come from, in words: a file, or how they are drawn."""
        if self.jobs is not None:
            return f"recorded in {Path(self.jobs).name}"
        return f"{self.arrival_law} arrivals and {self.size_law} sizes, seed {self.seed}"

    def check_recorded(self) -> None:
        """Raise InputError for options that have no meaning with a table of past jobs."""
        for name, given in (("count", self.count), ("arrivals", self.arrivals)):
            if given is not None:
                raise InputError(f"--{name} must not be given with --jobs, whose arrivals are recorded")

    @property
    def arrival_law(self) -> str:
        """How arrivals of jobs are drawn."""
        return self.arrivals or self.file.stream.arrivals

    @property
    def size_law(self) -> str:
        """How sizes of jobs are drawn."""
        return self.sizes or self.file.stream.sizes

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
        """Open the market, or only the pool of it that is named."""
        market, pool = self.market.open(self.file.market), self.market.pool
        return market if pool is None else replace(market, pools=(market.pool(pool),))


def without_market(option: str) -> InputError:
    """Return the error for an option that needs a market if there is none."""
    return InputError(f"{option} must come with a market, got none; name --market, or 'market:' in the file")


class FleetArrivals(NamedTuple):
    """The jobs to simulate, and their budget."""

    jobs: tuple[Member, ...]
    hours: float  # the time over which they came
    start: int  # the slot of the market in which hour 0 is
    allowance: Allowance  # its start is the date of hour 0
    left_out: int = 0  # jobs that came later


def arrivals_of(request: SimulateRequest, market: Market) -> FleetArrivals:
    """Return the jobs of a fleet over the requested time, or over one period of its budget."""
    if request.hours is not None and request.periods is not None:
        raise InputError("only one of --hours and --periods may be given, got both")
    recorded = _recorded(request)
    began = recorded.began if recorded else None
    start = _start(request.start, began, market)
    # Hours without a date are counted from the beginning of a month.
    zero = (
        market.pools[0].time(start).astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    )
    date = began or zero
    allowance = replace(request.allowance, start=date)
    until = allowance.period(0.0).until_hours
    period = allowance.period_hours if math.isinf(until) else until
    requested = _requested_hours(request, period)
    if recorded is None:
        # If their number was given, all of them are kept.
        limit = requested if requested is not None or request.count is not None else period
        jobs = _drawn(request, requested, period)
    else:
        jobs = recorded.jobs
        limit = requested or (period if jobs[-1].submitted_hours >= NEARLY * period else None)
    kept = jobs if limit is None else tuple(job for job in jobs if job.submitted_hours < limit)
    if not kept:
        raise InputError(f"at least one job must come in the time simulated, got none in {limit:g} hours")
    left_out = len(jobs) - len(kept) if recorded or request.count is not None else 0
    last = kept[-1].submitted_hours
    # Each job covers one mean gap, the last one, too.
    hours = limit or max(last * (len(kept) + 1) / len(kept), 1.0)
    return FleetArrivals(kept, hours, start, allowance, left_out)


def _recorded(request: SimulateRequest) -> FleetJobs | None:
    if request.jobs is None:
        return None
    request.check_recorded()
    return read_fleet_jobs(request.jobs, request.file.templates, sizes=request.size_law, seed=request.seed)


def _drawn(request: SimulateRequest, requested: float | None, period: float) -> tuple[Member, ...]:
    classes, templates = request.file.classes, request.file.templates
    if not classes:
        raise InputError(
            f"{request.file.path}: jobs must be drawn from classes, got a fleet file without any; name past "
            "jobs with --jobs, or add 'classes:'"
        )
    mean = sum(job_class.arrivals_per_hour for job_class in classes) * (requested or period)
    # Enough to cover a time in which this many jobs come on average, even if they come in bursts.
    sure = math.ceil(1.5 * mean + 30.0 * math.sqrt(mean) + 20.0)
    count = sure if request.count is None else request.count
    if count > MOST_JOBS:
        must = f"at most {MOST_JOBS} jobs must be drawn, got {count}"
        raise InputError(f"{must}; give fewer --hours, or give --count")
    stream = draw_stream(
        classes, count, arrivals=request.arrival_law, sizes=request.size_law, seed=request.seed
    )
    rows = zip(stream.arrival_hours.tolist(), stream.class_index.tolist(), stream.size.tolist(), strict=True)
    return tuple(templates[kind].member(hours, size) for hours, kind, size in rows)


def _requested_hours(request: SimulateRequest, period_hours: float) -> float | None:
    for name, given in (("--hours", request.hours), ("--periods", request.periods)):
        if given is not None and not 0 < given < math.inf:
            raise InputError(f"{name} must be > 0, got {given:g}")
    return request.hours if request.periods is None else request.periods * period_hours


def _start(requested: int | None, began: datetime | None, market: Market) -> int:
    """Return the slot of hour 0: as requested, where the jobs' dates are, or the first."""
    home = market.pools[0]
    if requested is not None and not 0 <= requested < len(home):
        raise InputError(f"--start must be in 0..{len(home) - 1}, the slots of the market, got {requested}")
    if requested is not None or began is None:
        return requested or 0
    slot = math.floor((began - home.start).total_seconds() / 3600.0 / home.slot_hours + 1e-9)
    return slot if 0 <= slot < len(home) else 0


__all__ = ["SimulateRequest", "read_fleet_file", "without_market"]
