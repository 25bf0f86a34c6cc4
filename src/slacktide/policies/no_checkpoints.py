"""Workers of a job without checkpoints are kept: changing them would begin its work anew."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from slacktide.core.compiled import compilable, inlined
from slacktide.core.types import TIME_TOLERANCE_HOURS, Allocation, Job, Reason
from slacktide.physics.progress import finish_in
from slacktide.policies.base import Context, RuleChoice, RulePolicy, Sight, inner, rule_round, sight, signals
from slacktide.policies.view import Policy, View, decision_of

KEPT = 2000  # Choice.why of a holding that was kept; smaller numbers are the inner policy's


@inlined
def unbroken(parameters: tuple[Any, ...], sight: Sight) -> RuleChoice:
    """Follow the inner rule while nothing would be thrown away by it."""
    return keep(sight, inner(parameters, sight))


@compilable
def keep(sight: Sight, choice: RuleChoice) -> RuleChoice:
    """Replace a change of workers that throws work away, where the present ones would be in time."""
    terms, state = sight.terms, sight.state
    if terms.checkpoint_hours < np.inf or state.progress_gpu_hours <= state.checkpointed_gpu_hours:
        return choice
    finish = finish_in(terms, state, sight.now_hours, state.pool, state.on_demand_gpus, state.spot_gpus)
    if finish > terms.deadline_hours + 0.5 * TIME_TOLERANCE_HOURS:
        return choice
    return RuleChoice(state.spot_gpus, state.on_demand_gpus, KEPT)


@dataclass(frozen=True, slots=True)
class Unbroken:
    """Follow another policy, but keep workers that have work to lose and would be in time as they are.

    Every policy is wrapped in it for a job without checkpoints. What the market takes is lost all the same,
    and the deadline guard outside of it may still change the workers.
    """

    inner: Policy

    def decide(self, view: View) -> Allocation:
        wanted = decision_of(self.inner, view)
        kept = keep(sight(view), RuleChoice(wanted.spot_gpus, wanted.on_demand_gpus, 0))
        if kept.why != KEPT:
            return wanted
        reason = Reason("no-checkpoint", signals(view))
        return Allocation(int(kept.spot_gpus), int(kept.on_demand_gpus), None, reason, wanted.memory)

    def rule(self, context: Context) -> tuple[Callable[..., RuleChoice], tuple[Any, ...]]:
        return rule_round(unbroken, self.inner, context)

    def reasons(self) -> tuple[str, ...]:
        return self.inner.reasons() if isinstance(self.inner, RulePolicy) else ()


def keeping(policy: Policy, job: Job) -> Policy:
    """Return a policy as it runs for a job: one without checkpoints keeps its workers."""
    return Unbroken(policy) if math.isinf(job.checkpoint_hours) else policy
