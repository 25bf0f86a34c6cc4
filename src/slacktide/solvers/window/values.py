"""The window programme at one price of work: a dynamic programme without pairwise comparisons.

With work worth `worth` USD per GPU-hour and no other condition, the best plan from a state depends
only on (slot, holding, pause left). Of all moves out of a holding, staying keeps the pause, a move to
fewer workers costs a shrink, any other a restart. So each target is valued three times; the best
target of a restart is one maximum over all, the best of a shrink a running maximum over the
holdings with no more spot and no more on demand.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.solvers.slotted import RESTART, SHRINK, STAY, kind_of_move
from slacktide.solvers.window.frame import WindowFrame, outcome


class HoldingValues(NamedTuple):
    """What holdings are worth at one price of work, as `evaluate` fills it in."""

    by_kind: Floats
    """[slot, level, kind of move, cell]: value of holding the cell, and of the best from there on."""
    ahead: Floats
    """[slot, level, cell]: value of the slot and all later ones for a job that holds this cell before it."""
    move: Ints  # [slot, level, cell]: the target that attains it
    within: Floats  # [cell]: best value of a shrink into the cell or below it; of the slot and level at hand
    within_cell: Ints


class PlanSums(NamedTuple):
    """A plan's value, progress and cost."""

    value: float  # its value at the price of work it was made for
    gain: float  # its progress, as if there were work without end
    cost: float
    real_gain: float  # its progress until the job is done
    real_cost: float


@compilable
def empty_values(frame: WindowFrame) -> HoldingValues:
    """Make room for the values of a window."""
    slots, levels, cells = frame.slots, len(frame.pauses), frame.cells
    return HoldingValues(
        np.empty((slots, levels, 3, cells)),
        np.zeros((slots + 1, levels, cells)),
        np.empty((slots, levels, cells), dtype=np.int64),
        np.empty(cells),
        np.empty(cells, dtype=np.int64),
    )


@compilable
def evaluate(frame: WindowFrame, values: HoldingValues, worth: float, plan: Ints) -> PlanSums:
    """Value all states at this price of work, write the best plan's cells and return its sums."""
    for slot in range(frame.slots - 1, -1, -1):
        for level in range(frame.root_level if slot == 0 else 0, len(frame.pauses)):
            if slot == 0 or level < frame.root_level:
                best = value_targets(frame, values, slot, level, worth)
                value_sources(frame, values, slot, level, best)
    cell, level = frame.root_cell, frame.root_level
    for slot in range(frame.slots):
        plan[slot] = values.move[slot, level, cell]
        level = next_level(frame, level, cell, plan[slot])
        cell = plan[slot]
    real_gain, real_cost, gain, cost = outcome(frame, plan)
    return PlanSums(values.ahead[0, frame.root_level, frame.root_cell], gain, cost, real_gain, real_cost)


@compilable
def value_targets(frame: WindowFrame, values: HoldingValues, slot: int, level: int, worth: float) -> int:
    """Value every holding of a slot by the kind of move that leads to it, and the best shrink within each.

    Returns the best target of a restart, the idle one where nothing is better.
    """
    side, fit, rates, nexts = frame.side, frame.fit, frame.rate, frame.nexts[level]
    within, within_cell, after = values.within, values.within_cell, values.ahead[slot + 1]
    table = values.by_kind[slot, level]
    stay, shrink, restart = table[STAY], table[SHRINK], table[RESTART]
    after_stay, after_shrink, after_restart = after[nexts[STAY]], after[nexts[SHRINK]], after[nexts[RESTART]]
    hours, pauses = frame.hours[slot], frame.pauses[level]
    work_stay = worth * max(0.0, hours - pauses[STAY])
    work_shrink = worth * max(0.0, hours - pauses[SHRINK])
    work_restart = worth * max(0.0, hours - pauses[RESTART])
    spot_usd = frame.usd[slot, 0] * frame.billed[slot]
    on_demand_usd = frame.usd[slot, 1] * frame.billed[slot]
    # Holding nothing costs nothing and ends any pause, whatever it was reached by.
    stay[0] = shrink[0] = restart[0] = after[0, 0]
    best, best_value = 0, after[0, 0]
    for spot in range(frame.offered[slot] + 1):
        for on_demand in range(side - spot):
            cell, width = spot * side + on_demand, spot + on_demand
            top, top_cell = -np.inf, 0
            if width == 0:
                top = after[0, 0]
            elif fit[width] == width:
                paid = spot_usd * spot + on_demand_usd * on_demand
                stay[cell] = work_stay * rates[width] - paid + after_stay[cell]
                shrink[cell] = work_shrink * rates[width] - paid + after_shrink[cell]
                restart[cell] = work_restart * rates[width] - paid + after_restart[cell]
                if restart[cell] > best_value:
                    best, best_value = cell, restart[cell]
                top, top_cell = shrink[cell], cell
            if spot > 0 and within[cell - side] >= top:
                top, top_cell = within[cell - side], within_cell[cell - side]
            if on_demand > 0 and within[cell - 1] >= top:
                top, top_cell = within[cell - 1], within_cell[cell - 1]
            within[cell], within_cell[cell] = top, top_cell
    return best


@compilable
def value_sources(frame: WindowFrame, values: HoldingValues, slot: int, level: int, best: int) -> None:
    """Find the best move out of every holding; of equal ones staying wins, then shrinking."""
    last_spot = frame.root_cell // frame.side if slot == 0 else frame.offered[slot - 1]
    side, fit, offered = frame.side, frame.fit, frame.offered[slot]
    within, within_cell = values.within, values.within_cell
    stay, restart = values.by_kind[slot, level, STAY], values.by_kind[slot, level, RESTART, best]
    ahead, move = values.ahead[slot, level], values.move[slot, level]
    for spot in range(last_spot + 1):
        kept_spot = min(spot, offered)
        for on_demand in range(side - spot):
            cell, kept = spot * side + on_demand, kept_spot * side + on_demand
            value, target = within[kept], within_cell[kept]
            # `within` has the best shrink already, so only staying and a restart are left to compare.
            # What the market takes in this slot makes the move a shrink already; else one may stay.
            if kept == cell and fit[spot + on_demand] == spot + on_demand and stay[cell] >= value:
                value, target = stay[cell], cell
            if restart > value:
                value, target = restart, best
            ahead[cell], move[cell] = value, target


@compilable
def next_level(frame: WindowFrame, level: int, cell: int, target: int) -> int:
    """Return the level at the end of a slot that began with a move from one cell to another."""
    if target == 0:
        return 0
    side = frame.side
    kind = kind_of_move(cell // side, cell % side, target // side, target % side)
    after: int = frame.nexts[level, kind]
    return after
