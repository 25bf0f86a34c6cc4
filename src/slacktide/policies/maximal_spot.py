"""Maximal spot (MSU): all available spot until the deadline forbids waiting any longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from slacktide.core.compiled import inlined
from slacktide.core.types import Allocation
from slacktide.physics.progress import can_still_wait, on_demand_first, rescue_width
from slacktide.policies.base import Context, RuleChoice, Sight, decide_by_rule, policies
from slacktide.policies.view import View


@inlined
def all_spot_until_it_must_end(_: tuple[()], sight: Sight) -> RuleChoice:
    """Take all available spot; rent on demand once the rest would no longer fit otherwise."""
    terms, state = sight.terms, sight.state
    spot = terms.fit[min(sight.quote.spot_gpus, len(terms.fit) - 1)]
    if can_still_wait(terms, state, sight.now_hours, sight.next_hours, sight.hours, spot, 0):
        return RuleChoice(spot, 0, 0 if spot > 0 else 1)
    spot, on_demand = on_demand_first(sight.quote, rescue_width(terms, state, sight.now_hours))
    return RuleChoice(spot, on_demand, 2)


@policies.register
@dataclass(frozen=True, slots=True)
class MaximalSpot:
    """Take all available spot; rent on demand only when the rest of the work would no longer fit.

    Want it when spot is plentiful and the deadline far. Known as MSU in Kong et al. 2025.
    """

    def decide(self, view: View) -> Allocation:
        return decide_by_rule(self, view)

    def rule(self, context: Context) -> tuple[Any, tuple[()]]:
        return all_spot_until_it_must_end, ()

    def reasons(self) -> tuple[str, ...]:
        return ("take-all-spot", "wait-for-spot", "last-moment")
