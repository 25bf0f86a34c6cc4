"""The outlook of a job in one word, computed from what it holds and what could still save it."""

from __future__ import annotations

from slacktide import physics
from slacktide.events import Health
from slacktide.pace import Pace, Z, is_measured, margin_factor
from slacktide.types import TIME_TOLERANCE_HOURS, JobState


def health(
    terms: physics.Terms,
    pace: Pace,
    state: JobState,
    now_hours: float,
    slot_hours: float,
    spot: int,
    on_demand: int,
) -> tuple[Health, str]:
    """Return on-time, at-risk or late for a job that is to hold these GPUs from now on, and why.

    Late: not even the fastest on-demand width from now on would meet the deadline. At-risk: it would,
    but what is held would not, and less than a slot and a restart are left until it must begin, at a pace as
    slow as the evidence leaves possible. `terms` are those at the pace that is believed.
    """
    limit = terms.deadline_hours + TIME_TOLERANCE_HOURS
    width = physics.rescue_width(terms, state, now_hours)
    rescue = physics.on_demand_finish(terms, state, now_hours, width)
    as_held = float(physics.finish_with(terms, state, now_hours, spot, on_demand))
    began = terms.submitted_hours
    if min(rescue, as_held) > limit:
        earliest = min(rescue, as_held) - began
        return "late", f"the earliest finish is hour {earliest:.2f}, the deadline {limit - began:.2f}"
    if as_held <= limit:
        return "on-time", f"with what it holds it would finish at hour {as_held - began:.2f}"
    left = physics.work_hours(terms, state.progress_gpu_hours, terms.fastest)
    slow = margin_factor(pace, terms.fastest, left, slot_hours, Z) if is_measured(pace) else 1.0
    spare = physics.latest_start(terms, state.checkpointed_gpu_hours, slow) - now_hours
    if spare > slot_hours + terms.restart_hours:
        return "on-time", f"on demand can wait another {spare:.2f} h"
    return "at-risk", f"on demand must start within {max(spare, 0.0):.2f} h"
