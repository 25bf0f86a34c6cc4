"""Learns a fleet file from a table of past jobs: classes, rates, sizes and speedups, and how sure each is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev

from slacktide.app.setup.starter import aligned
from slacktide.budget.fit import fit_speedups
from slacktide.budget.widths import least_budget_gpus
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl
from slacktide.files.fleet.fleet import parse_fleet
from slacktide.files.fleet.past_jobs import PastJob, read_past

GUESSED_SHARE = 0.95
"""The parallel share of a class that ran on one width only, so that its true value is unknown."""
FEW_JOBS = 10  # a figure from fewer jobs is marked as unsure
REST = "other"
BURSTY_FROM = 1.5  # gaps between jobs that differ by this share of their mean or more come in bursts
FIXED_BELOW, LOGNORMAL_FROM = 0.3, 1.2
"""Spreads of work: below the first all jobs count as alike; from the second on a few are very large."""
ROOM = 1.05  # the budget is at least this many times the least on which the work gets done


@dataclass(frozen=True, slots=True)
class LearnedClass:
    """What past jobs of one kind say about those to come."""

    name: str
    jobs: int
    per_hour: float
    work_gpu_hours: float
    work_spread: float  # standard deviation of a job's work over its mean
    parallel_share: float
    widths: tuple[int, ...]
    speedup_off: float | None
    """How far the speedup may be off, as a share of it, by the fit's error and chance; None for a guess."""


@dataclass(frozen=True, slots=True)
class LearnedFleet:
    """What a table of past jobs says about a fleet."""

    source: str
    classes: tuple[LearnedClass, ...]
    days: float
    used_gpus: float  # GPUs in use on average, over the time that the table covers
    gap_spread: float  # standard deviation of the time between two jobs over its mean: 1 for chance alone
    left_out: dict[str, int]


def learn_fleet(path: str, *, by: str | None = None, classes: int = 8) -> LearnedFleet:
    """Learn at most `classes` classes of jobs from a table, by the column `by`; small ones are joined."""
    if classes < 1:
        raise InputError(f"--classes must be >= 1, got {classes}")
    past = read_past(path, by)
    jobs = past.jobs
    hours = _span_hours(jobs)
    groups = _groups(jobs, classes)
    gaps = [later.came_hours - job.came_hours for job, later in pairwise(jobs)]
    mean_gap = fmean(gaps) if gaps else 0.0
    return LearnedFleet(
        source=path,
        classes=tuple(_learned(name, group, hours) for name, group in groups.items()),
        days=hours / 24,
        used_gpus=sum(job.hours * job.gpus for job in jobs) / hours,
        gap_spread=pstdev(gaps) / mean_gap if mean_gap > 0 else 1.0,
        left_out=past.left_out,
    )


def _span_hours(jobs: Sequence[PastJob]) -> float:
    """Return the hours that the jobs cover: one mean gap for each job."""
    span = jobs[-1].came_hours - jobs[0].came_hours
    if span <= 0:
        raise InputError(
            "past jobs must have been submitted at different times, got one time for all; "
            "check which column has the submit times"
        )
    return span * len(jobs) / (len(jobs) - 1)


def _groups(jobs: Sequence[PastJob], most: int) -> dict[str, list[PastJob]]:
    """Return the jobs by kind, the most GPU-hours first; beyond `most` kinds, the smallest are joined."""
    used: dict[str, float] = {}
    for job in jobs:
        used[job.kind] = used.get(job.kind, 0.0) + job.hours * job.gpus
    names = sorted(used, key=lambda name: -used[name])
    kept = names if len(names) <= most else names[: most - 1]
    groups: dict[str, list[PastJob]] = {name: [] for name in kept}
    for job in jobs:
        groups.setdefault(job.kind if job.kind in kept else REST, []).append(job)
    return groups


def _learned(name: str, jobs: Sequence[PastJob], hours: float) -> LearnedClass:
    widths = sorted({job.gpus for job in jobs})
    share, off = _scaling(jobs, widths)
    speedup = Amdahl(share)
    work = [job.hours * speedup(job.gpus) for job in jobs]
    mean = fmean(work)
    return LearnedClass(
        name, len(jobs), len(jobs) / hours, mean, pstdev(work) / mean, share, tuple(widths), off
    )


def _scaling(jobs: Sequence[PastJob], widths: Sequence[int]) -> tuple[float, float | None]:
    """Fit the parallel share to typical durations (geometric means) on each width; guess it for one width."""
    if len(widths) < 2:
        return GUESSED_SHARE, None
    logs = {width: [math.log(job.hours) for job in jobs if job.gpus == width] for width in widths}
    fitted = fit_speedups([(float(width), 1.0 / math.exp(fmean(ran))) for width, ran in logs.items()])
    form = next(fit for fit in fitted.fits if isinstance(fit.speedup, Amdahl))
    assert isinstance(form.speedup, Amdahl)
    # The squared relative error of a typical duration; taken as 1 on a width with a single job.
    chance = fmean(pstdev(ran) ** 2 / (len(ran) - 1) if len(ran) > 1 else 1.0 for ran in logs.values())
    return round(form.speedup.parallel_share, 3), math.sqrt(form.error_share**2 + chance)


def fleet_text(fleet: LearnedFleet) -> str:
    """Return a fleet file that `slacktide budget` accepts as it is; its comments say what is unsure."""
    classes = "\n".join(line for kind in fleet.classes for line in _class_lines(kind))
    least = least_budget_gpus(parse_fleet(aligned(f"budget: 1 gpus\nclasses:\n{classes}")).classes)
    budget = max(1, math.ceil(max(fleet.used_gpus, ROOM * least)))
    used = f"these jobs used {fleet.used_gpus:.3g} on average; at least {least:.3g} are needed"
    lines = [
        *_head_lines(fleet),
        "",
        f"budget: {budget} gpus ## {used}",
        "# price: 2.50 usd ## what a GPU-hour costs; with it the budget may be money: 20000 usd/month",
        "",
        "classes:",
        classes,
        *_stream_lines(fleet),
    ]
    text = aligned("\n".join(lines))
    parse_fleet(text)
    return text


def _head_lines(fleet: LearnedFleet) -> list[str]:
    jobs = sum(kind.jobs for kind in fleet.classes)
    lines = [f"# Learned from {jobs:,} jobs of {fleet.days:.3g} days in {Path(fleet.source).name}."]
    if fleet.left_out:
        parts = ", ".join(f"{count:,} {why}" for why, count in sorted(fleet.left_out.items()))
        lines.append(f"# Left out: {parts}.")
    lines.append("# UNSURE marks what the table does not say, or says from few jobs only: check these lines.")
    return lines


def _class_lines(kind: LearnedClass) -> list[str]:
    few = "UNSURE: " if kind.jobs < FEW_JOBS else ""
    off, spread = 1.0 / math.sqrt(kind.jobs), f"jobs differ by {kind.work_spread:.0%} of it"
    return [
        f"  - name: {kind.name} ## {kind.jobs:,} jobs",
        f"    arrivals: {kind.per_hour * 24:.4g}/day ## {few}+- {off:.0%}",
        f"    work: {kind.work_gpu_hours:.4g} gpu-hours ## {few}mean, on one GPU; {spread}",
        f"    speedup: {{amdahl: {kind.parallel_share:g}}} ## {_speedup_note(kind)}",
        f"    widths: {_widths(kind)}",
    ]


def _speedup_note(kind: LearnedClass) -> str:
    if kind.speedup_off is None:
        gpus = "one GPU" if kind.widths[0] == 1 else f"{kind.widths[0]} GPUs"
        return f"UNSURE: a guess, all ran on {gpus}; measure it on other widths"
    few = "UNSURE: " if kind.jobs < FEW_JOBS * len(kind.widths) else ""
    return f"{few}fitted to durations on {len(kind.widths)} widths, +- {kind.speedup_off:.0%}"


def _widths(kind: LearnedClass) -> str:
    if len(kind.widths) > 1:
        return f"{{{', '.join(map(str, kind.widths))}}} ## those that jobs ran on"
    most = kind.widths[0]
    return f"{f'1..{most}' if most > 1 else '1'} ## UNSURE: only the widest is known"


def _stream_lines(fleet: LearnedFleet) -> list[str]:
    bursty = fleet.gap_spread > BURSTY_FROM
    jobs = sum(kind.jobs for kind in fleet.classes)
    spread = sum(kind.jobs * kind.work_spread for kind in fleet.classes) / jobs
    sizes = "fixed" if spread < FIXED_BELOW else "exponential" if spread < LOGNORMAL_FROM else "lognormal"
    came = f"gaps between jobs differ by {fleet.gap_spread:.0%} of their mean; by chance alone 100%"
    return [
        "",
        "stream: ## for `slacktide simulate`",
        f"  arrivals: {'bursty' if bursty else 'poisson'} ## {came}",
        f"  sizes: {sizes} ## within a class, work differs by {spread:.0%} of its mean",
        "  # provisioning: 4m ## UNSURE: from requesting a node until it is ready; the table does not say",
    ]
