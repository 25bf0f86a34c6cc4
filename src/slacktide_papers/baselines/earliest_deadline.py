"""Earliest deadline first: all spot to the most urgent jobs, on demand when nothing else is in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slacktide.allocators.base import allocators, at_least_one
from slacktide.allocators.prices.site_rules import (
    PoolOffers,
    Wishes,
    can_wait,
    hours_until_border,
    prices_of,
    site_of,
    take_on_demand,
    take_spot,
)
from slacktide.allocators.site.job_tables import JobTables, Kinds
from slacktide.allocators.view import FleetView, Wanted
from slacktide.core.arrays import Ints
from slacktide.core.compiled import compilable, compiled


@allocators.register
@dataclass(frozen=True, slots=True)
class EarliestDeadline:
    """Give all spot to the earliest deadline first, up to one width, and on demand when the guard says so.

    The classic rule of real-time scheduling. Jobs without a deadline come after all others, first come first
    served, and lose their spot to any job with one. It does not look at the budget: `width` is what it is
    tuned by.
    """

    width: int = 4  # how wide a job may be on spot; narrower where less is left
    needs_market: ClassVar[bool] = True
    keeps_deadlines: ClassVar[bool] = True

    def __post_init__(self) -> None:
        at_least_one("width", self.width)

    def decide(self, view: FleetView) -> Wanted:
        site = site_of(view, "earliest-deadline")
        wishes = Wishes.none(site)
        compiled(serve)(
            np.argsort(site.jobs.deadline_hours, kind="stable"), site.kinds, site.jobs, prices_of(site),
            view.now_hours, hours_until_border(view), self.width, wishes,
        )  # fmt: skip
        return wishes.wanted


@compilable
def serve(
    order: Ints,
    kinds: Kinds,
    jobs: JobTables,
    prices: PoolOffers,
    now_hours: float,
    hours: float,
    width: int,
    wishes: Wishes,
) -> None:
    """Serve jobs in an order, each from what those before it left."""
    free = prices.spot_gpus.copy()
    for job in order:
        if take_spot(kinds, jobs, job, now_hours, hours, width, free, wishes):
            continue
        late = jobs.deadline_hours[job] <= now_hours
        if late or not can_wait(kinds, jobs, job, now_hours, hours):
            take_on_demand(kinds, jobs, job, now_hours, prices, wishes)
