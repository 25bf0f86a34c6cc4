"""Makes an allocator of policies for one job: each job's own policy decides in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slacktide.allocators.site.spot import Claim
from slacktide.allocators.view import FleetView
from slacktide.core.types import Allocation
from slacktide.physics import progress as physics
from slacktide.policies.base import after_deadline, terms_of
from slacktide.policies.pools.rescue import file_terms, late_over_pools
from slacktide.policies.view import Policy, View


@dataclass(frozen=True, slots=True)
class Each:
    """Let the policy of every job that is due decide: the least slack first, each with what is left.

    A policy is shown what is left after the jobs before it were served, so its guard judges what the job
    will really get: cutting a guarded wish afterwards would break the promise. Spot that a job holds is
    never given to another job.
    """

    policy_of: Callable[[str], Policy]  # the policy of a job, by its name

    def decide(self, view: FleetView) -> dict[str, Allocation]:
        left, wanted = view.spot.copy(), dict[str, Allocation]()
        # What a job is offered changes as jobs before it are served; its slack does not.
        slack = {place: slack_hours(view.row(place)) for place in view.due}
        for place in sorted(slack, key=slack.__getitem__):
            row = view.row(place, left)
            late = after_deadline(row) if row.places is None else late_over_pools(row)
            wish = late or self.policy_of(row.id).decide(row)
            left.hold(claimed(row, wish))
            wanted[row.id] = wish
        return wanted


def each(policy: Policy) -> Each:
    """Return an allocator in which this policy decides about every job."""
    return Each(lambda job: policy)


def slack_hours(view: View) -> float:
    """Return how long a job could hold nothing and still be in time; infinite without a deadline."""
    return physics.latest_start(terms_of(view.job), view.state.checkpointed_gpu_hours) - view.now_hours


def claimed(view: View, wish: Allocation) -> Claim:
    """Return what a job will hold: the first of its wishes that a pool has the GPUs for, cut to its offer."""
    if view.places is not None:
        return _claimed_somewhere(view, wish)
    spot, on_demand = physics.cut(terms_of(view.job), view.quote, wish.spot_gpus, wish.on_demand_gpus)
    return Claim(view.id, view.pools[view.pool].name, int(spot), view.now_hours, int(on_demand))


def _claimed_somewhere(view: View, wish: Allocation) -> Claim:
    assert view.places is not None
    names = [pool.name for pool in view.pools]
    for number, each in enumerate(wish.wishes):
        at = view.pool if each.pool not in names else names.index(each.pool)
        quote = view.quote if at == view.pool else view.pools[at].quote
        if each.spot_gpus > quote.spot_gpus:
            continue
        terms = file_terms(view.places)[at]
        stocked = physics.is_stocked(terms, quote, each.spot_gpus, each.on_demand_gpus)
        if stocked or number == len(wish.instead):
            spot, on_demand = physics.cut(terms, quote, each.spot_gpus, each.on_demand_gpus)
            return Claim(view.id, names[at], int(spot), view.now_hours, int(on_demand))
    return Claim(view.id, names[view.pool], 0, view.now_hours)
