"""Switches a job to on-demand GPUs before waiting any longer could miss its hard deadline; wraps any policy.

Jobs that may move between pools: `pools/rescue`; jobs of a fleet: `allocators.prices.deadline_guarantees`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slacktide.core.compiled import compilable, inlined
from slacktide.core.errors import InputError, shown
from slacktide.core.types import Allocation, Reason, Wish
from slacktide.physics.pace import MEASURED_HOURS, Z, is_measured, margin_factor, safe
from slacktide.physics.progress import (
    Terms,
    can_still_wait,
    cut,
    latest_start,
    on_demand_first,
    rescue_width,
    work_hours,
)
from slacktide.policies.base import (
    Context,
    RuleChoice,
    RulePolicy,
    Sight,
    inner,
    policies,
    rule_round,
    sight,
    signals,
)
from slacktide.policies.pools.rescue import guarded_wishes, terms_in
from slacktide.policies.view import Policy, View, decision_of

GUARDED, MEASURING = 1000, 1001
"""`RuleChoice.why` of decisions that the guard made; smaller numbers are the inner policy's."""
REASONS = {GUARDED: "deadline-guard", MEASURING: "measure-first"}


@inlined
def guarded(parameters: tuple[Any, ...], sight: Sight) -> RuleChoice:
    """Measure the pace, then follow the inner rule while the deadline is safe whatever the market does."""
    choice = inner(parameters, sight)
    if not is_measured(sight.pace):
        choice = measuring(sight, choice)
    # Far from the deadline even an idle slot is safe; this keeps batches fast.
    if sight.next_hours <= latest_start(sight.terms, sight.state.checkpointed_gpu_hours, margin(sight)):
        return choice
    return guard(sight, choice)


@compilable
def measuring(sight: Sight, choice: RuleChoice) -> RuleChoice:
    """Hold at least the width on which the pace is measured: spot as it is offered, the rest on demand."""
    wanted = measuring_width(sight.terms, sight.tariff.slot_hours)
    if choice.spot_gpus + choice.on_demand_gpus >= wanted:
        return choice
    spot = min(sight.quote.spot_gpus, wanted)
    return RuleChoice(spot, wanted - spot, MEASURING)


@compilable
def measuring_width(terms: Terms, slot_hours: float) -> int:
    """Return the least width if even a job twice as slow has time, else the least that meets the deadline."""
    least = least_width(terms)
    given = terms.deadline_hours - terms.submitted_hours
    twice = terms.restart_hours + 2.0 * work_hours(terms, 0.0, terms.fastest)
    if given >= twice + to_spare(terms, slot_hours):
        return least
    width = least
    while width < terms.fastest and (terms.fit[width] != width or work_hours(terms, 0.0, width) > given):
        width += 1
    return width


@inlined
def least_width(terms: Terms) -> int:
    """Return the smallest width that the job may have."""
    width = 1
    while terms.fit[width] != width:
        width += 1
    return width


@compilable
def to_spare(terms: Terms, slot_hours: float) -> float:
    """Return how many hours before the deadline on demand from the start must end for the promise to hold.

    They allow for the measurement on the least width, for a restart to get there and one to leave it, and
    for losing the work since a checkpoint.
    """
    least = least_width(terms)
    slots = math.ceil((terms.restart_hours + MEASURED_HOURS) / slot_hours - 1e-9)
    lost = 1.0 - work_hours(terms, 0.0, terms.fastest) / work_hours(terms, 0.0, least)
    checkpoint = terms.checkpoint_hours if terms.checkpoint_hours < np.inf else 0.0
    return slots * slot_hours * lost + 2.0 * terms.restart_hours + checkpoint


@inlined
def margin(sight: Sight) -> float:
    """Return the safe pace of the fastest width as a share of its believed pace; 1 until it is measured."""
    if not is_measured(sight.pace):
        return 1.0
    terms = sight.terms
    left = work_hours(terms, sight.state.progress_gpu_hours, terms.fastest)
    return margin_factor(sight.pace, terms.fastest, left, sight.tariff.slot_hours, Z)


@compilable
def guard(sight: Sight, choice: RuleChoice) -> RuleChoice:
    """Rent on demand now if the deadline could be missed after this choice; otherwise return the choice.

    If too few on-demand GPUs are available, spot makes up the rest.
    """
    terms, state = sight.terms, sight.state
    if is_measured(sight.pace) and sight.pace.hours < np.inf:
        terms = safe(terms, sight.pace, state.progress_gpu_hours, sight.tariff.slot_hours, Z)
    spot, on_demand = cut(terms, sight.quote, choice.spot_gpus, choice.on_demand_gpus)
    if can_still_wait(terms, state, sight.now_hours, sight.next_hours, sight.hours, spot, on_demand):
        return choice
    spot, on_demand = on_demand_first(sight.quote, rescue_width(terms, state, sight.now_hours))
    return RuleChoice(spot, on_demand, GUARDED)


@policies.register
@dataclass(frozen=True, slots=True)
class DeadlineGuard:
    """Follow another policy, but never let the last moment pass at which on demand is still on time.

    If renting on demand from the start meets the deadline, a guarded policy is never late, on any market on
    which on-demand GPUs are always there. Every policy is wrapped in it when the deadline is hard. Where the
    work is not known for certain, the pace is measured first, and the last moment is that of a pace slower
    than it seems.
    """

    inner: Policy = "uniform-progress"  # type: ignore[assignment]  # a name or mapping is looked up

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", policies.make(self.inner))
        if not isinstance(self.inner, Policy):
            raise InputError(f"deadline-guard: inner must be a policy, got {shown(self.inner)}")

    def decide(self, view: View) -> Allocation:
        wanted = decision_of(self.inner, view)
        if view.places is not None:
            return _guarded_over_pools(view, wanted)
        seen, kept = sight(view), RuleChoice(wanted.spot_gpus, wanted.on_demand_gpus, 0)
        kept = guard(seen, kept if is_measured(view.pace) else measuring(seen, kept))
        if kept.why not in REASONS:
            return wanted
        reason = Reason(REASONS[kept.why], signals(view))
        return Allocation(int(kept.spot_gpus), int(kept.on_demand_gpus), wanted.pool, reason, wanted.memory)

    def rule(self, context: Context) -> tuple[Callable[..., RuleChoice], tuple[Any, ...]]:
        return rule_round(guarded, self.inner, context)

    def reasons(self) -> tuple[str, ...]:
        return self.inner.reasons() if isinstance(self.inner, RulePolicy) else ()


def _guarded_over_pools(view: View, wanted: Allocation) -> Allocation:
    """Drop the wishes that would risk the deadline, and put last one that is certain to meet it."""
    wishes = wanted.wishes if is_measured(view.pace) else _measuring_wishes(view, wanted.wishes)
    kept, rescued = guarded_wishes(view, wishes)
    first, *rest = kept
    reason = wanted.reason
    if first != wanted.wishes[0]:
        left_out = rescued or first in wanted.wishes
        reason = Reason(REASONS[GUARDED if left_out else MEASURING], signals(view))
    return Allocation(first.spot_gpus, first.on_demand_gpus, first.pool, reason, wanted.memory, tuple(rest))


def _measuring_wishes(view: View, wishes: Sequence[Wish]) -> list[Wish]:
    """Widen every wish to the width on which the pace is measured, with on-demand GPUs."""
    assert view.places is not None
    terms, names = terms_in(view), [pool.name for pool in view.pools]
    wider = []
    for wish in wishes:
        pool = view.pool if wish.pool is None else names.index(wish.pool)
        width = measuring_width(terms[pool], view.slot_hours)
        more = max(0, width - wish.gpus)
        wider.append(wish._replace(on_demand_gpus=wish.on_demand_gpus + more))
    return wider


def label(policy: Policy) -> str:
    """Return a policy's name with the parameters that are not at their defaults."""
    name = policies.name_of(policy)
    if isinstance(policy, DeadlineGuard):
        return f"{name}({label(policy.inner)})"
    words = [f"{key}={value}" for key, value in policies.changed(policy).items()]
    return f"{name}({','.join(words)})" if words else name
