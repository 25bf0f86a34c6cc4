"""A simulated fleet: allocators compared at equal spending, on a market or on machines at one price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slacktide.allocators.base import allocators
from slacktide.allocators.view import AnyAllocator
from slacktide.app.fleets.budgets import budget_gpus, check_enough
from slacktide.app.fleets.simulate_request import FleetArrivals, SimulateRequest, arrivals_of
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import Member
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, draw_stream
from slacktide.budget.widths import least_budget_gpus
from slacktide.core.errors import InputError
from slacktide.core.own_class import Spec
from slacktide.core.register import extension
from slacktide.files.fleet.fleet import FleetFile
from slacktide.files.fleet.recorded_jobs import read_jobs
from slacktide.market.base import Market
from slacktide.results.fleet import FleetComparison, FleetMonth, JobFacts
from slacktide.results.stream import StreamComparison
from slacktide.simulation.fleet.comparison import compare_fleet, compare_streams
from slacktide.simulation.fleet.run import Progress
from slacktide.simulation.fleet.scene import FleetScene

DEFAULT_ALLOCATORS: tuple[str, ...] = (
    "fixed-width", "online-width", "one-width", "efficiency-band", "equi", "fifo", "srpt"
)  # fmt: skip
USUAL_JOBS = 20_000
MAX_JOBS = 10_000_000  # more jobs than memory is sure to hold
ON_A_MARKET: tuple[str, ...] = (
    "shadow-prices", "patient-spot", "each-alone", "earliest-deadline", "on-demand-widths"
)  # fmt: skip
"""Allocators for fleets on a market, the default first; those that are not installed are skipped."""

DRAIN_HOURS = 24.0
"""A market that ends sooner than this after the last arrival is repeated, so that the jobs can end."""
CHANGE_USD = 1000.0  # how much less and more money is tried, if that is a share of the budget in this range
TELLING_SHARES = (0.02, 0.2)
CHANGE_SHARE = 0.05  # otherwise this share of the budget is tried


def run_simulation(
    request: SimulateRequest, *, progress: Progress | None = None
) -> StreamComparison | FleetComparison:
    """Run the jobs of a fleet under allocators: on its market if it has one, else at one price."""
    run = simulate_fleet if request.on_market else simulate_stream
    return run(request, progress=progress)


# ------------------------------------------------------------------- at one price


def simulate(
    stream: Stream,
    fleet: Fleet,
    policies: Sequence[Spec | AnyAllocator] | None = None,
    *,
    progress: Progress | None = None,
) -> StreamComparison:
    """Run a stream of jobs under allocators, each compared with the optimum at its own realised spending.

    A policy given by its bare name is tuned until it spends the fleet's budget; without `policies` all known
    ones are run. Raises InfeasibleError when the budget is too small for the work that arrives.
    """
    check_enough(least_budget_gpus(fleet.classes), fleet.budget_gpus, None)
    return compare_streams(stream, fleet, policies or usual_allocators(None), progress=progress)


def usual_allocators(own: Spec | None) -> list[Spec]:
    """Return the common allocators that are installed and a fleet's own, each once."""
    common = [name for name in DEFAULT_ALLOCATORS if name in allocators]
    return [*common, *([] if own is None or own in DEFAULT_ALLOCATORS else [own])]


def simulate_stream(request: SimulateRequest, *, progress: Progress | None = None) -> StreamComparison:
    """Run the jobs of a fleet at one price under allocators, compared at equal spending.

    Raises as `simulate`, and FileError for a table of jobs that cannot be read.
    """
    request.check_options()
    policies = request.policies or usual_allocators(request.file.policy)
    result = simulate(_stream(request), _fleet(request), policies, progress=progress)
    return replace(result, jobs_from=request.jobs_from, usd_per_gpu_hour=request.file.usd_per_gpu_hour)


def _stream(request: SimulateRequest) -> Stream:
    classes, sizes, seed = request.file.classes, request.size_law, request.seed
    if request.jobs is not None:
        request.check_recorded()
        return read_jobs(request.jobs, classes, sizes=sizes, seed=seed)
    count = USUAL_JOBS if request.count is None else request.count
    if count > MAX_JOBS:
        raise InputError(f"--count must be <= {MAX_JOBS}, got {count}")
    return draw_stream(classes, count, arrivals=request.arrival_law, sizes=sizes, seed=seed)


def _fleet(request: SimulateRequest) -> Fleet:
    file, usual = request.file, request.file.stream
    boot, grace = request.provisioning_hours, request.idle_grace_hours
    return Fleet(
        file.classes,
        budget_gpus=budget_gpus(file, request.budget),
        node_gpus=usual.node_gpus if request.node_gpus is None else request.node_gpus,
        provisioning_hours=usual.provisioning_hours if boot is None else boot,
        idle_grace_hours=usual.idle_grace_hours if grace is None else grace,
    )


# ------------------------------------------------------------------- on a market


def usual_policies(own: Spec | None = None) -> list[Spec]:
    """Return a fleet's own allocator and the others that it is compared with, each once."""
    known: list[Spec] = [name for name in ON_A_MARKET if name in allocators]
    return known if own is None else [own, *(name for name in known if name != own)]


def simulate_fleet(request: SimulateRequest, *, progress: Progress | None = None) -> FleetComparison:
    """Run the jobs of a fleet on its market under allocators, side by side at one common spend.

    Raises InputError or FileError for options and files that cannot be used.
    """
    request.check_options()
    market = request.open_market()
    arrivals = arrivals_of(request, market)
    scene = fleet_scene(arrivals, request.file, market)
    policies = request.policies or usual_policies(request.file.policy)
    allowance = scene.allowance
    month = _month(request, arrivals, scene)
    spend, change = budget_usd(allowance, arrivals.hours), change_usd(allowance.usd)
    found = compare_fleet(scene, policies, spend, change, month, progress)
    if not request.bound:
        return found
    bound = extension("slacktide.fleet_bounds", "weak-duality", "the bound below a fleet's response")
    least = bound(scene, found.common_usd).mean_response_hours
    rows = tuple(replace(row, over_bound=row.measured.mean_hours / least) for row in found.rows)
    return replace(found, rows=rows)


def fleet_scene(arrivals: FleetArrivals, file: FleetFile, market: Market) -> FleetScene:
    """Put the jobs of a fleet on their market, which is repeated if it is too short for them."""
    members = tuple(
        replace(job, name=job.name or f"{job.kind}-{number}") for number, job in enumerate(arrivals.jobs, 1)
    )
    home = market.pools[0]
    left_hours = (len(home) - arrivals.start) * home.slot_hours
    again = left_hours < members[-1].submitted_hours + DRAIN_HOURS
    return FleetScene(
        market,
        members,
        arrivals.allowance,
        arrivals.start,
        again,
        fleet=_as_they_come(file.fleet, arrivals),
        on_demand_gpus=file.on_demand_gpus,
    )


def _as_they_come(fleet: Fleet | None, arrivals: FleetArrivals) -> Fleet | None:
    """Return a fleet with its classes sorted by their first arrivals; those without jobs come last."""
    if fleet is None:
        return None
    by_name = {job_class.name: job_class for job_class in fleet.classes}
    order = dict.fromkeys([*(job.kind for job in arrivals.jobs), *by_name])
    return replace(fleet, classes=tuple(by_name[name] for name in order))


def change_usd(budget_usd: float) -> float:
    """Return by how much a budget is lowered and raised, to show what less and more money would change."""
    low, high = TELLING_SHARES
    if low * budget_usd <= CHANGE_USD <= high * budget_usd:
        return CHANGE_USD
    return float(f"{CHANGE_SHARE * budget_usd:.1g}")


def budget_usd(allowance: Allowance, hours: float) -> float:
    """Return the money for some hours: that of each whole period in them, and a share of the last one's."""
    if allowance.renewal == "rolling":
        return allowance.usd_per_hour * hours
    total, now = 0.0, 0.0
    while now < hours:
        period = allowance.period(now)
        total += period.budget_usd * min(1.0, (hours - now) / (period.until_hours - now))
        now = period.until_hours
    return total


def _month(request: SimulateRequest, arrivals: FleetArrivals, scene: FleetScene) -> FleetMonth:
    home = scene.pools[0]
    return FleetMonth(
        jobs=tuple(_facts(member) for member in scene.members),
        jobs_from=request.jobs_from,
        hours=arrivals.hours,
        start=scene.allowance.start,
        allowance=scene.allowance,
        market=scene.market.source,
        market_start=home.time(scene.start),
        slot_hours=scene.slot_hours,
        again=scene.again,
        promised_gpus=sum(job_class.load_gpus for job_class in request.file.classes),
        brought_gpus=sum(member.work for member in scene.members) / arrivals.hours,
        left_out=arrivals.left_out,
    )


def _facts(member: Member) -> JobFacts:
    worth = member.template.value_usd if member.value_usd is None else member.value_usd
    late = member.submitted_hours + member.worthless_hours
    return JobFacts(member.name, member.kind, member.owner, worth, late)
