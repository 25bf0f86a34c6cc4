"""The contract of an allocator that needs a market: spot and on-demand GPUs in pools, deadlines and money.

Each check takes an allocator and one case and raises CheckFailed with a sentence when the promise does not
hold. `check_allocator` runs them on allocators that declare `needs_market`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from slacktide.allocators.view import (
    Admitting,
    AnyAllocator,
    FleetView,
    Pricing,
    Remembering,
    SiteView,
    begin,
    keeps_deadlines,
)
from slacktide.budget.fleet import Fleet
from slacktide.checks.allocators.allocator_memory import must_decide_the_same_again, must_go_on_from_memory
from slacktide.checks.allocators.site_cases import ARRIVAL_SLOTS, SiteCase
from slacktide.checks.base import CheckFailed, must_agree
from slacktide.core.arrays import Ints
from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.results.fleets.fleet import FleetRun
from slacktide.simulation.fleet.market_kernel import Orders
from slacktide.simulation.fleet.run import RunOptions, Watch, run_fleet

SiteCheck = Callable[[AnyAllocator, SiteCase, np.random.Generator], None]

ROUNDING_SHARE = 1e-9  # sums of money may be off by this share


class Ordered(NamedTuple):
    """What was decided when, for whom."""

    now_hours: float
    ids: tuple[int, ...]
    pool: tuple[int, ...]
    spot_gpus: tuple[int, ...]
    on_demand_gpus: tuple[int, ...]


def requests_only_widths_and_pools_of_a_job(
    allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator
) -> None:
    """Every job gets nothing, or a width that it may have in a pool that it may be in."""

    def look(view: FleetView, orders: Orders) -> None:
        site = _site(view)
        for place, kind in enumerate(site.jobs.kind):
            pool = orders.pool[place]
            gpus = int(orders.spot_gpus[place] + orders.on_demand_gpus[place])
            allowed = np.unique(site.kinds.fit[kind, pool])
            if gpus > 0 and len(allowed) == 1:
                raise CheckFailed(
                    f"a job must be in a pool that it may be in, got {site.pools[pool].name} in {case}"
                )
            if gpus not in (0, *allowed):
                raise CheckFailed(f"a width must be 0 or in {allowed[allowed > 0]}, got {gpus} in {case}")

    _run(allocator, case, look)


def never_wants_more_spot_than_is_offered(
    allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator
) -> None:
    """What all jobs together want of a pool is there: a promise that rests on a wish must not see it cut."""

    def look(view: FleetView, orders: Orders) -> None:
        pools = _site(view).pools
        wanted = np.bincount(orders.pool, weights=orders.spot_gpus, minlength=len(pools))
        for pool, gpus in zip(pools, wanted, strict=True):
            if gpus > pool.quote.spot_gpus:
                raise CheckFailed(
                    f"spot that is wanted of {pool.name} must add up to at most the {pool.quote.spot_gpus} "
                    f"GPUs offered, got {gpus:g} at {view.now_hours:g} h in {case}"
                )

    _run(allocator, case, look)


def finishes_every_job(allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator) -> None:
    """While there is money no job waits forever on a market that has plenty of spot in the end."""
    calm = case.calmed()
    run = _run(allocator, calm)
    if not np.isfinite(run.finish_hours[run.admitted]).all():
        raise CheckFailed(f"every job must finish eventually, got one that never does in {calm}")


def keeps_hard_deadlines(allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator) -> None:
    """Jobs that an allocator admits end in time; for one that promises deadlines, all that can."""
    admits = isinstance(begin(allocator, _fleet(case)), Admitting)
    if not (admits or keeps_deadlines(allocator)):
        return
    run = _run(allocator, case)
    for job in run.late:
        if admits or case.feasible[job]:
            raise CheckFailed(
                f"a job must be done by its hard deadline, {run.deadline_hours[job]:g} h, got "
                f"{run.finish_hours[job]:g} h for job {job} in {case}"
            )


def keeps_deadlines_with_few_on_demand_gpus(
    allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator
) -> None:
    """An allocator that admits jobs keeps its deadlines also where a fleet may hold few GPUs on demand.

    No allocator is given more of them than the fleet may hold.
    """
    few = case.with_few_on_demand_gpus(rng)
    quota = few.scene.on_demand_gpus
    run = run_fleet(few.scene, allocator, stop_hours=few.stop_hours)
    if int(run.moments.on_demand_gpus.max(initial=0)) > quota:
        raise CheckFailed(f"at most {quota} on-demand GPUs must be held, got more in {few}")
    if isinstance(begin(allocator, _fleet(case)), Admitting) and len(run.late):
        raise CheckFailed(
            f"jobs that were admitted must be in time with {quota} on-demand GPUs, got {run.late} late "
            f"in {few}"
        )


def keeps_to_the_budget(allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator) -> None:
    """One that admits jobs or decides by a price of money never spends more than a period's budget."""
    if not isinstance(begin(allocator, _fleet(case)), Admitting | Pricing):
        return
    most = _run(allocator, case).most_spent_share
    if most > 1.0 + ROUNDING_SHARE:
        raise CheckFailed(f"no more than the budget must be spent, got {most:.6f} of it in {case}")


def decides_the_same_again_on_a_site(
    allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator
) -> None:
    """The same jobs on the same market get the same decisions, whatever ran before, also after pickling."""
    message = f"the same fleet must get the same decisions in {case}"
    must_decide_the_same_again(allocator, lambda one: ordered(one, case), message)


def cannot_see_the_future_of_a_site(
    allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator
) -> None:
    """Two markets and rows of jobs that agree up to a slot get the same decisions until it begins."""
    first = int(rng.integers(1, ARRIVAL_SLOTS))
    one, other = (ordered(allocator, each) for each in (case, case.with_other_future(first, rng)))
    until = first * case.scene.slot_hours - TIME_TOLERANCE_HOURS
    must_agree(one, other, until, f"an allocator must not see the future beyond slot {first} in {case}")


def goes_on_from_what_it_wrote_down_on_a_site(
    allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator
) -> None:
    """What one that remembers writes down at any moment is all that a new one needs to decide the same."""
    fleet = _fleet(case)
    if isinstance(begin(allocator, fleet), Remembering):
        must_go_on_from_memory(allocator, fleet, lambda one: ordered(one, case), case, rng)


SITE_CHECKS: tuple[SiteCheck, ...] = (
    requests_only_widths_and_pools_of_a_job,
    never_wants_more_spot_than_is_offered,
    finishes_every_job,
    keeps_hard_deadlines,
    keeps_deadlines_with_few_on_demand_gpus,
    keeps_to_the_budget,
    decides_the_same_again_on_a_site,
    cannot_see_the_future_of_a_site,
    goes_on_from_what_it_wrote_down_on_a_site,
)


def ordered(allocator: AnyAllocator, case: SiteCase) -> list[Ordered]:
    """Return all that an allocator decides in a case."""
    found: list[Ordered] = []

    def look(view: FleetView, orders: Orders) -> None:
        columns: tuple[Ints, ...] = (view.jobs.ids, *orders)
        found.append(Ordered(view.now_hours, *(tuple(column.tolist()) for column in columns)))

    _run(allocator, case, look)
    return found


def _site(view: FleetView) -> SiteView:
    assert view.site is not None
    return view.site


def _fleet(case: SiteCase) -> Fleet:
    assert case.scene.fleet is not None
    return case.scene.fleet


def _run(allocator: AnyAllocator, case: SiteCase, watch: Watch | None = None) -> FleetRun:
    """Run a case; one that cannot be followed breaks its contract."""
    try:
        return run_fleet(case.scene, allocator, RunOptions(watch=watch), stop_hours=case.stop_hours)
    except InputError as error:
        raise CheckFailed(f"{error}, in {case}") from error
