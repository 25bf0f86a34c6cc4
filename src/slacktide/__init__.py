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
    from slacktide.allocators.view import FleetView, Wanted
    from slacktide.app.fleets.simulate import simulate, simulate_fleet
    from slacktide.app.fleets.simulate_request import SimulateRequest
    from slacktide.app.jobs.controller import Controller
    from slacktide.app.jobs.submission import Submission
    from slacktide.app.journal.journal import Journal, open_journal
    from slacktide.app.planning.backtest import backtest
    from slacktide.app.planning.plan import plan
    from slacktide.budget.classes import JobClass
    from slacktide.budget.fleet import Fleet
    from slacktide.budget.stream import Stream, draw_stream
    from slacktide.budget.widths import optimal_widths
    from slacktide.checks import check_allocator, check_policy
    from slacktide.core.errors import InfeasibleError, InputError, SlacktideError
    from slacktide.core.quotes import Quote
    from slacktide.core.speedup import Amdahl, Linear, Power, Table
    from slacktide.core.types import Allocation, Job, JobState, Phase, Reason
    from slacktide.files.fleet.fleet import read_fleet_file
    from slacktide.files.job import read_job_file
    from slacktide.market.base import Market, Pool
    from slacktide.market.source import open_market
    from slacktide.physics.truth import RandomTruth, Truth
    from slacktide.policies.view import Policy, View
    from slacktide.simulation.compare import Starts
    from slacktide.solvers.clairvoyant.clairvoyant import clairvoyant

_HOMES = {
    "slacktide.app.planning.backtest": ("backtest",),
    "slacktide.app.jobs.controller": ("Controller",),
    "slacktide.simulation.compare": ("Starts",),
    "slacktide.app.journal.journal": ("Journal", "open_journal"),
    "slacktide.app.fleets.simulate": ("simulate", "simulate_fleet"),
    "slacktide.app.fleets.simulate_request": ("SimulateRequest",),
    "slacktide.app.planning.plan": ("plan",),
    "slacktide.app.jobs.submission": ("Submission",),
    "slacktide.budget.classes": ("JobClass",),
    "slacktide.budget.widths": ("optimal_widths",),
    "slacktide.budget.fleet": ("Fleet",),
    "slacktide.budget.stream": ("Stream", "draw_stream"),
    "slacktide.checks": ("check_allocator", "check_policy"),
    "slacktide.allocators.view": ("FleetView", "Wanted"),
    "slacktide.policies.view": ("Policy", "View"),
    "slacktide.core.errors": ("InfeasibleError", "InputError", "SlacktideError"),
    "slacktide.files.fleet.fleet": ("read_fleet_file",),
    "slacktide.files.job": ("read_job_file",),
    "slacktide.market.base": ("Market", "Pool"),
    "slacktide.market.source": ("open_market",),
    "slacktide.solvers.clairvoyant.clairvoyant": ("clairvoyant",),
    "slacktide.core.speedup": ("Amdahl", "Linear", "Power", "Table"),
    "slacktide.physics.truth": ("RandomTruth", "Truth"),
    "slacktide.core.quotes": ("Quote",),
    "slacktide.core.types": ("Allocation", "Job", "JobState", "Phase", "Reason"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Allocation",
    "Amdahl",
    "Controller",
    "Fleet",
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
    "SimulateRequest",
    "SlacktideError",
    "Starts",
    "Stream",
    "Submission",
    "Table",
    "Truth",
    "View",
    "Wanted",
    "backtest",
    "check_allocator",
    "check_policy",
    "clairvoyant",
    "draw_stream",
    "open_journal",
    "open_market",
    "optimal_widths",
    "plan",
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
