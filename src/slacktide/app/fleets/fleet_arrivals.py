"""The jobs of a fleet over the time that is simulated: read from a table, or drawn from its classes."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from slacktide.app.fleets.simulate_request import SimulateRequest
from slacktide.budget.allowance import Allowance
from slacktide.budget.stream import draw_stream
from slacktide.core.errors import InputError
from slacktide.files.fleet.jobs import FleetJob, FleetJobs, read_fleet_jobs
from slacktide.market.base import Market

MOST_JOBS = 200_000  # more jobs than a run of a fleet gets through in an hour


NEARLY = 0.95  # past jobs that cover this share of a period are taken as those of the whole of it


class FleetArrivals(NamedTuple):
    """Jobs over a time, and the budget on their clock."""

    jobs: tuple[FleetJob, ...]
    jobs_from: str  # where they came from
    hours: float  # the time over which they came
    start: int  # the slot of the market in which hour 0 is
    allowance: Allowance  # its start is the date of hour 0
    left_out: int = 0  # jobs that came later


def arrivals_of(request: SimulateRequest, market: Market) -> FleetArrivals:
    """Return the jobs of a fleet over the requested time; over one period of its budget where none is."""
    if request.hours is not None and request.periods is not None:
        raise InputError("only one of --hours and --periods may be given, got both")
    recorded = _recorded(request)
    start = _start(request.start, recorded.began if recorded else None, market)
    date = (recorded.began if recorded else None) or _first_of_month(market.pools[0].time(start))
    allowance = replace(request.allowance, start=date)
    period = _period_hours(allowance)
    requested = _requested_hours(request, period)
    if recorded is None:
        jobs, limit = _drawn(request, requested, period), _limit(request, requested, period)
        jobs_from = f"{_arrivals(request)} arrivals and {_sizes(request)} sizes, seed {request.seed}"
    else:
        jobs, jobs_from = recorded.jobs, f"recorded in {Path(str(request.jobs)).name}"
        limit = requested or (period if jobs[-1].submitted_hours >= NEARLY * period else None)
    kept = jobs if limit is None else tuple(job for job in jobs if job.submitted_hours < limit)
    if not kept:
        raise InputError(f"at least one job must come in the time simulated, got none in {limit:g} hours")
    left_out = len(jobs) - len(kept) if recorded or request.count is not None else 0
    return FleetArrivals(kept, jobs_from, limit or _span_hours(kept), start, allowance, left_out)


def _recorded(request: SimulateRequest) -> FleetJobs | None:
    if request.jobs is None:
        return None
    for name in ("count", "arrivals"):
        if getattr(request, name) is not None:
            raise InputError(f"--{name} must not be given with --jobs, whose arrivals are recorded")
    file = request.file
    return read_fleet_jobs(request.jobs, file.classes, sizes=_sizes(request), seed=request.seed)


def _drawn(request: SimulateRequest, requested: float | None, period: float) -> tuple[FleetJob, ...]:
    classes = request.file.classes
    if not classes:
        raise InputError(
            f"{request.file.path}: jobs must be drawn from classes, got a fleet file without any; name past "
            "jobs with --jobs, or add 'classes:'"
        )
    mean = sum(one.arrivals_per_hour for one in classes) * (requested or period)
    count = _surely(mean) if request.count is None else request.count
    if count > MOST_JOBS:
        must = f"at most {MOST_JOBS} jobs must be drawn, got {count}"
        raise InputError(f"{must}; give fewer --hours, or give --count")
    stream = draw_stream(
        classes, count, arrivals=_arrivals(request), sizes=_sizes(request), seed=request.seed
    )
    rows = zip(stream.arrival_hours.tolist(), stream.class_index.tolist(), stream.size.tolist(), strict=True)
    return tuple(FleetJob(hours, kind, size * classes[kind].work_gpu_hours) for hours, kind, size in rows)


def _limit(request: SimulateRequest, requested: float | None, period: float) -> float | None:
    """Return until when drawn jobs are taken; all of them where their number was given."""
    return requested if requested is not None or request.count is not None else period


def _surely(mean: float) -> int:
    """Return a number of jobs that covers a time in which this many come on average, also in bursts."""
    return math.ceil(1.5 * mean + 30.0 * math.sqrt(mean) + 20.0)


def _arrivals(request: SimulateRequest) -> str:
    return request.arrivals or request.file.stream.arrivals


def _sizes(request: SimulateRequest) -> str:
    return request.sizes or request.file.stream.sizes


def _requested_hours(request: SimulateRequest, period_hours: float) -> float | None:
    for name, given, unit in (("--hours", request.hours, 1.0), ("--periods", request.periods, period_hours)):
        if given is not None and not 0 < given < math.inf:
            raise InputError(f"{name} must be > 0, got {given:g}")
        if given is not None:
            return given * unit
    return None


def _period_hours(allowance: Allowance) -> float:
    """Return how long the first period of a budget lasts, from hour 0 on."""
    until = allowance.period(0.0).until_hours
    return allowance.period_hours if math.isinf(until) else until


def _span_hours(jobs: tuple[FleetJob, ...]) -> float:
    """Return the time that all jobs stand for: each for one mean gap, the last one too."""
    last = jobs[-1].submitted_hours
    return max(last * (len(jobs) + 1) / len(jobs), 1.0)


def _start(requested: int | None, began: datetime | None, market: Market) -> int:
    """Return the slot of hour 0: as requested, where the jobs' dates are, or the first."""
    home = market.pools[0]
    if requested is not None and not 0 <= requested < len(home):
        raise InputError(f"--start must be in 0..{len(home) - 1}, the slots of the market, got {requested}")
    if requested is not None or began is None:
        return requested or 0
    slot = math.floor((began - home.start).total_seconds() / 3600.0 / home.slot_hours + 1e-9)
    return slot if 0 <= slot < len(home) else 0


def _first_of_month(time: datetime) -> datetime:
    """Return the beginning of a month: hours without a date are counted from there."""
    there = time.astimezone(UTC)
    return datetime(there.year, there.month, 1, tzinfo=UTC)
