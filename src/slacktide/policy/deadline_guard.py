"""The promise to be in time, as a wrapper round any policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slacktide.compiled import compilable, compiled, inlined
from slacktide.deciding import Policy, View
from slacktide.errors import InputError, shown
from slacktide.physics import can_still_wait, cut, latest_start, rescue_width
from slacktide.policy.base import Choice, Context, RulePolicy, Sight, policies, sight, signals
from slacktide.types import Allocation, Reason

GUARDED = 1000
"""Choice.why of a decision that the guard took; smaller numbers are the inner policy's."""


@compilable
def inner(parameters: tuple[Any, ...], sight: Sight) -> Choice:
    """Stand for the guarded rule; `compiled(guarded, inner=...)` puts the real one here."""
    return Choice(0, 0, 0)


@inlined
def guarded(parameters: tuple[Any, ...], sight: Sight) -> Choice:
    """Follow the inner rule while the deadline stays safe whatever the market does."""
    choice = inner(parameters, sight)
    # Far from the deadline even an idle slot is safe; this keeps batches fast.
    if sight.next_hours <= latest_start(sight.terms, sight.state.checkpointed_gpu_hours):
        return choice
    return guard(sight, choice)


@compilable
def guard(sight: Sight, choice: Choice) -> Choice:
    """Replace a choice after which the deadline could be missed by on-demand GPUs now."""
    terms, state = sight.terms, sight.state
    spot, on_demand = cut(terms, sight.quote, choice.spot_gpus, choice.on_demand_gpus)
    if can_still_wait(terms, state, sight.now_hours, sight.next_hours, sight.hours, spot, on_demand):
        return choice
    return Choice(0, rescue_width(terms, state, sight.now_hours), GUARDED)


@policies.register
@dataclass(frozen=True, slots=True)
class DeadlineGuard:
    """Follow another policy, but never let the last moment pass at which on demand is in time.

    If renting on demand from the start meets the deadline, a guarded policy is never late, on
    any market. Every policy is wrapped in it when the deadline is hard.
    """

    inner: Policy = "uniform-progress"  # type: ignore[assignment]  # a name or mapping is looked up

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", policies.make(self.inner))
        if not isinstance(self.inner, Policy):
            raise InputError(f"deadline-guard: inner must be a policy, got {shown(self.inner)}")

    def decide(self, view: View) -> Allocation:
        wanted = self.inner.decide(view)
        kept = guard(sight(view), Choice(wanted.spot_gpus, wanted.on_demand_gpus, 0))
        if kept.why != GUARDED:
            return wanted
        reason = Reason("deadline-guard", signals(view))
        return Allocation(0, int(kept.on_demand_gpus), wanted.pool, reason, wanted.memory)

    def rule(self, context: Context) -> tuple[Callable[..., Choice], tuple[Any, ...]]:
        """Return the compiled rule; raises TypeError when the inner policy has none."""
        if not isinstance(self.inner, RulePolicy):
            raise TypeError(f"{self.inner!r} has no rule to compile")
        function, parameters = self.inner.rule(context)
        return compiled(guarded, inner=function), parameters

    def reasons(self) -> tuple[str, ...]:
        return self.inner.reasons() if isinstance(self.inner, RulePolicy) else ()
