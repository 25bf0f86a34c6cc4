"""On demand only: the policy that needs no Slacktide, and the bill that others are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slacktide.core.compiled import compilable
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, JobState
from slacktide.physics.progress import on_demand_finish
from slacktide.policies.base import Context, RuleChoice, Sight, decide_by_rule, policies
from slacktide.policies.view import View


@compilable
def smallest_constant_width(_: tuple[()], sight: Sight) -> RuleChoice:
    """Hold, from start to end, the smallest width that meets the deadline on demand."""
    terms = sight.terms
    fresh = JobState(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, np.inf, False)
    for width in range(1, len(terms.fit)):
        if terms.fit[width] == width:
            finish = on_demand_finish(terms, fresh, terms.submitted_hours, width)
            if finish <= terms.deadline_hours + 0.5 * TIME_TOLERANCE_HOURS:
                return RuleChoice(0, width, 0)
    return RuleChoice(0, terms.fastest, 1)


@policies.register
@dataclass(frozen=True, slots=True)
class OnDemand:
    """Hold the smallest constant width that meets the deadline, all on demand.

    Want it when spot is not worth the trouble; everybody else is measured against its bill.
    """

    def decide(self, view: View) -> Allocation:
        return decide_by_rule(self, view)

    def rule(self, context: Context) -> tuple[Any, tuple[()]]:
        return smallest_constant_width, ()

    def reasons(self) -> tuple[str, ...]:
        return ("smallest-width-in-time", "deadline-out-of-reach")
