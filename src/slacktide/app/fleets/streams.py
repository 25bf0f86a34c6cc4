"""Streams of jobs on an average budget: how wide each class should run, and how policies compare."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slacktide.allocators.base import allocators
from slacktide.allocators.view import AnyAllocator
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.solution.frontier import frontier
from slacktide.budget.stream import Stream
from slacktide.budget.width_plan import WidthPlan, answer
from slacktide.budget.widths import least_budget_gpus, rounded_up
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.register import Spec
from slacktide.core.units import HOURS_PER_MONTH, format_duration
from slacktide.results.fleets.stream import StreamComparison
from slacktide.simulation.compare import Progress
from slacktide.simulation.fleet.stream_comparison import compare_streams

DEFAULT_ALLOCATORS: tuple[str, ...] = (
    "fixed-width",
    "online-width",
    "one-width",
    "efficiency-band",
    "equi",
    "fifo",
    "srpt",
)


def budget(
    classes: Sequence[JobClass],
    budget_gpus: float | None = None,
    *,
    mean_response_hours: float | None = None,
    usd_per_gpu_hour: float | None = None,
    integer: bool = True,
) -> WidthPlan:
    """Say how wide each class of jobs should run on an average budget, and what that buys.

    Give either the budget or the mean response that the cheapest one is sought for. Raises InfeasibleError
    when the budget is too small for the work that arrives, or the response faster than any budget buys.
    """
    if (budget_gpus is None) == (mean_response_hours is None):
        raise InputError("one of budget_gpus and mean_response_hours must be given, got both or neither")
    curve = frontier(classes, integer)
    if budget_gpus is None:
        assert mean_response_hours is not None
        _check_soon_enough(float(curve.mean_response_hours[-1]), mean_response_hours)
        budget_gpus = curve.cheapest_budget_for(mean_response_hours)
    _check_enough(float(curve.budget_gpus[0]), budget_gpus, usd_per_gpu_hour)
    return answer(curve, budget_gpus, usd_per_gpu_hour=usd_per_gpu_hour, integer=integer)


def simulate(
    stream: Stream,
    fleet: Fleet,
    policies: Sequence[Spec | AnyAllocator] | None = None,
    *,
    progress: Progress | None = None,
) -> StreamComparison:
    """Run a stream of jobs under allocators, each beside the optimum at its own realised spending.

    A policy given by its bare name is turned until it spends the fleet's budget; without `policies` all known
    ones are run. Raises InfeasibleError when the budget is too small for the work that arrives.
    """
    _check_enough(least_budget_gpus(fleet.classes), fleet.budget_gpus, None)
    return compare_streams(stream, fleet, policies or usual_allocators(None), progress=progress)


def usual_allocators(own: Spec | None) -> list[Spec]:
    """Return the common allocators that are installed and a fleet's own, each once."""
    common = [name for name in DEFAULT_ALLOCATORS if name in allocators]
    return [*common, *([] if own is None or own in DEFAULT_ALLOCATORS else [own])]


def _check_enough(least_gpus: float, budget_gpus: float, usd_per_gpu_hour: float | None) -> None:
    """Raise InfeasibleError, in GPUs and money, when a budget is smaller than the least."""
    if budget_gpus >= least_gpus * (1 - 1e-12):
        return
    least, came = f"{rounded_up(least_gpus)} GPUs on average", f"{budget_gpus:.4g} GPUs"
    if usd_per_gpu_hour is not None:
        month = usd_per_gpu_hour * HOURS_PER_MONTH
        least += f" ({math.ceil(least_gpus * month):,} usd/month)"
        came += f" ({budget_gpus * month:,.0f} usd/month)"
    raise InfeasibleError(
        f"the budget must be >= {least}, the minimum to get through the work that arrives, got {came}; "
        "raise the budget, or allow narrower widths"
    )


def _check_soon_enough(fastest_hours: float, mean_response_hours: float) -> None:
    if 0 < mean_response_hours < fastest_hours * (1 - 1e-12):
        # Rounded up, so that whoever asks for what is printed gets it.
        least = format_duration(math.ceil(fastest_hours * 3600) / 3600)
        raise InfeasibleError(
            f"the mean response must be >= {least}, the fastest on any budget, got "
            f"{format_duration(mean_response_hours)}; allow more time, or wider widths"
        )
