"""Whether a job will meet its deadline: on time, at risk, late; computed from what it holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from slacktide.core.types import TIME_TOLERANCE_HOURS, JobState
from slacktide.journal.events import Health
from slacktide.physics import progress as physics
from slacktide.physics.pace import Pace, Z, is_measured, margin_factor


def health(
    terms: physics.Terms,
    pace: Pace,
    state: JobState,
    now_hours: float,
    slot_hours: float,
    spot: int,
    on_demand: int,
    all_terms: Sequence[physics.Terms] = (),
    pool: int = 0,
) -> tuple[Health, str]:
    """Return the outlook of a job that is to hold these GPUs from now on, and why.

    Late: not even the fastest on-demand width from now on would meet the deadline, at a pace as fast as the
    evidence leaves possible. Late expected: it would not at the pace that is believed. Measuring: it would,
    and the pace is not measured yet. At risk: it would, but what is held would not, and less than a slot and
    a restart are left until on demand must begin, at a pace as slow as the evidence leaves possible. `terms`
    are those at the pace that is believed. A job that may move has `all_terms`, those of each pool, and is to
    hold the GPUs in one of them.
    """
    limit, began = terms.deadline_hours + TIME_TOLERANCE_HOURS, terms.submitted_hours
    as_held, earliest = _ends(terms, state, now_hours, spot, on_demand)
    if all_terms:
        as_held, earliest = _ends_in(all_terms, state, now_hours, spot, on_demand, pool)
    left = physics.work_hours(terms, state.progress_gpu_hours, terms.fastest)
    slow = margin_factor(pace, terms.fastest, left, slot_hours, Z)
    if earliest > limit:
        why = f"the earliest finish is hour {earliest - began:.2f}, the deadline {limit - began:.2f}"
        fast = now_hours + (earliest - now_hours) * slow
        return ("late", why) if fast > limit else ("late-expected", why)
    if not is_measured(pace):
        return "measuring", f"at the pace of its file the earliest finish is hour {earliest - began:.2f}"
    if as_held <= limit:
        return "on-time", f"with what it holds it would finish at hour {as_held - began:.2f}"
    spare = physics.latest_start(terms, state.checkpointed_gpu_hours, slow) - now_hours
    if spare > slot_hours + terms.restart_hours:
        return "on-time", f"on demand can wait another {spare:.2f} h"
    return "at-risk", f"on demand must start within {max(spare, 0.0):.2f} h"


def _ends(
    terms: physics.Terms, state: JobState, now_hours: float, spot: int, on_demand: int
) -> tuple[float, float]:
    """Return when a job would be done with what it is to hold, and at the earliest."""
    width = physics.rescue_width(terms, state, now_hours)
    rescue = float(physics.on_demand_finish(terms, state, now_hours, width))
    as_held = float(physics.finish_in(terms, state, now_hours, state.pool, on_demand, spot))
    return as_held, min(rescue, as_held)


def _ends_in(
    terms: Sequence[physics.Terms], state: JobState, now_hours: float, spot: int, on_demand: int, pool: int
) -> tuple[float, float]:
    """Return the same for a job that may move and is to hold this in one of its pools."""
    as_held = math.inf
    if spot + on_demand:
        there, changed = terms[pool], (spot, on_demand, pool) != state[:3]
        done, _, _ = physics.carried(there, state, changed)
        pause = physics.pause_after(there, state, spot, on_demand, pool)
        as_held = float(now_hours + pause + physics.work_hours(there, done, spot + on_demand))
    rescues = (physics.finish_in(one, state, now_hours, at, int(one.fastest)) for at, one in enumerate(terms))
    return as_held, min(as_held, *map(float, rescues))
