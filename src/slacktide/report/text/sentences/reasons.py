"""Why a decision was made, in plain words: its rule and the signals that the rule read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from slacktide.core.units import format_usd
from slacktide.report import words

PAIRED = {
    "line_gpu_hours", "period_share", "later_hours", "saved_usd",
    "left_usd", "planned_on_demand_gpus", "mean_spot_gpus", "mean_on_demand_gpus", "otherwise_usd"
}  # fmt: skip
"""Signals that are written together with another one."""

SPOKEN = {"what-is-left": "no new decision", "behind-dear-spot": "behind, spot is expensive"}
"""Rules whose code does not read well in a sentence."""

RULES = {
    "take-spot": "spot GPUs are available, and they are cheaper than on demand",
    "take-all-spot": "spot GPUs are available, and this policy takes all it can use",
    "cheap-spot": "spot is cheap now",
    "bank-cheap-spot": "spot is cheap now, so it works ahead",
    "keep-held-spot": "it still has its spot GPUs, and a change would cost a restart",
    "behind-cheap-spot": "it is behind an even pace, and spot is cheap",
    "behind-dear-spot": "it is behind an even pace, and takes spot although it is expensive",
    "behind-no-spot": "it is behind an even pace, and no spot GPUs are available",
    "wait-for-spot": "no spot GPUs are available, and there is time to wait for them",
    "wait-for-cheap-spot": "spot is expensive now, and there is time to wait for a lower price",
    "ahead-and-idle": "it is ahead of an even pace, so it can afford to wait",
    "ahead-of-line": "it is ahead of an even pace, so it can afford to wait for spot",
    "behind-line": "it is behind an even pace and must catch up",
    "catching-up": "it is catching up with an even pace",
    "catch-up": "it is behind an even pace and must catch up",
    "safety-net": "the time left is just enough on demand, so it can wait no longer",
    "last-moment": "the time left is just enough on demand, so it can wait no longer",
    "measure-first": "its pace is not known yet, so it is measured on a few GPUs first",
    "deadline-guard": "the time left is just enough on demand, so the deadline guard decides",
    "line-out-of-reach": "it can no longer catch up with an even pace, so it runs as fast as it can",
    "deadline-out-of-reach": "the deadline can no longer be met, so it runs as fast as it can",
    "made-feasible": "what it planned to hold is not available, so it takes the closest that is",
    "smallest-width-in-time": "this is the smallest number of on-demand GPUs that finishes on time",
    "past-deadline": "the deadline has passed, and the rest of the work runs as after_deadline says",
    "waiting-pays": "looking ahead, waiting is expected to cost the least",
    "moving-pays": "looking ahead, spot in this pool is expected to cost the least, the move included",
    "staying-pays": "looking ahead, staying with what it has is expected to cost the least",
    "utility-of-a-move": "an hour in this pool is worth more than its price and its share of the move",
    "no-utility": "an hour of any available spot costs more than it is worth, so it waits",
    "behind-pace": "the job must now run so much faster that on-demand GPUs are worth their price",
    "keeps-spot": "it still has its spot GPUs",
    "spot-pays": "looking ahead, spot now is expected to cost the least",
    "on-demand-pays": "looking ahead, on-demand GPUs now are expected to cost the least",
    "both-pay": "looking ahead, spot and on-demand GPUs together are expected to cost the least",
    "next-wish": "the spot GPUs that it wanted first never came, so it takes its next choice",
    "what-is-left": "no new decision was made, so it keeps what it has",
    "no-checkpoint": "the job has no checkpoints, so a change of its workers would start its work over",
    "spot": "spot is worth its price to it, at what an hour of waiting is worth today",
    "on-demand": "waiting longer for spot would cost more than on-demand GPUs",
    "deadline-rescue": "the time left is just enough on demand, and the money for that was kept in reserve",
    "waits": "spot is short, and on-demand GPUs would cost more than the wait is worth",
    "no-money": "the rest of the budget is reserved for admitted deadlines",
    "quota-full": "the on-demand GPUs that the fleet may hold are needed for deadlines",
    "budget-short": "the budget comes first, and no longer covers its rescue",
    "patient-spot": "its fleet gives spot by arrival, and on demand after a long wait or when time is short",
    "as-it-is": "its fleet's allocator said nothing about it, so it keeps what it has",
    "policy-failed": "the policy failed, so it keeps what it has",
    "stopping": "the run is being stopped",
}
"""What the rules of our policies mean, as the end of a sentence that begins with `because`."""


def reason(rule: str, signals: Mapping[str, float]) -> str:
    """Say which rule decided and what it read."""
    written = ", ".join(filter(None, (_signal(name, signals) for name in signals)))
    said = SPOKEN.get(rule, words.plain(rule))
    return f"{said} ({written})" if written else said


def because(rule: str) -> str:
    """Say what a rule means, as the end of a sentence that begins with `because`."""
    if " " in rule:  # a sentence of its own, not the name of a rule
        return words.plain(rule).rstrip(".")
    return RULES.get(rule, f"of its rule {words.plain(rule)!r}")


def offer(signals: Mapping[str, float]) -> str:
    """Say what spot the market offered at a decision; empty where its rule did not read that."""
    if "spot_gpus" not in signals:
        return ""
    gpus, price = round(signals["spot_gpus"]), signals.get("spot_usd_per_gpu_hour")
    offered = words.count(gpus, "spot GPU")
    return f"{offered} at {format_usd(price)} an hour" if price else offered


SIGNALS: dict[str, Callable[[float], str]] = {
    "hours_left": lambda value: f"{words.since(value)} left",
    "spot_gpus": lambda value: f"{value:.0f} spot available",
    "spot_usd_per_gpu_hour": lambda value: f"spot {format_usd(value)}",
    "reserve_usd_per_gpu_hour": lambda value: f"cheap below {format_usd(value)}",
    "spot_lived_hours": lambda value: f"it has been there for {words.since(value)}",
    "notice_hours": lambda value: f"a warning says that spot here goes in {words.since(value)}",
    "hour_usd": lambda value: f"an hour of waiting is worth {format_usd(value)} today",
    "spent_share": lambda value: f"{words.percent(value)} of the period's money is spent",
    "scarcity_usd": lambda value: f"spot is short: +{format_usd(value)} a GPU-hour",
    "offer_hours": lambda value: f"spot is expected in {words.since(value)}",
    "patience_hours": lambda value: f"on demand after {words.since(value)} without spot",
    "own_history_slots": lambda value: f"{words.count(round(value), 'slot')} of history",
}
"""How signals of our policies are written; those that go with another one are in `_signal`."""


def _signal(name: str, signals: Mapping[str, float]) -> str:
    """Write one signal; of signals that belong together one writes both, and the others are empty."""
    value = signals[name]
    match name:
        case "progress_gpu_hours" if "line_gpu_hours" in signals:
            return f"progress {value:,.1f} GPU-hours, {signals['line_gpu_hours']:,.1f} at an even pace"
        case "planned_spot_gpus" if "planned_on_demand_gpus" in signals:
            return f"planned {words.holding(round(value), round(signals['planned_on_demand_gpus']))}"
        case "expected_usd" if "otherwise_usd" in signals:
            otherwise = format_usd(signals["otherwise_usd"])
            return f"{format_usd(value)} expected from now on, otherwise {otherwise}"
        case "spot_cheaper_usd":
            less = "cheaper" if value > 0 else "more"
            return f"spot there is {format_usd(abs(value))} a GPU-hour {less}" if abs(value) >= 0.005 else ""
        case "spent_share" if "period_share" in signals:
            return f"{SIGNALS[name](value)}, {words.percent(signals['period_share'])} of the period gone"
        case "narrower_gpus" if "later_hours" in signals and "saved_usd" in signals:
            later, saved = words.since(signals["later_hours"]), format_usd(signals["saved_usd"])
            return f"{words.count(round(value), 'GPU')} would finish {later} later and save {saved}"
        case "rescue_usd" if "left_usd" in signals:
            left = format_usd(signals["left_usd"])
            return f"it may need {format_usd(value)}; {left} of the budget are left"
        case _ if name in PAIRED:
            return ""
    return SIGNALS[name](value) if name in SIGNALS else _unknown(name, value)


def _unknown(name: str, value: float) -> str:
    """Write a signal that is not in SIGNALS, such as a plug-in's, by its name, which ends with its unit."""
    for ending, form in (("_usd", format_usd), ("_hours", words.since)):
        if name.endswith(ending) and not name.endswith("_gpu_hours"):
            return f"{words.plain(name.removesuffix(ending)).replace('_', ' ')} {form(value)}"
    return f"{words.plain(name).replace('_', ' ')} {value:.4g}"
