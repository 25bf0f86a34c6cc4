"""A fleet on a market: what its month would have looked like, and how allocators compare at one spend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from slacktide.allocators.base import allocators
from slacktide.app.fleets.fleet_arrivals import Arrivals, arrivals_of
from slacktide.app.fleets.fleet_question import FleetQuestion
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import JobTemplate, load_gpus
from slacktide.budget.fleet import Fleet
from slacktide.core.own_class import Spec
from slacktide.core.register import extension
from slacktide.files.fleet.fleet import FleetFile
from slacktide.files.fleet.jobs import FleetJob
from slacktide.market.base import Market
from slacktide.results.fleets.fleet_comparison import FleetComparison, FleetMonth, JobFacts
from slacktide.simulation.fleet.market_comparison import Progress, compare_fleet
from slacktide.simulation.fleet.scene import FleetScene, Member

ON_A_MARKET: tuple[str, ...] = (
    "shadow-prices",
    "patient-spot",
    "each-alone",
    "earliest-deadline",
    "on-demand-widths",
)
"""Allocators for fleets on a market, the default first; those that are not installed are passed over."""

DRAIN_HOURS = 24.0
"""A market that ends sooner than this after the last job came begins anew: jobs must be able to end."""
CHANGE_USD = 1000.0
"""By how much less and more money is tried, where that is a telling part of the budget."""
TELLING_SHARES = (0.02, 0.2)
CHANGE_SHARE = 0.05
"""Elsewhere this share of the budget is."""


def usual_policies(own: Spec | None = None) -> list[Spec]:
    """Return a fleet's own allocator and the others that it is compared with, each once."""
    known: list[Spec] = [name for name in ON_A_MARKET if name in allocators]
    return known if own is None else [own, *(name for name in known if name != own)]


def simulate_fleet(
    question: FleetQuestion,
    *,
    bounds: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> FleetComparison:
    """Run the jobs of a fleet on its market under allocators, side by side at one common spend.

    `bounds` says by the name of an allocator how its mean response compares with a lower bound, where one is
    known. Raises InputError or FileError for what cannot be meant.
    """
    market = question.open_market()
    arrivals = arrivals_of(question, market)
    scene = fleet_scene(arrivals, question.file, market)
    policies = question.policies or usual_policies(question.file.policy)
    allowance = scene.allowance
    found = compare_fleet(
        scene,
        policies,
        budget_usd(allowance, arrivals.hours),
        change_usd(allowance.usd),
        bounds=bounds,
        progress=progress,
    )
    rows = found.rows
    if question.bound:
        bound = extension("slacktide.fleet_bounds", "weak-duality", "the bound below a fleet's response")
        least = bound(scene, found.common_usd).mean_response_hours
        rows = tuple(replace(row, over_bound=row.measured.mean_hours / least) for row in rows)
    return FleetComparison(
        month=_month(arrivals, scene, load_gpus(question.file.templates)),
        deadlines=sum(one.due_hours < math.inf for one in scene.members),
        common_usd=found.common_usd,
        common_of=found.common_of,
        rows=rows,
        story=found.story,
        less=found.less,
        more=found.more,
    )


def fleet_scene(arrivals: Arrivals, file: FleetFile, market: Market) -> FleetScene:
    """Set jobs of a fleet on their market, which begins anew where it is too short for them."""
    members = tuple(
        _member(job, file.templates[job.kind], number) for number, job in enumerate(arrivals.jobs, 1)
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


def _as_they_come(fleet: Fleet | None, arrivals: Arrivals) -> Fleet | None:
    """Return a fleet with its classes in the order in which their first jobs come; the others after them."""
    if fleet is None:
        return None
    order = dict.fromkeys([*(job.kind for job in arrivals.jobs), *range(len(fleet.classes))])
    return replace(fleet, classes=tuple(fleet.classes[kind] for kind in order))


def change_usd(budget_usd: float) -> float:
    """Return by how much less and more money is tried beside a budget."""
    low, high = TELLING_SHARES
    if low * budget_usd <= CHANGE_USD <= high * budget_usd:
        return CHANGE_USD
    return float(f"{CHANGE_SHARE * budget_usd:.1g}")


def budget_usd(allowance: Allowance, hours: float) -> float:
    """Return the money that belongs to a time: all of the periods in it, and of the last its share."""
    if allowance.renewal == "rolling":
        return allowance.usd_per_hour * hours
    total, now = 0.0, 0.0
    while now < hours:
        period = allowance.period(now)
        total += period.budget_usd * min(1.0, (hours - now) / (period.until_hours - now))
        now = period.until_hours
    return total


def _member(job: FleetJob, one: JobTemplate, number: int) -> Member:
    return Member(
        submitted_hours=job.submitted_hours,
        template=one.job,
        work_gpu_hours=job.work_gpu_hours,
        deadline_hours=job.deadline_hours,
        value_usd=job.value_usd,
        weight=one.weight if job.weight is None else job.weight,
        patience_hours=one.patience_hours if job.patience_hours is None else job.patience_hours,
        name=job.name or f"{one.name}-{number}",
        kind=one.name,
        owner=job.owner,
    )


def _month(arrivals: Arrivals, scene: FleetScene, promised_gpus: float) -> FleetMonth:
    home = scene.pools[0]
    return FleetMonth(
        jobs=tuple(_facts(member) for member in scene.members),
        told=arrivals.told,
        hours=arrivals.hours,
        start=scene.allowance.start,
        allowance=scene.allowance,
        market=scene.market.source,
        market_start=home.time(scene.start),
        slot_hours=scene.slot_hours,
        again=scene.again,
        promised_gpus=promised_gpus,
        brought_gpus=sum(member.work for member in scene.members) / arrivals.hours,
        left_out=arrivals.left_out,
    )


def _facts(member: Member) -> JobFacts:
    worth = member.template.value_usd if member.value_usd is None else member.value_usd
    late = member.submitted_hours + member.worthless_hours
    return JobFacts(member.name, member.kind, member.owner, worth, late)
