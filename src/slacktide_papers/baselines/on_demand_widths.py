"""On demand alone, each job on one width: what the theory of budgets says of a cloud without spot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slacktide.allocators.base import allocators
from slacktide.allocators.prices.site_rules import Wishes, moment_of, take_on_demand
from slacktide.allocators.site.job_tables import SiteMoment, state_of, terms_of
from slacktide.allocators.view import FleetView, Wanted
from slacktide.core.compiled import compilable, compiled
from slacktide.core.errors import InputError
from slacktide.physics.progress import finish_in


@allocators.register
@dataclass(frozen=True, slots=True)
class OnDemandWidths:
    """Rent on demand alone: each job starts at once on the width that is worth its time, and keeps it.

    The rule of "How to Rent GPUs on a Budget" at a price of waiting: the width with the least sum of rent and
    worth of the job's hours, its restart included. A job with a deadline gets the cheapest width that is in
    time. It ignores the budget; `usd_per_job_hour` is the setting to tune.
    """

    usd_per_job_hour: float = 10.0  # what it is worth that a job is done an hour sooner
    needs_market: ClassVar[bool] = True
    keeps_deadlines: ClassVar[bool] = True
    tried_settings: ClassVar[Mapping[str, tuple[float, ...]]] = {
        "usd_per_job_hour": (1.0, 3.0, 10.0, 30.0, 100.0)
    }

    def __post_init__(self) -> None:
        if not 0 <= self.usd_per_job_hour < np.inf:
            raise InputError(f"usd_per_job_hour must be >= 0, got {self.usd_per_job_hour:g}")

    def decide(self, view: FleetView) -> Wanted:
        moment = moment_of(view, "on-demand-widths")
        wishes = Wishes.none(moment.jobs)
        compiled(rent)(moment, self.usd_per_job_hour, wishes)
        return wishes.wanted


@compilable
def rent(moment: SiteMoment, usd_per_job_hour: float, wishes: Wishes) -> None:
    """Keep what jobs hold and start those that hold nothing."""
    jobs = moment.jobs
    for job in range(len(jobs.kind)):
        if jobs.deadline_hours[job] < np.inf:
            take_on_demand(moment, job, wishes)
        elif jobs.on_demand_gpus[job] > 0:
            wishes.on_demand_gpus[job] = jobs.on_demand_gpus[job]
        else:
            at, gpus = worthwhile(moment, job, usd_per_job_hour * jobs.weight[job])
            wishes.pool[job], wishes.on_demand_gpus[job] = at, gpus


@compilable
def worthwhile(moment: SiteMoment, job: int, usd_per_job_hour: float) -> tuple[int, int]:
    """Return the pool and the width with the least sum of rent and worth of the job's hours."""
    kinds, jobs, on_demand_usd = moment.kinds, moment.jobs, moment.prices.on_demand_usd
    state = state_of(jobs, job)
    least, pool, gpus = np.inf, state.pool, 0
    for at in range(len(on_demand_usd)):
        if kinds.fastest[jobs.kind[job], at] == 0:
            continue
        terms = terms_of(kinds, jobs, job, at)
        for width in range(1, len(terms.fit)):
            if terms.fit[width] == width:
                hours = finish_in(terms, state, 0.0, at, width, 0)
                usd = (usd_per_job_hour + on_demand_usd[at] * width) * hours
                if usd < least:
                    least, pool, gpus = usd, at, width
    return pool, gpus
