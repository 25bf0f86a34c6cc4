"""A fleet file on an average budget: how wide each class should run, as the file or the request says."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slacktide.app.fleets.streams import budget
from slacktide.budget.width_plan import WidthPlan
from slacktide.core.errors import InputError
from slacktide.core.units import parse_budget
from slacktide.files.fleet.fleet import FleetFile, gpus_of, read_fleet_file


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRequest:
    """A fleet file, and the budget or the mean response that is meant instead of the file's budget."""

    path: str
    budget: str | None = None
    """Instead of the file's, as written: '20 gpus', '40 usd/hour'."""
    response_hours: float | None = None
    """The mean response that the cheapest budget is sought for."""
    integer: bool = True
    """Whether widths are whole numbers; the theory lets them be any."""


@dataclass(frozen=True, slots=True)
class BudgetFound:
    """The answer, and the budget that it is about as somebody wrote it."""

    answer: WidthPlan
    budget: str


def find_budget(request: BudgetRequest) -> BudgetFound:
    """Say how wide each class of a fleet file should run; raises as `budget` does, and FileError."""
    if request.budget is not None and request.response_hours is not None:
        raise InputError("only one of --budget and --response may be given, got both")
    file = read_fleet_file(request.path)
    answer = budget(
        file.classes,
        None if request.response_hours is not None else budget_gpus(file, request.budget),
        mean_response_hours=request.response_hours,
        usd_per_gpu_hour=file.usd_per_gpu_hour,
        integer=request.integer,
    )
    return BudgetFound(answer, request.budget or file.budget)


def budget_gpus(file: FleetFile, text: str | None) -> float:
    """Return the GPUs of a `--budget`, or of the file where none was given."""
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
