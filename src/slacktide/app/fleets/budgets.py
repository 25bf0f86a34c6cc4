"""How wide each class of a fleet file should run on an average budget, the file's own or a given one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slacktide.budget.classes import JobClass
from slacktide.budget.frontier import frontier
from slacktide.budget.width_plan import WidthPlan, answer
from slacktide.budget.widths import rounded_up
from slacktide.core.errors import InfeasibleError, InputError
from slacktide.core.units import HOURS_PER_MONTH, format_duration, parse_budget
from slacktide.files.fleet.fleet import FleetFile, gpus_of, read_fleet_file


def find_budget(
    path: str, budget_text: str | None, response_hours: float | None, *, integer: bool
) -> tuple[WidthPlan, str]:
    """Return how wide each class of a fleet file should run, and the budget for that as it was written.

    `budget_text`, or the cheapest budget with the mean response `response_hours`, replaces the file's. Raises
    as `budget` does, and FileError.
    """
    if budget_text is not None and response_hours is not None:
        raise InputError("only one of --budget and --response may be given, got both")
    file = read_fleet_file(path)
    plan = budget(
        file.classes,
        None if response_hours is not None else budget_gpus(file, budget_text),
        mean_response_hours=response_hours,
        usd_per_gpu_hour=file.usd_per_gpu_hour,
        integer=integer,
    )
    return plan, budget_text or file.budget


def budget_gpus(file: FleetFile, text: str | None) -> float:
    """Return the GPUs of a `--budget`, or of the file's budget if none was given."""
    if not file.classes:
        raise InputError(
            f"{file.path}: a fleet must have classes to know its widths, got none; add 'classes:'"
        )
    if text is None and math.isinf(file.budget_gpus):
        raise InputError(
            f"{file.path}: widths on an average budget need the price of a GPU-hour, got only a market; "
            "write for instance 'price: 2.50 usd'"
        )
    if text is None:
        return file.budget_gpus
    try:
        return gpus_of(parse_budget(text), file.usd_per_gpu_hour)
    except InputError as error:
        raise InputError(f"--budget: {error}") from error


def budget(
    classes: Sequence[JobClass],
    budget_gpus: float | None = None,
    *,
    mean_response_hours: float | None = None,
    usd_per_gpu_hour: float | None = None,
    integer: bool = True,
) -> WidthPlan:
    """Return how wide each class of jobs should run on an average budget, and what that buys.

    Give either the budget, or a mean response to find the cheapest budget for. Raises InfeasibleError when
    the budget is too small for the work that arrives, or the response faster than any budget buys.
    """
    if (budget_gpus is None) == (mean_response_hours is None):
        raise InputError("one of budget_gpus and mean_response_hours must be given, got both or neither")
    curve = frontier(classes, integer)
    if budget_gpus is None:
        assert mean_response_hours is not None
        _check_soon_enough(float(curve.mean_response_hours[-1]), mean_response_hours)
        budget_gpus = curve.cheapest_budget_for(mean_response_hours)
    check_enough(float(curve.budget_gpus[0]), budget_gpus, usd_per_gpu_hour)
    return answer(curve, budget_gpus, usd_per_gpu_hour=usd_per_gpu_hour, integer=integer)


def check_enough(least_gpus: float, budget_gpus: float, usd_per_gpu_hour: float | None) -> None:
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
        # Rounded up, so that the printed time can be reached.
        least = format_duration(math.ceil(fastest_hours * 3600) / 3600)
        raise InfeasibleError(
            f"the mean response must be >= {least}, the fastest on any budget, got "
            f"{format_duration(mean_response_hours)}; allow more time, or wider widths"
        )
