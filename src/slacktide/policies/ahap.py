"""AHAP: plans a few slots ahead with a forecast, and averages what its last plans say about this slot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.compiled import compilable
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.core.types import Allocation, Reason
from slacktide.physics.progress import Terms, cut
from slacktide.policies.base import Context, RuleChoice, Sight, line, policies, sight, signals
from slacktide.policies.view import View
from slacktide.solvers.slotted import on_slots
from slacktide.solvers.window.programme import LINE_BINDS, OUT_OF_REACH, plan_window

BANKED, WAITING, CATCHING_UP, TOO_FAR, REPAIRED = range(5)
NO_PLAN = -1.0


class AhapParameters(NamedTuple):
    window: int
    price_threshold: float
    forecasts: Floats
    plans: Floats
    """[age, slot of the plan, (spot, on demand)]: the policy's memory, its plans of this slot and before."""


@compilable
def quotes_ahead(parameters: AhapParameters, sight: Sight) -> Floats:
    """Return the window's quotes: the present one, then forecasts, the last one repeated where they end."""
    forecast = parameters.forecasts[sight.at]
    quotes = np.empty((parameters.window, 3))
    quotes[0, 0] = sight.quote.spot_usd_per_gpu_hour
    quotes[0, 1] = sight.quote.on_demand_usd_per_gpu_hour
    quotes[0, 2] = sight.quote.spot_gpus
    for ahead in range(1, parameters.window):
        quotes[ahead] = forecast[ahead - 1] if ahead <= len(forecast) else quotes[ahead - 1]
    return quotes


@compilable
def mean_wish(plans: Floats) -> tuple[int, int]:
    """Return the spot and on-demand GPUs of this slot, averaged over the plans kept and rounded half up."""
    spot = on_demand = 0.0
    count = 0
    for age in range(len(plans)):
        if plans[age, age, 0] != NO_PLAN:
            spot += plans[age, age, 0]
            on_demand += plans[age, age, 1]
            count += 1
    return math.floor(spot / count + 0.5), math.floor(on_demand / count + 0.5)


@compilable
def feasible(terms: Terms, quote: Quote, spot: int, on_demand: int, behind: bool) -> tuple[int, int]:
    """Cut a wish to what is offered; a job behind the line replaces missing spot with on-demand GPUs."""
    if behind:
        missing = max(0, spot - quote.spot_gpus)
        spot, on_demand = spot - missing, on_demand + missing
        for width in range(spot + on_demand, len(terms.fit)):
            if terms.fit[width] == width:
                return spot, width - spot
    return cut(terms, quote, spot, on_demand)


@compilable
def committed_horizon(parameters: AhapParameters, sight: Sight) -> RuleChoice:
    """Plan the window, and hold the mean of what this and the last plans say about this slot."""
    terms, state, quote, plans = sight.terms, sight.state, sight.quote, parameters.plans
    if sight.slot == 0:
        plans[:] = NO_PLAN
    for age in range(len(plans) - 1, 0, -1):
        plans[age] = plans[age - 1]
    reserve = parameters.price_threshold * quote.on_demand_usd_per_gpu_hour
    begun = sight.next_hours - (sight.slot + 1) * sight.tariff.slot_hours
    job = on_slots(terms, sight.tariff, begun)
    case = plan_window(job, state, sight.slot, quotes_ahead(parameters, sight), reserve, plans[0])

    wished_spot, wished_on_demand = mean_wish(plans)
    behind = state.progress_gpu_hours < line(terms, sight.now_hours) - 1e-9 * terms.work_gpu_hours
    spot, on_demand = feasible(terms, quote, wished_spot, wished_on_demand, behind)
    why = BANKED if spot + on_demand > 0 else WAITING
    if spot != wished_spot or on_demand != wished_on_demand:
        why = REPAIRED
    elif case == LINE_BINDS:
        why = CATCHING_UP
    elif case == OUT_OF_REACH:
        why = TOO_FAR
    return RuleChoice(spot, on_demand, why)


@policies.register
@dataclass(frozen=True, slots=True)
class Ahap:
    """Plan a few slots ahead with the forecast, and hold the mean of the last plans for this slot.

    A plan has to end on the straight line to the deadline or above it; beyond the line it buys work
    only for less than `price_threshold` times the on-demand price. So cheap spot is banked ahead of
    need, and on demand fills what forecast spot leaves open. Want it where forecasts are good. From
    Kong et al. 2025, on committed horizon control (Chen et al. 2016): a commitment of 1 follows
    each new plan at once, one as long as the window trusts a single forecast least.
    """

    window: int = 5  # slots looked at, the present one included
    commitment: int = 1  # for how many slots a plan counts
    price_threshold: float = 0.6  # what banked work may cost, as a share of the on-demand price

    def __post_init__(self) -> None:
        if self.window < 1:
            raise InputError(f"ahap: window must be >= 1, got {self.window}")
        if not 1 <= self.commitment <= self.window:
            raise InputError(f"ahap: commitment must be in 1..window ({self.window}), got {self.commitment}")
        if not 0.0 < self.price_threshold <= 1.0:
            raise InputError(f"ahap: price_threshold must be in (0, 1], got {self.price_threshold:g}")

    def decide(self, view: View) -> Allocation:
        forecast = [quote[:3] for quote in view.forecast()[: self.window - 1]]
        context = Context(np.array(forecast, dtype=np.float64).reshape(1, -1, 3))
        function, parameters = self.rule(context)
        if len(view.memory) == parameters.plans.size:
            parameters.plans[:] = np.array(view.memory).reshape(parameters.plans.shape)
        choice = function(parameters, sight(view))
        return Allocation(
            int(choice.spot_gpus),
            int(choice.on_demand_gpus),
            reason=Reason(self.reasons()[choice.why], self._signals(view, parameters)),
            memory=tuple(parameters.plans.ravel().tolist()),
        )

    def rule(self, context: Context) -> tuple[Any, AhapParameters]:
        plans = np.full((self.commitment, self.window, 2), NO_PLAN)
        return committed_horizon, AhapParameters(self.window, self.price_threshold, context.forecasts, plans)

    def reasons(self) -> tuple[str, ...]:
        return ("bank-cheap-spot", "wait-for-cheap-spot", "catch-up", "line-out-of-reach", "made-feasible")

    def _signals(self, view: View, parameters: AhapParameters) -> dict[str, float]:
        spot, on_demand = mean_wish(parameters.plans)
        return {
            **signals(view),
            "reserve_usd_per_gpu_hour": self.price_threshold * view.quote.on_demand_usd_per_gpu_hour,
            "planned_spot_gpus": float(parameters.plans[0, 0, 0]),
            "planned_on_demand_gpus": float(parameters.plans[0, 0, 1]),
            "mean_spot_gpus": float(spot),
            "mean_on_demand_gpus": float(on_demand),
        }
