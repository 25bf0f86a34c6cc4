"""What a careful team does without prices: spot first come first served, on demand after a wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from slacktide.allocators.base import allocators, at_least_one
from slacktide.allocators.prices.promises import held_on, is_hard
from slacktide.allocators.prices.site_arrays import Prices, hours_until_border, prices_of
from slacktide.allocators.prices.site_rules import (
    DEADLINE_GPUS,
    Wishes,
    can_wait,
    least,
    not_held,
    site_of,
    take_on_demand,
    take_spot,
    widest,
)
from slacktide.allocators.site.kinds import Kinds, Lives, state_of
from slacktide.allocators.view import FleetView, Wanted
from slacktide.core.compiled import compilable, compiled
from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS


@allocators.register
@dataclass(frozen=True, slots=True)
class PatientSpot:
    """Give jobs spot first come first served on one width, and on demand to who has waited long enough.

    The strongest of the rules that a team would otherwise run. A job with a deadline takes spot up to eight
    GPUs, rents on demand when it falls behind a straight line to its deadline, and is behind the same guard
    as all others. It does not look at the budget: `width` and `wait_hours` are what it is tuned by.
    """

    width: int = 4
    """The width of a job without a deadline; narrower where less spot is left."""
    wait_hours: float = 1.0
    """After this long without spot it runs on demand."""
    needs_market: ClassVar[bool] = True
    keeps_deadlines: ClassVar[bool] = True

    def __post_init__(self) -> None:
        at_least_one("width", self.width)
        if not self.wait_hours >= 0:
            raise InputError(f"wait_hours must be >= 0, got {self.wait_hours:g}")

    def decide(self, view: FleetView) -> Wanted:
        site = site_of(view, "patient-spot")
        wishes = Wishes.none(site)
        compiled(share_out)(
            site.kinds, site.jobs, prices_of(site), view.now_hours, hours_until_border(view),
            self.width, self.wait_hours, wishes,
        )  # fmt: skip
        return wishes.wanted


@compilable
def share_out(
    kinds: Kinds,
    lives: Lives,
    prices: Prices,
    now_hours: float,
    hours: float,
    width: int,
    wait_hours: float,
    wishes: Wishes,
) -> None:
    """Serve jobs in the order in which they came; what is held is kept."""
    free = not_held(lives, prices)
    for job in range(len(lives.kind)):
        free[lives.pool[job]] += lives.spot_gpus[job]
        hard = is_hard(lives, job)
        if take_spot(kinds, lives, job, now_hours, hours, DEADLINE_GPUS if hard else width, free, wishes):
            continue
        if hard:
            if not can_wait(kinds, lives, job, now_hours, hours) or behind(kinds, lives, job, now_hours):
                take_on_demand(kinds, lives, job, now_hours, prices, wishes)
        elif lives.on_demand_gpus[job] > 0:
            wishes.on_demand_gpus[job] = lives.on_demand_gpus[job]
        elif now_hours - lives.spot_until_hours[job] >= wait_hours - TIME_TOLERANCE_HOURS:
            kind, at = lives.kind[job], cheapest(kinds, lives, job, prices)
            gpus = max(widest(kinds, kind, at, width), least(kinds, kind, at))
            wishes.pool[job], wishes.on_demand_gpus[job] = at, gpus


@compilable
def behind(kinds: Kinds, lives: Lives, job: int, now_hours: float) -> bool:
    """Whether a job is behind the straight line to its deadline, or catching up on demand in time for it."""
    if held_on(lives, kinds, job, state_of(lives, job), now_hours) < np.inf:
        return True
    work = lives.ends_gpu_hours[job, kinds.phases[lives.kind[job]] - 1]
    passed = now_hours - lives.submitted_hours[job]
    due = work * passed / (lives.deadline_hours[job] - lives.submitted_hours[job])
    return bool(lives.progress_gpu_hours[job] < due)


@compilable
def cheapest(kinds: Kinds, lives: Lives, job: int, prices: Prices) -> int:
    """Return the pool that a job may be in with the cheapest on-demand GPUs; of equals, where it is."""
    best = lives.pool[job]
    for at in range(len(prices.on_demand_usd)):
        may = kinds.fastest[lives.kind[job], at] > 0
        if may and prices.on_demand_usd[at] < prices.on_demand_usd[best]:
            best = at
    return int(best)
