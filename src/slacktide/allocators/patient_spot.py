"""Patient spot, what a careful team does without prices: spot first come first served, later on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slacktide.allocators.base import allocators, at_least_one
from slacktide.allocators.prices.deadline_guarantees import held_on, is_hard
from slacktide.allocators.prices.site_rules import (
    DEADLINE_GPUS,
    Wishes,
    can_wait,
    least,
    moment_of,
    not_held,
    take_on_demand,
    take_spot,
    widest,
)
from slacktide.allocators.site.job_tables import JobTables, Kinds, SiteMoment, state_of
from slacktide.allocators.view import FleetView, Wanted
from slacktide.core.compiled import compilable, compiled
from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS


@allocators.register
@dataclass(frozen=True, slots=True)
class PatientSpot:
    """Give jobs spot first come first served on one width, and on demand to those that waited long enough.

    The strongest of the rules that a team would otherwise run. A job with a deadline takes spot up to eight
    GPUs, rents on demand when it falls behind a straight line to its deadline, and is protected by the same
    guard as all others. It does not look at the budget: `width` and `wait_hours` tune what it spends.
    """

    width: int = 4  # the width of a job without a deadline; narrower where less spot is left
    wait_hours: float = 1.0  # after this long without spot it runs on demand
    needs_market: ClassVar[bool] = True
    keeps_deadlines: ClassVar[bool] = True

    def __post_init__(self) -> None:
        at_least_one("width", self.width)
        if not self.wait_hours >= 0:
            raise InputError(f"wait_hours must be >= 0, got {self.wait_hours:g}")

    def decide(self, view: FleetView) -> Wanted:
        moment = moment_of(view, "patient-spot")
        wishes = Wishes.none(moment.jobs)
        compiled(share_out)(moment, self.width, self.wait_hours, wishes)
        return wishes.wanted


@compilable
def share_out(moment: SiteMoment, width: int, wait_hours: float, wishes: Wishes) -> None:
    """Serve jobs in the order in which they were submitted; each keeps the GPUs that it holds."""
    kinds, jobs, free = moment.kinds, moment.jobs, not_held(moment)
    for job in range(len(jobs.kind)):
        free[jobs.pool[job]] += jobs.spot_gpus[job]
        hard = is_hard(jobs, job)
        if take_spot(moment, job, DEADLINE_GPUS if hard else width, free, wishes):
            continue
        if hard:
            if not can_wait(moment, job) or behind(kinds, jobs, job, moment.now_hours):
                take_on_demand(moment, job, wishes)
        elif jobs.on_demand_gpus[job] > 0:
            wishes.on_demand_gpus[job] = jobs.on_demand_gpus[job]
        elif moment.now_hours - jobs.spot_until_hours[job] >= wait_hours - TIME_TOLERANCE_HOURS:
            kind, at = jobs.kind[job], cheapest(moment, job)
            gpus = max(widest(kinds, kind, at, width), least(kinds, kind, at))
            wishes.pool[job], wishes.on_demand_gpus[job] = at, gpus


@compilable
def behind(kinds: Kinds, jobs: JobTables, job: int, now_hours: float) -> bool:
    """Whether a job is behind the straight line to its deadline, or catching up on demand in time for it."""
    if held_on(kinds, jobs, job, state_of(jobs, job), now_hours) < np.inf:
        return True
    work = jobs.ends_gpu_hours[job, kinds.phases[jobs.kind[job]] - 1]
    passed = now_hours - jobs.submitted_hours[job]
    due = work * passed / (jobs.deadline_hours[job] - jobs.submitted_hours[job])
    return bool(jobs.progress_gpu_hours[job] < due)


@compilable
def cheapest(moment: SiteMoment, job: int) -> int:
    """Return the pool that a job may be in with the cheapest on-demand GPUs; of equals, where it is."""
    jobs, usd = moment.jobs, moment.prices.on_demand_usd
    best = jobs.pool[job]
    for at in range(len(usd)):
        if moment.kinds.fastest[jobs.kind[job], at] > 0 and usd[at] < usd[best]:
            best = at
    return int(best)
