"""SkyNomad's rule: the pool with the greatest utility of an hour, by how long its spot will live."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from slacktide.core.types import Allocation, Reason, Wish
from slacktide.physics.progress import phase_of, work_hours
from slacktide.policies.base import policies, signals
from slacktide.policies.pools.pool_beliefs import PoolBelief, Sources, is_fed
from slacktide.policies.pools.rescue import terms_in
from slacktide.policies.view import View
from slacktide_papers.baselines.single_pool import over_pools

STAYS, MOVES, STARTS, WAITS, ON_DEMAND = (
    "keeps-spot", "utility-of-a-move", "take-spot", "no-utility", "behind-pace",
)  # fmt: skip


class RankedHolding(NamedTuple):
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
    much faster than planned the job has to be from now on, at least the cheapest spot price. On demand lives
    for ever. What is held is kept until something is worth more. How long spot lives is our own estimate. A
    baseline for policies over pools; the deadline guard is its safety net.
    """

    roams: ClassVar[bool] = True

    def decide(self, view: View) -> Allocation:
        view = over_pools(view)
        value = self._value(view)
        now = self._now(view, value)
        better = [one for one in self._options(view, value) if one.usd_per_hour > now.usd_per_hour]
        first, *rest = [*sorted(better, key=lambda one: -one.usd_per_hour), now]
        reason = Reason(first.rule, {**signals(view), "utility_usd_per_hour": first.usd_per_hour})
        return Allocation(*first.wish, reason, (), tuple(one.wish for one in rest))

    def _now(self, view: View, value: float) -> RankedHolding:
        """Return what is held, or waiting if the job holds nothing that it could go on with."""
        state, quote, name = view.state, view.quote, view.pools[view.pool].name
        if not state.gpus or view.allowed_width(state.gpus) != state.gpus:
            return RankedHolding(0.0, Wish(), WAITS)
        usd = (
            quote.spot_usd_per_gpu_hour * state.spot_gpus
            + quote.on_demand_usd_per_gpu_hour * state.on_demand_gpus
        )
        terms, wish = terms_in(view)[view.pool], Wish(int(state.spot_gpus), int(state.on_demand_gpus), name)
        rate = terms.rate[phase_of(terms, state.progress_gpu_hours)]
        worth = value * float(rate[state.gpus] / rate[terms.fastest]) - usd
        return RankedHolding(worth, wish, STAYS if state.spot_gpus else ON_DEMAND)

    def _options(self, view: View, value: float) -> list[RankedHolding]:
        """Return what could be held instead and is worth something."""
        assert view.places is not None
        state, found, sources = view.state, list[RankedHolding](), Sources(view)
        for at, one in enumerate(terms_in(view)):
            quote, name, gpus = view.pools[at].quote, view.pools[at].name, int(one.fastest)
            carries = at != view.pool and state.progress_gpu_hours > 0.0
            usd = float(view.places.move_usd[view.pool, at]) if carries else 0.0
            hours = float(view.places.move_hours[view.pool, at]) if carries else 0.0
            is_elsewhere = at != view.pool or state.on_demand_gpus < gpus
            if is_elsewhere and quote.on_demand_gpus >= gpus:
                fee = (one.restart_hours + hours) * value + usd if carries else 0.0
                worth = value - quote.on_demand_usd_per_gpu_hour * gpus - fee
                found.append(RankedHolding(worth, Wish(0, gpus, name), ON_DEMAND))
            is_held = at == view.pool and state.spot_gpus >= gpus
            if is_held or (quote.spot_gpus < gpus and is_fed(view, at)):
                continue
            life = max(PoolBelief(view, at, gpus, sources).life_hours, view.slot_hours)
            share = max(0.0, life - one.restart_hours) / life
            worth = value * share - quote.spot_usd_per_gpu_hour * gpus - (hours * value + usd) / life
            found.append(RankedHolding(worth, Wish(gpus, 0, name), MOVES if carries else STARTS))
        return [one for one in found if one.usd_per_hour >= 0.0]

    def _value(self, view: View) -> float:
        """Return what an hour of progress is worth: the more, the further the job is behind its plan."""
        every, quotes = terms_in(view), [pool.quote for pool in view.pools]
        terms = every[view.pool]
        whole, left = (
            work_hours(terms, done, terms.fastest) for done in (0.0, view.state.progress_gpu_hours)
        )
        planned, needed = whole / view.job.deadline_hours, left / max(view.hours_left, view.slot_hours)
        pairs = list(zip(every, quotes, strict=True))
        on_demand = min(quote.on_demand_usd_per_gpu_hour * float(one.fastest) for one, quote in pairs)
        cheapest = min(quote.spot_usd_per_gpu_hour * float(one.fastest) for one, quote in pairs)
        return max(on_demand * needed / planned, cheapest)
