"""Earliest deadline first: all spot to the most urgent jobs, on demand when nothing else is in time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slacktide.allocators.base import allocators, at_least_one
from slacktide.allocators.prices.site_rules import Wishes, can_wait, moment_of, take_on_demand, take_spot
from slacktide.allocators.site.job_tables import SiteMoment
from slacktide.allocators.view import FleetView, Wanted
from slacktide.core.arrays import Ints
from slacktide.core.compiled import compilable, compiled


@allocators.register
@dataclass(frozen=True, slots=True)
class EarliestDeadline:
    """Give all spot to the earliest deadline first, up to one width, and on demand when the guard says so.

    The classic rule of real-time scheduling. Jobs without a deadline come after all others, first come first
    served, and lose their spot to any job with one. It ignores the budget; `width` is the setting to
    tune.
    """

    width: int = 4  # how wide a job may be on spot; narrower where less is left
    needs_market: ClassVar[bool] = True
    keeps_deadlines: ClassVar[bool] = True
    tried_settings: ClassVar[Mapping[str, tuple[float, ...]]] = {"width": (1, 2, 4, 8)}

    def __post_init__(self) -> None:
        at_least_one("width", self.width)

    def decide(self, view: FleetView) -> Wanted:
        moment = moment_of(view, "earliest-deadline")
        wishes = Wishes.none(moment.jobs)
        order = np.argsort(moment.jobs.deadline_hours, kind="stable")
        compiled(serve)(order, moment, self.width, wishes)
        return wishes.wanted


@compilable
def serve(order: Ints, moment: SiteMoment, width: int, wishes: Wishes) -> None:
    """Serve jobs in an order, each from what those before it left."""
    free = moment.prices.spot_gpus.copy()
    for job in order:
        if take_spot(moment, job, width, free, wishes):
            continue
        late = moment.jobs.deadline_hours[job] <= moment.now_hours
        if late or not can_wait(moment, job):
            take_on_demand(moment, job, wishes)
