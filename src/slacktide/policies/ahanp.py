"""AHANP: the same aims as AHAP, but without a forecast: it reads three signals of the present slot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from slacktide.core.compiled import compilable, inlined
from slacktide.core.errors import InputError
from slacktide.core.types import Allocation, JobState
from slacktide.physics.progress import Terms, pause_after, phase_of
from slacktide.policies.base import Context, RuleChoice, Sight, decide_by_rule, line, policies
from slacktide.policies.view import View

BANKED, KEPT, IDLE, CHEAP_CATCH_UP, CATCH_UP, NO_SPOT = range(6)


class AhanpParameters(NamedTuple):
    price_threshold: float


@compilable
def needed_width(
    terms: Terms, state: JobState, next_hours: float, hours: float, spot_gpus: int, at_least: int
) -> int:
    """Return the smallest width, from `at_least` on, that is back on the line at the next decision.

    Any pause that it causes counts, and it is filled with spot first. If no width gets there: the fastest.
    """
    whole = terms.deadline_hours - terms.submitted_hours
    goal = terms.work_gpu_hours * min((next_hours - terms.submitted_hours) / whole, 1.0)
    phase = phase_of(terms, state.progress_gpu_hours)
    for width in range(max(at_least, 1), terms.fastest):
        if terms.fit[width] == width:
            spot = min(spot_gpus, width)
            productive = hours - pause_after(terms, state, spot, width - spot, state.pool)
            if state.progress_gpu_hours + terms.rate[phase, width] * max(0.0, productive) >= goal:
                return width
    return terms.fastest


@inlined
def three_signals(parameters: AhanpParameters, sight: Sight) -> RuleChoice:
    """Decide by progress against the line, price against the threshold, and spot against what was held."""
    terms, state, quote = sight.terms, sight.state, sight.quote
    price, on_demand_price = quote.spot_usd_per_gpu_hour, quote.on_demand_usd_per_gpu_hour
    cheap = price <= parameters.price_threshold * on_demand_price
    obtainable = min(quote.spot_gpus, terms.fastest)
    due = line(terms, sight.now_hours)
    if state.progress_gpu_hours >= due - 1e-9 * terms.work_gpu_hours:
        if cheap:
            return RuleChoice(terms.fit[obtainable], 0, BANKED if terms.fit[obtainable] > 0 else IDLE)
        held = terms.fit[state.spot_gpus] if price < on_demand_price else 0
        return RuleChoice(held, 0, KEPT if held > 0 else IDLE)
    if price > on_demand_price:
        obtainable = 0  # spot that is more expensive than on demand is of no use
    why = NO_SPOT if obtainable == 0 else CHEAP_CATCH_UP if cheap else CATCH_UP
    at_least = terms.fit[obtainable] if cheap else 0
    width = needed_width(terms, state, sight.next_hours, sight.hours, obtainable, at_least)
    spot = min(obtainable, width)
    return RuleChoice(spot, width - spot, why)


@policies.register
@dataclass(frozen=True, slots=True)
class Ahanp:
    """Bank spot while it is cheap, and regain the straight line to the deadline as soon as it is lost.

    Ahead of the line all cheap spot is taken, and expensive spot is kept but not sought; behind it spot
    comes first and on demand fills the smallest width that regains the line within the slot. Want it
    where nothing can be forecast. From Kong et al. 2025. It has no memory: whether there is less spot than
    in the slot before shows in how much of the spot it held the market has left it.
    """

    price_threshold: float = 0.6  # spot at or under this share of the on-demand price is cheap

    def __post_init__(self) -> None:
        if not 0.0 < self.price_threshold <= 1.0:
            raise InputError(f"ahanp: price_threshold must be in (0, 1], got {self.price_threshold:g}")

    def decide(self, view: View) -> Allocation:
        return decide_by_rule(self, view)

    def rule(self, context: Context) -> tuple[Any, AhanpParameters]:
        return three_signals, AhanpParameters(self.price_threshold)

    def reasons(self) -> tuple[str, ...]:
        return (
            "bank-cheap-spot",
            "keep-held-spot",
            "ahead-and-idle",
            "behind-cheap-spot",
            "behind-dear-spot",
            "behind-no-spot",
        )
