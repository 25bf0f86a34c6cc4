"""Keeps the workers of a job without checkpoints, because changing them would start its work over."""

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

KEPT = 2000  # `RuleChoice.why` of a holding that was kept; smaller numbers are the inner policy's


@inlined
def unbroken(parameters: tuple[Any, ...], sight: Sight) -> RuleChoice:
    """Follow the inner rule unless that would throw work away that the present workers finish in time."""
    return keep(sight, inner(parameters, sight))


@compilable
def keep(sight: Sight, choice: RuleChoice) -> RuleChoice:
    """Return the present holding if a change would lose work and staying is in time, else the choice."""
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

    Every policy of a job without checkpoints is wrapped in it. The market can still take workers, and the
    deadline guard, which wraps this wrapper, may still change them.
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
    """Return the policy, wrapped in `Unbroken` if the job makes no checkpoints."""
    return Unbroken(policy) if math.isinf(job.checkpoint_hours) else policy
