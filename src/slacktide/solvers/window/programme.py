"""The window programme of AHAP: the best integer plan for a few slots, found exactly.

Given a job in the middle of its work and quotes for the coming slots (the first observed, the others
forecast), choose spot and on-demand GPUs for each slot so as to maximise

    reserve * (progress at the window's end - the line there) - cost

among the plans that end on the line Z_exp(t) = W min(t, d) / d or above it; where no plan does, take
the one of most progress, the cheapest of those. Details, all as `physics` counts them:

- a window that reaches past the deadline is cut at it; of a slot with the deadline inside only the
  hours before it do work and are paid (all of it when whole slots are billed);
- progress ends at W: a job that is done stops costing there and then (or at the slot's end);
- staying keeps what is left of a pause, fewer workers make it a shrink at least, any added one a
  restart; availability that falls below what is held is a loss, which is nothing but fewer workers;
- checkpoint losses (a job that foresees a loss checkpoints before it) and its maximum cost are left out;
- the pause at the window's start is at most a restart, as it is for a job that stays in its pool.

**How.** Let g be a plan's progress and c its cost, and a <= g <= b the limits (line and end of the
work). At a price of work `worth`, F(worth) = max (worth g - c) is a small dynamic programme
(`values`) and, by weak duality, F(worth) + (reserve - worth) * limit bounds every plan, for the
line if worth > reserve and for the end of the work if worth < reserve. At worth = reserve the bound is
the plan's own value: if it keeps both limits it is the answer. Otherwise the tightest price lies where
the hull of all (g, c) crosses the limit that was broken; a secant search finds that edge in a few
evaluations. Plans between hull points are found by labels under that bound, and under another that
uses whole GPUs but no pauses (`labels`).

**Ties.** Prices carry a tilt of about 1e-8 of the highest one: of plans that cost the same, the one with
less on demand, then with spot sooner and on demand later. What is still equal is decided by the fixed
order of the search, staying before changing; plain and compiled code are one source and agree.
"""

from __future__ import annotations

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.core.types import JobState
from slacktide.solvers.slotted import Slotted
from slacktide.solvers.window.frame import MOST_WORK, WindowFrame, copy_plan, frame, outcome
from slacktide.solvers.window.labels import SAME_WORK, least_difference, search
from slacktide.solvers.window.values import HoldingValues, PlanSums, empty_values, evaluate

FREE, LINE_BINDS, OUT_OF_REACH = range(3)
"""What decided a plan: the reserve alone, the line that had to be reached, or that it could not be."""

MOST_EDGES = 100  # more than a hull has; ends the search if rounding errors keep it going


@compilable
def plan_window(
    terms: Slotted, state: JobState, slot: int, quotes: Floats, reserve_usd: float, plan: Floats
) -> int:
    """Write the best plan from this slot on into `plan` ([slot, (spot, on demand)]); return what decided it.

    `state` is what `physics.lose` left, `quotes` has rows (spot USD, on-demand USD, spot GPUs). Slots
    past the deadline are planned empty.
    """
    for k in range(len(plan)):
        plan[k, 0] = plan[k, 1] = 0.0
    if slot >= terms.deadline_slots or len(quotes) == 0:
        return FREE
    window = frame(terms, state, slot, quotes, reserve_usd)
    cells = np.zeros(window.slots, dtype=np.int64)
    case = solve(window, cells)
    for k in range(window.slots):
        plan[k, 0], plan[k, 1] = cells[k] // window.side, cells[k] % window.side
    return case


@compilable
def solve(window: WindowFrame, plan: Ints) -> int:
    """Write the cells of the best plan and return what decided it."""
    values = empty_values(window)
    tolerance = SAME_WORK * window.high
    free = evaluate(window, values, window.reserve, plan)
    if free.gain > window.high + tolerance:
        idle = PlanSums(0.0, 0.0, 0.0, 0.0, 0.0)
        between(window, values, idle, free, window.high, np.zeros_like(plan), plan)
        return FREE
    if free.gain >= window.low - tolerance:
        return FREE
    less = plan.copy()
    most = evaluate(window, values, MOST_WORK * window.highest_usd, plan)
    if most.gain < window.low - tolerance:
        return OUT_OF_REACH
    between(window, values, free, most, window.low, less, plan)
    return LINE_BINDS


@compilable
def between(
    window: WindowFrame,
    values: HoldingValues,
    less: PlanSums,
    more: PlanSums,
    limit: float,
    less_plan: Ints,
    plan: Ints,
) -> None:
    """Write the best plan where the hull crosses a limit on progress, between two plans on the hull.

    On entry `plan` has the cells of `more`, the one of the two plans that keeps the limits.
    """
    found, more_plan = plan.copy(), plan.copy()
    best = window.reserve * more.real_gain - more.real_cost
    tolerance = SAME_WORK * window.high
    slack = least_difference(window)
    worth = window.reserve
    for _ in range(MOST_EDGES):
        # At the slope of the chord both ends are worth the same: what beats them lies on the hull between.
        worth = (more.cost - less.cost) / (more.gain - less.gain)
        point = evaluate(window, values, worth, found)
        if point.value <= worth * less.gain - less.cost + slack:
            break
        if point.gain < limit - tolerance:
            less = point
            copy_plan(found, less_plan)
        else:
            more = point
            copy_plan(found, more_plan)
    best = guess(window, less_plan, more_plan, best, plan)
    search(window, values, worth, limit, best, plan)


@compilable
def guess(window: WindowFrame, less: Ints, more: Ints, best: float, plan: Ints) -> float:
    """Try plain plans near both ends of an edge of the hull; return the best value and keep its plan.

    The closer the best plan known is to the bound, the fewer labels the search needs.
    """
    enough = window.low - SAME_WORK * window.high
    tried = np.zeros(window.slots, dtype=np.int64)
    for width in range(window.side):
        if window.fit[width] == width:
            for since in range(-1, 2 * window.slots):
                shape(window, less, more, width, since, tried)
                gain, cost, _, _ = outcome(window, tried)
                value = window.reserve * gain - cost
                if gain >= enough and value > best:
                    best = value
                    copy_plan(tried, plan)
    return best


@compilable
def shape(window: WindowFrame, less: Ints, more: Ints, width: int, since: int, tried: Ints) -> None:
    """Write a plan of about one width: `more` cut to it if `since` is negative, else `less` from a slot on
    filled up to it with on demand; or, counting on past the window's end, with all offered spot first.
    """
    side, slots = window.side, window.slots
    for slot in range(slots):
        cell = more[slot] if since < 0 else less[slot]
        spot, on_demand = cell // side, cell % side
        if since < 0:
            spot = min(spot, width)
            on_demand = min(on_demand, width - spot)
        elif slot >= since % slots:
            if since >= slots:
                spot, on_demand = min(window.offered[slot], width), 0
            on_demand = max(on_demand, width - spot)
        allowed = window.fit[spot + on_demand] == spot + on_demand
        tried[slot] = spot * side + on_demand if allowed else cell
