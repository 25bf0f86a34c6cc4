"""Uniform Progress, from "Can't Be Late" (Wu et al., NSDI 2024), elastic and gang."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from slacktide.core.compiled import compilable, inlined
from slacktide.core.types import Allocation, JobState
from slacktide.physics.progress import Terms, pause_after, phase_of, work_hours
from slacktide.policies.base import Context, RuleChoice, Sight, decide_by_rule, line, policies
from slacktide.policies.view import View

SPOT, AHEAD, BEHIND, CATCHING_UP, SAFETY_NET = range(5)


class PaceParameters(NamedTuple):
    gang: bool


@compilable
def missing_on_demand(terms: Terms, state: JobState, hours: float, spot: int, goal: float) -> int:
    """Return the fewest on-demand GPUs that with this spot reach the goal in time; the most if none do."""
    phase = phase_of(terms, state.progress_gpu_hours)
    for width in range(max(spot, 1), len(terms.fit)):
        if terms.fit[width] == width:
            pause = pause_after(terms, state, spot, width - spot, state.pool)
            productive = max(0.0, hours - pause)
            if state.progress_gpu_hours + terms.rate[phase, width] * productive >= goal:
                return width - spot
    return len(terms.fit) - 1 - spot


@inlined
def uniform_progress(parameters: PaceParameters, sight: Sight) -> RuleChoice:
    """Take spot when it is offered; rent on demand when behind the line, until well ahead of it."""
    terms, state = sight.terms, sight.state
    widest = len(terms.fit) - 1
    now = sight.now_hours
    margin = 2.0 * terms.restart_hours
    done = state.progress_gpu_hours
    left = work_hours(terms, done, terms.fastest)

    spot = terms.fit[min(sight.quote.spot_gpus, widest)]
    if parameters.gang and spot < widest:
        spot = 0

    if state.on_demand_gpus > 0 and done < line(terms, now + margin):
        why = CATCHING_UP
    elif spot > 0 and (parameters.gang or done >= line(terms, now)):
        return RuleChoice(spot, 0, SPOT)
    elif terms.deadline_hours - now < left + margin:
        why = SAFETY_NET
    elif done < line(terms, now):
        why = BEHIND
    else:
        return RuleChoice(spot, 0, AHEAD)

    if parameters.gang:
        return RuleChoice(0, widest, why)
    if why == SAFETY_NET:
        return RuleChoice(spot, max(terms.fastest - spot, 0), why)
    goal = line(terms, now + sight.hours + margin)
    return RuleChoice(spot, missing_on_demand(terms, state, sight.hours, spot, goal), why)


@policies.register
@dataclass(frozen=True, slots=True)
class UniformProgress:
    """Take spot when it is offered; rent on demand only when behind a straight line to the deadline.

    On demand stays until the job is two restarts ahead of the line. The elastic form rents just
    the GPUs missing from the width that the line needs; `gang` holds all GPUs or none, and spot
    or on demand but never both, as in the paper.
    """

    gang: bool = False

    def decide(self, view: View) -> Allocation:
        return decide_by_rule(self, view)

    def rule(self, context: Context) -> tuple[Any, PaceParameters]:
        return uniform_progress, PaceParameters(self.gang)

    def reasons(self) -> tuple[str, ...]:
        return ("take-spot", "ahead-of-line", "behind-line", "catching-up", "safety-net")
