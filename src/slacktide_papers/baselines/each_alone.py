"""What a team does without a scheduler: each job has its own policy; spot is first come, first served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slacktide.allocators.base import allocators, at_least_one
from slacktide.allocators.prices.deadline_guarantees import is_hard, is_safe
from slacktide.allocators.prices.site_rules import (
    DEADLINE_GPUS,
    Wishes,
    least,
    moment_of,
    not_held,
    roomiest,
    take_on_demand,
    take_spot,
)
from slacktide.allocators.site.job_tables import SiteMoment, state_of, terms_of
from slacktide.allocators.view import FleetView, Wanted
from slacktide.core.arrays import Ints
from slacktide.core.compiled import compilable, compiled
from slacktide.core.quotes import Quote
from slacktide.physics.pace import KNOWN
from slacktide.physics.progress import cut
from slacktide.physics.tariff import Tariff
from slacktide.policies.base import Sight
from slacktide.policies.uniform_progress import PaceParameters, uniform_progress


@allocators.register
@dataclass(frozen=True, slots=True)
class EachAlone:
    """Let every job follow its own policy, and give out spot first come, first served.

    A job with a deadline follows uniform progress: spot whenever there is some, on demand while it is behind
    a straight line to its deadline; a hard deadline is behind the guard. A job without one takes spot of one
    width, or waits. The budget is ignored; `width` is the setting to tune.
    """

    width: int = 4  # the width of a job without a deadline; narrower where less spot is left
    needs_market: ClassVar[bool] = True
    keeps_deadlines: ClassVar[bool] = True
    tried_settings: ClassVar[Mapping[str, tuple[float, ...]]] = {"width": (1, 2, 4, 8)}

    def __post_init__(self) -> None:
        at_least_one("width", self.width)

    def decide(self, view: FleetView) -> Wanted:
        moment = moment_of(view, "each-alone")
        wishes = Wishes.none(moment.jobs)
        compiled(serve)(moment, self.width, wishes)
        return wishes.wanted


@compilable
def serve(moment: SiteMoment, width: int, wishes: Wishes) -> None:
    """Ask the policy of each job in the order in which they came."""
    jobs, free = moment.jobs, not_held(moment)
    for job in range(len(jobs.kind)):
        free[jobs.pool[job]] += jobs.spot_gpus[job]
        if jobs.deadline_hours[job] == np.inf:
            take_spot(moment, job, width, free, wishes)
        elif moment.hours < moment.slot_hours and jobs.spot_gpus[job] + jobs.on_demand_gpus[job] > 0:
            # A policy decides once a slot, and what it decided then is safe until the slot ends.
            wishes.spot_gpus[job] = jobs.spot_gpus[job]
            wishes.on_demand_gpus[job] = jobs.on_demand_gpus[job]
            free[jobs.pool[job]] -= jobs.spot_gpus[job]
        else:
            progress_uniformly(moment, job, free, wishes)


@compilable
def progress_uniformly(moment: SiteMoment, job: int, free: Ints, wishes: Wishes) -> None:
    """Decide about a job by uniform progress, for a slot from now on, behind the guard."""
    kinds, jobs, prices = moment.kinds, moment.jobs, moment.prices
    now_hours, slot_hours = moment.now_hours, moment.slot_hours
    state = state_of(jobs, job)
    at = state.pool if state.spot_gpus + state.on_demand_gpus > 0 else roomiest(kinds, jobs, job, free)
    terms = terms_of(kinds, jobs, job, at)
    offered = min(max(free[at], 0), max(DEADLINE_GPUS, least(kinds, jobs.kind[job], at)))
    quote = Quote(prices.spot_usd[at], prices.on_demand_usd[at], offered, prices.on_demand_gpus[at])
    sight = Sight(
        terms, Tariff(False, slot_hours), 0, now_hours, now_hours + slot_hours, slot_hours, state, quote, 0,
        KNOWN,
    )  # fmt: skip
    choice = uniform_progress(PaceParameters(False), sight)
    some, more = cut(terms, quote, choice.spot_gpus, choice.on_demand_gpus)
    if is_hard(jobs, job) and not is_safe(moment, job, at, some, more):
        take_on_demand(moment, job, wishes)
        return
    free[at] -= some
    wishes.pool[job], wishes.spot_gpus[job], wishes.on_demand_gpus[job] = at, some, more
