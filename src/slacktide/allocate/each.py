"""Policies for one job, lifted: one allocator that asks each job's policy in turn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from slacktide import physics
from slacktide.deciding import FleetView, Policy, View
from slacktide.policy.base import after_deadline, terms_of
from slacktide.site.spot import Claim, Spot
from slacktide.types import Allocation


@dataclass(frozen=True, slots=True)
class Each:
    """Ask the policy of every job that is due: the one with the least slack first, each with what is left.

    A policy is asked after those before it were served and sees its true offer, so its guard judges what the
    job will really get: cutting a guarded wish afterwards would break the promise. Spot that a job holds is
    never taken for another's wish.
    """

    policy_of: Callable[[str], Policy]
    """The policy of a job, by its name."""

    def decide(self, view: FleetView) -> dict[str, Allocation]:
        left, wanted = view.spot.copy(), dict[str, Allocation]()
        # What a job is offered changes as those before it are served, how much time it has does not.
        for place, _ in sorted(((place, slack_hours(view.row(place))) for place in view.due), key=_by_slack):
            row = view.row(place, left)
            wish = after_deadline(row) or self.policy_of(row.id).decide(row)
            _take(left, row, wish)
            wanted[row.id] = wish
        return wanted


def each(policy: Policy) -> Each:
    """Return an allocator that asks this policy about every job."""
    return Each(lambda job: policy)


def slack_hours(view: View) -> float:
    """Return how long a job could hold nothing and still be in time; infinite without a deadline."""
    return physics.latest_start(terms_of(view.job), view.state.checkpointed_gpu_hours) - view.now_hours


def _by_slack(one: tuple[int, float]) -> float:
    return one[1]


def _take(left: Spot, view: View, wish: Allocation) -> None:
    """Note what a job will hold of its pool's spot."""
    spot, _ = physics.cut(terms_of(view.job), view.quote, wish.spot_gpus, wish.on_demand_gpus)
    left.hold(Claim(view.id, view.pools[view.pool].name, int(spot), view.now_hours))
