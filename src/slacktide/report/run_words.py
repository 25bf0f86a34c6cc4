"""What a live run holds and why, as people say it: the same words in lines, view, bill and page."""

from __future__ import annotations

import math
from collections.abc import Mapping

from slacktide.report import words
from slacktide.types import Job
from slacktide.units import format_duration, format_usd

PAIRED = {
    "line_gpu_hours", "planned_on_demand_gpus", "mean_spot_gpus", "mean_on_demand_gpus"
}  # fmt: skip
"""Signals that are told together with another one."""


def since(hours: float) -> str:
    """Write a time on a job's clock: to the minute from an hour up, to the second from a minute up."""
    seconds = abs(hours) * 3600
    if not math.isfinite(seconds):
        return format_duration(hours)
    grain = 60.0 if seconds >= 3600 else 1.0 if seconds >= 60 else 0.1
    return format_duration(math.copysign(round(seconds / grain) * grain / 3600, hours))


def open_ended(job: Job) -> bool:
    """Whether a job has no deadline, as one of a stream."""
    return math.isinf(job.deadline_hours)


def task(job: Job) -> str:
    """Say what is to be done, on how many GPUs, and by when if there is a deadline."""
    if not open_ended(job):
        return words.task(job)
    return f"{job.work_gpu_hours:,g} GPU-hours of work on {words.widths(job)} GPUs"


def holding(spot_gpus: int, on_demand_gpus: int) -> str:
    """Write what is held: `3 spot + 2 on demand`, `3 spot`, or `nothing`."""
    parts = [f"{spot_gpus} spot"] if spot_gpus else []
    parts += [f"{on_demand_gpus} on demand"] if on_demand_gpus else []
    return " + ".join(parts) or "nothing"


def change(spot_gpus: int, on_demand_gpus: int) -> str:
    """Write what came and what went: `-2 spot, +2 on demand`; nothing when nothing did."""
    counts = ((spot_gpus, "spot"), (on_demand_gpus, "on demand"))
    return ", ".join(f"{gpus:+d} {kind}" for gpus, kind in counts if gpus)


def gpu_hours(amount: float) -> str:
    """Write work with its unit, as exact as its size asks for."""
    digits = 1 if abs(amount) >= 0.95 else 2 if abs(amount) >= 0.095 else 3
    return f"{amount:,.{digits}f} GPU-hours"


def reason(rule: str, signals: Mapping[str, float]) -> str:
    """Say which rule decided and what it read."""
    told = ", ".join(filter(None, (_signal(name, signals) for name in signals)))
    return f"{words.plain(rule)} ({told})" if told else words.plain(rule)


def _signal(name: str, signals: Mapping[str, float]) -> str:
    """Write one signal; those that belong together are told by the first of them."""
    value = signals[name]
    match name:
        case "progress_gpu_hours" if "line_gpu_hours" in signals:
            return f"progress {value:,.1f} of {signals['line_gpu_hours']:,.1f} GPU-hours on the line"
        case "hours_left":
            return f"{since(value)} left"
        case "spot_gpus":
            return f"{value:.0f} spot on offer"
        case "spot_usd_per_gpu_hour":
            return f"spot {format_usd(value)}"
        case "reserve_usd_per_gpu_hour":
            return f"cheap below {format_usd(value)}"
        case "planned_spot_gpus" if "planned_on_demand_gpus" in signals:
            return f"planned {holding(round(value), round(signals['planned_on_demand_gpus']))}"
        case "own_history_slots":
            return f"{words.count(round(value), 'slot')} of history"
        case _ if name in PAIRED:
            return ""
    return _unknown(name, value)


def _unknown(name: str, value: float) -> str:
    """Write the signal of a policy that is not ours by its own name; the unit ends it."""
    for ending, form in (("_usd", format_usd), ("_hours", since)):
        if name.endswith(ending) and not name.endswith("_gpu_hours"):
            return f"{_spoken(name.removesuffix(ending))} {form(value)}"
    return f"{_spoken(name)} {value:.4g}"


def _spoken(name: str) -> str:
    return words.plain(name).replace("_", " ")
