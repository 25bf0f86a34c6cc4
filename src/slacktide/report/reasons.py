"""Why something was decided, as people say it: the rule and the signals that it read."""

from __future__ import annotations

from collections.abc import Mapping

from slacktide.report import words
from slacktide.units import format_usd

PAIRED = {
    "line_gpu_hours", "planned_on_demand_gpus", "mean_spot_gpus", "mean_on_demand_gpus"
}  # fmt: skip
"""Signals that are told together with another one."""

SPOKEN = {"what-is-left": "no new decision", "behind-dear-spot": "behind, spot is expensive"}
"""Rules whose code does not read well in a sentence."""


def reason(rule: str, signals: Mapping[str, float]) -> str:
    """Say which rule decided and what it read."""
    told = ", ".join(filter(None, (_signal(name, signals) for name in signals)))
    said = SPOKEN.get(rule, words.plain(rule))
    return f"{said} ({told})" if told else said


def _signal(name: str, signals: Mapping[str, float]) -> str:
    """Write one signal; those that belong together are told by the first of them."""
    value = signals[name]
    match name:
        case "progress_gpu_hours" if "line_gpu_hours" in signals:
            return f"progress {value:,.1f} GPU-hours, {signals['line_gpu_hours']:,.1f} at an even pace"
        case "hours_left":
            return f"{words.since(value)} left"
        case "spot_gpus":
            return f"{value:.0f} spot available"
        case "spot_usd_per_gpu_hour":
            return f"spot {format_usd(value)}"
        case "reserve_usd_per_gpu_hour":
            return f"cheap below {format_usd(value)}"
        case "planned_spot_gpus" if "planned_on_demand_gpus" in signals:
            return f"planned {words.holding(round(value), round(signals['planned_on_demand_gpus']))}"
        case "own_history_slots":
            return f"{words.count(round(value), 'slot')} of history"
        case _ if name in PAIRED:
            return ""
    return _unknown(name, value)


def _unknown(name: str, value: float) -> str:
    """Write the signal of a policy that is not ours by its own name; the unit ends it."""
    for ending, form in (("_usd", format_usd), ("_hours", words.since)):
        if name.endswith(ending) and not name.endswith("_gpu_hours"):
            return f"{_spoken(name.removesuffix(ending))} {form(value)}"
    return f"{_spoken(name)} {value:.4g}"


def _spoken(name: str) -> str:
    return words.plain(name).replace("_", " ")
