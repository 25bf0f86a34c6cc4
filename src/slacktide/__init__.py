"""Slacktide rents GPUs for training jobs: spot or on demand, in time for a deadline, at the least cost.

    import slacktide
    job = slacktide.read_job_file("job.yaml").job
    result = slacktide.backtest(job, "synthetic:h100", ["uniform-progress"])

Names are imported when they are first used, so `import slacktide` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slacktide.allocate.base import allocators
    from slacktide.allocate.view import FleetView, Wanted
    from slacktide.app.backtest import Starts, backtest
    from slacktide.app.controller import Controller
    from slacktide.app.fleet_question import FleetQuestion
    from slacktide.app.fleets import simulate_fleet
    from slacktide.app.journal import Journal, open_journal
    from slacktide.app.plan import plan
    from slacktide.app.streams import simulate
    from slacktide.app.submission import Submission
    from slacktide.budget.arrivals import draw_stream
    from slacktide.budget.classes import JobClass
    from slacktide.budget.fleet import Fleet
    from slacktide.budget.stream import Stream
    from slacktide.budget.widths import optimal_widths
    from slacktide.checks import check_allocator, check_policy
    from slacktide.errors import InfeasibleError, InputError, SlacktideError
    from slacktide.jobfile import read_fleet_file, read_job_file
    from slacktide.market.base import Market, Pool
    from slacktide.market.source import open_market
    from slacktide.policy.base import policies
    from slacktide.policy.view import Policy, View
    from slacktide.solve.clairvoyant import clairvoyant
    from slacktide.speedup import Amdahl, Linear, Power, Table
    from slacktide.truth import RandomTruth, Truth
    from slacktide.types import Allocation, Job, JobState, Phase, Quote, Reason

_HOMES = {
    "slacktide.allocate.base": ("allocators",),
    "slacktide.app.backtest": ("Starts", "backtest"),
    "slacktide.app.controller": ("Controller",),
    "slacktide.app.journal": ("Journal", "open_journal"),
    "slacktide.app.fleet_question": ("FleetQuestion",),
    "slacktide.app.fleets": ("simulate_fleet",),
    "slacktide.app.plan": ("plan",),
    "slacktide.app.streams": ("simulate",),
    "slacktide.app.submission": ("Submission",),
    "slacktide.budget.classes": ("JobClass",),
    "slacktide.budget.widths": ("optimal_widths",),
    "slacktide.budget.arrivals": ("draw_stream",),
    "slacktide.budget.fleet": ("Fleet",),
    "slacktide.budget.stream": ("Stream",),
    "slacktide.checks": ("check_allocator", "check_policy"),
    "slacktide.allocate.view": ("FleetView", "Wanted"),
    "slacktide.policy.view": ("Policy", "View"),
    "slacktide.errors": ("InfeasibleError", "InputError", "SlacktideError"),
    "slacktide.jobfile": ("read_fleet_file", "read_job_file"),
    "slacktide.market.base": ("Market", "Pool"),
    "slacktide.market.source": ("open_market",),
    "slacktide.policy.base": ("policies",),
    "slacktide.solve.clairvoyant": ("clairvoyant",),
    "slacktide.speedup": ("Amdahl", "Linear", "Power", "Table"),
    "slacktide.truth": ("RandomTruth", "Truth"),
    "slacktide.types": ("Allocation", "Job", "JobState", "Phase", "Quote", "Reason"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Allocation",
    "Amdahl",
    "Controller",
    "Fleet",
    "FleetQuestion",
    "FleetView",
    "InfeasibleError",
    "InputError",
    "Job",
    "JobClass",
    "JobState",
    "Journal",
    "Linear",
    "Market",
    "Phase",
    "Policy",
    "Pool",
    "Power",
    "Quote",
    "RandomTruth",
    "Reason",
    "SlacktideError",
    "Starts",
    "Stream",
    "Submission",
    "Table",
    "Truth",
    "View",
    "Wanted",
    "allocators",
    "backtest",
    "check_allocator",
    "check_policy",
    "clairvoyant",
    "draw_stream",
    "open_journal",
    "open_market",
    "optimal_widths",
    "plan",
    "policies",
    "read_fleet_file",
    "read_job_file",
    "simulate",
    "simulate_fleet",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'slacktide' has no attribute {name!r}")
    thing = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = thing
    return thing


def __dir__() -> list[str]:
    return __all__
