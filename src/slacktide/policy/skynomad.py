"""SkyNomad's rule: the pool with the greatest utility of an hour, by how long its spot will live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from slacktide.deciding import View
from slacktide.physics import work_hours
from slacktide.policy.alone import over_pools
from slacktide.policy.base import policies, signals
from slacktide.policy.pool_beliefs import PoolBelief, is_fed
from slacktide.policy.rescue import rescue, terms_in
from slacktide.types import Allocation, Reason, Wish

SPENT_HOURS = 1e-6
"""Before so much was done nobody knows the pace, and it is taken for an even one."""


STAYS, MOVES, STARTS, WAITS, ON_DEMAND = (
    "keeps-spot", "utility-of-a-move", "take-spot", "no-utility", "behind-pace",
)  # fmt: skip


class Option(NamedTuple):
    """Something to hold, and what an hour of it is worth less its price."""

    usd_per_hour: float
    wish: Wish
    rule: str


@policies.register
@dataclass(frozen=True, slots=True)
class SkyNomad:
    """Hold what has the greatest utility: value of progress x its share of the life, less price and move.

    From the formula of SkyNomad (arXiv 2601.06520): an option is worth V * eta - price - move / life, where
    eta is the share of its expected life that is not spent restarting, and V the price on demand times how
    much faster than so far the job has to be from now on. Spot that is held is not let go to wait: V falls
    below every price towards the end of a job that is ahead. A baseline for policies over pools; the
    deadline guard is its safety net.
    """

    roams: ClassVar[bool] = True

    def decide(self, view: View) -> Allocation:
        view = over_pools(view)
        options = sorted(self._options(view), key=lambda one: -one.usd_per_hour)
        chosen = []
        for option in options:
            chosen.append(option)
            if not option.wish.spot_gpus or option.rule == STAYS:
                break
        first, *rest = chosen
        reason = Reason(first.rule, {**signals(view), "utility_usd_per_hour": first.usd_per_hour})
        return Allocation(*first.wish, reason, (), tuple(one.wish for one in rest))

    def _options(self, view: View) -> list[Option]:
        """Return what could be held, to hold nothing and on demand included."""
        assert view.places is not None
        terms, quotes = terms_in(view), [pool.quote for pool in view.pools]
        names, state = [pool.name for pool in view.pools], view.state
        last = rescue(terms, view.places, quotes, state, view.now_hours)
        home_usd = quotes[last.pool].on_demand_usd_per_gpu_hour * last.gpus
        value = home_usd * self._pressure(view)
        found = [Option(value - home_usd, Wish(0, last.gpus, names[last.pool]), ON_DEMAND)]
        if state.spot_gpus < terms[view.pool].fastest:
            found.append(Option(0.0, Wish(), WAITS))
        for at, one in enumerate(terms):
            gpus = int(one.fastest)
            if quotes[at].spot_gpus < gpus and is_fed(view, at):
                continue
            life = max(PoolBelief(view, at, gpus).life_hours, view.slot_hours)
            price = quotes[at].spot_usd_per_gpu_hour * gpus
            if at == view.pool and state.spot_gpus >= gpus:
                found.append(Option(value - price, Wish(gpus, 0, names[at]), STAYS))
                continue
            pause = one.restart_hours + float(view.places.move_hours[view.pool, at])
            carries = at != view.pool and state.progress_gpu_hours > 0.0
            move = float(view.places.move_usd[view.pool, at]) if carries else 0.0
            worth = value * max(0.0, life - pause) / life - price - move / life
            found.append(Option(worth, Wish(gpus, 0, names[at]), MOVES if carries else STARTS))
        return found

    def _pressure(self, view: View) -> float:
        """Return how much faster than so far the job has to be from now on to be done in time."""
        terms = terms_in(view)[view.pool]
        whole, left = (
            work_hours(terms, 0.0, terms.fastest),
            work_hours(terms, view.state.progress_gpu_hours, terms.fastest),
        )
        done = whole - left
        needed = left / max(view.hours_left, SPENT_HOURS)
        so_far = done / view.now_hours if done > SPENT_HOURS and view.now_hours > SPENT_HOURS else 1.0
        return needed / so_far
