"""Uniform progress over pools: spot wherever there is some, the cheapest first; on demand behind the line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slacktide.core.types import Allocation, Reason, Wish
from slacktide.policies.base import policies, signals
from slacktide.policies.pools.pool_beliefs import is_fed
from slacktide.policies.pools.rescue import home, terms_in
from slacktide.policies.view import View
from slacktide_papers.baselines.single_pool import over_pools


@policies.register
@dataclass(frozen=True, slots=True)
class EagerFailover:
    """Hold spot until it is taken, then try every pool by price; on demand while behind an even pace.

    The rules of Can't Be Late (NSDI 2024), carried over to several pools: a job that idles behind the line
    rents on demand, and keeps that until it is ahead of where the line will be two restarts later. A baseline
    for policies over pools; the deadline guard is its safety net.
    """

    roams: ClassVar[bool] = True

    def decide(self, view: View) -> Allocation:
        view = over_pools(view)
        assert view.places is not None
        terms, quotes = terms_in(view), [pool.quote for pool in view.pools]
        state, names = view.state, [pool.name for pool in view.pools]
        if state.spot_gpus >= terms[view.pool].fastest:
            return Allocation(state.spot_gpus, 0, names[view.pool], Reason("keeps-spot", signals(view)))
        last = home(terms, view.places, quotes, state, view.now_hours)
        ahead_hours = 2.0 * terms[view.pool].restart_hours
        done, line = state.progress_gpu_hours, view.job.line_gpu_hours
        behind = done < line(view.now_hours)
        if state.on_demand_gpus and done < line(view.now_hours + ahead_hours):
            return Allocation(0, state.on_demand_gpus, names[view.pool], Reason("catching-up", signals(view)))
        by_price = sorted(range(len(names)), key=lambda at: quotes[at].spot_usd_per_gpu_hour)
        wishes = [
            Wish(int(terms[at].fastest), 0, names[at])
            for at in by_price
            if quotes[at].spot_gpus >= terms[at].fastest or not is_fed(view, at)
        ]
        wishes.append(Wish(0, last.gpus, names[last.pool]) if behind else Wish())
        first, *rest = wishes
        rule = "take-spot" if first.spot_gpus else ("behind-line" if behind else "ahead-of-line")
        return Allocation(*first, Reason(rule, signals(view)), (), tuple(rest))
