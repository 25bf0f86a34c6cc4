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

from slacktide.compiled import compilable
from slacktide.market.base import Floats, Ints
from slacktide.solve.window_frame import Frame, live, pause_of


class Values(NamedTuple):
    """What holdings are worth at one price of work; filled by `evaluate`."""

    stay: Floats
    """[slot, level, cell]: value of the slot and all later ones when the cell is kept."""
    shrink: Floats
    """[slot, level, cell]: the same when the cell is reached by letting workers go."""
    restart: Floats
    """[slot, cell]: the same when the cell is reached by a restart."""
    ahead: Floats
    """[slot, level, cell]: value of the slot and all later ones of who comes with this cell."""
    move: Ints
    """[slot, level, cell]: the target that attains it."""
    within: Floats
    """[cell]: best value of a shrink into the cell or below it; of the slot and level at hand."""
    within_cell: Ints


class Point(NamedTuple):
    """What a plan comes to."""

    value: float
    """Its value at the price of work it was made for."""
    gain: float
    """Its progress, as if there were work without end."""
    cost: float
    real_gain: float
    """Its progress until the job is done."""
    real_cost: float


@compilable
def empty_values(frame: Frame) -> Values:
    """Make room for the values of a window."""
    shape = (frame.slots, len(frame.left), frame.cells)
    return Values(
        np.empty(shape),
        np.empty(shape),
        np.empty((frame.slots, frame.cells)),
        np.zeros((frame.slots + 1, len(frame.left), frame.cells)),
        np.zeros(shape, dtype=np.int64),
        np.empty(frame.cells),
        np.empty(frame.cells, dtype=np.int64),
    )


@compilable
def evaluate(frame: Frame, values: Values, worth: float, plan: Ints) -> Point:
    """Value everything at this price of work, write the best plan's cells, and say what it comes to."""
    root = frame.root_level
    for slot in range(frame.slots - 1, 0, -1):
        best = value_restarts(frame, values, slot, worth)
        for level in range(root):
            value_others(frame, values, slot, level, worth)
            value_sources(frame, values, slot, level, best)
    best = value_restarts(frame, values, 0, worth)
    value_others(frame, values, 0, root, worth)
    value_source(frame, values, 0, root, frame.root_cell, best)
    return follow(frame, values, plan)


@compilable
def value_restarts(frame: Frame, values: Values, slot: int, worth: float) -> int:
    """Value every holding of a slot as reached by a restart; return the best, the idle one first."""
    side, fit = frame.side, frame.fit
    restart, after = values.restart[slot], values.ahead[slot + 1]
    productive = max(0.0, frame.hours[slot] - frame.restart)
    spot_usd = frame.usd[slot, 0] * frame.billed[slot]
    on_demand_usd = frame.usd[slot, 1] * frame.billed[slot]
    restart[0] = after[0, 0]
    best = 0
    for spot in range(frame.offered[slot] + 1):
        for width in range(max(spot, 1), side):
            if fit[width] == width:
                cell = spot * side + width - spot
                work = worth * frame.rate[width] * productive
                paid = spot_usd * spot + on_demand_usd * (width - spot)
                restart[cell] = work - paid + after[frame.restart_next, cell]
                if restart[cell] > restart[best]:
                    best = cell
    return best


@compilable
def value_others(frame: Frame, values: Values, slot: int, level: int, worth: float) -> None:
    """Value every holding of a slot as kept and as shrunk to, and the best shrink within each."""
    side, fit = frame.side, frame.fit
    stay, shrink, after = values.stay[slot, level], values.shrink[slot, level], values.ahead[slot + 1]
    within, within_cell = values.within, values.within_cell
    kept = worth * max(0.0, frame.hours[slot] - frame.left[level])
    shrunk = worth * max(0.0, frame.hours[slot] - frame.shrunk[level])
    stay_next, shrink_next = frame.stay_next[level], frame.shrink_next[level]
    spot_usd = frame.usd[slot, 0] * frame.billed[slot]
    on_demand_usd = frame.usd[slot, 1] * frame.billed[slot]
    for spot in range(frame.offered[slot] + 1):
        for width in range(spot, side):
            cell = spot * side + width - spot
            best, best_cell = -np.inf, 0
            if spot > 0 and within[cell - side] > best:
                best, best_cell = within[cell - side], within_cell[cell - side]
            if width > spot and within[cell - 1] > best:
                best, best_cell = within[cell - 1], within_cell[cell - 1]
            if width == 0:
                stay[0] = shrink[0] = after[0, 0]
                best = after[0, 0]
            elif fit[width] == width:
                paid = spot_usd * spot + on_demand_usd * (width - spot)
                stay[cell] = kept * frame.rate[width] - paid + after[stay_next, cell]
                shrink[cell] = shrunk * frame.rate[width] - paid + after[shrink_next, cell]
                if shrink[cell] > best:
                    best, best_cell = shrink[cell], cell
            within[cell], within_cell[cell] = best, best_cell


@compilable
def value_sources(frame: Frame, values: Values, slot: int, level: int, best: int) -> None:
    """Find the best move out of every holding that the slot before could end with."""
    for spot in range(frame.offered[slot - 1] + 1):
        for width in range(spot, frame.side):
            if frame.fit[width] == width:
                value_source(frame, values, slot, level, spot * frame.side + width - spot, best)


@compilable
def value_source(frame: Frame, values: Values, slot: int, level: int, cell: int, best: int) -> None:
    """Find the best move out of one holding; on equal values staying wins, then shrinking."""
    side = frame.side
    spot, on_demand = cell // side, cell % side
    kept = min(spot, frame.offered[slot]) * side + on_demand
    value, move = values.within[kept], values.within_cell[kept]
    # What the market takes in this slot makes the move a shrink already; else one may stay.
    if kept == cell and frame.fit[spot + on_demand] == spot + on_demand:
        if values.stay[slot, level, cell] >= value:
            value, move = values.stay[slot, level, cell], cell
    if values.restart[slot, best] > value:
        value, move = values.restart[slot, best], best
    values.ahead[slot, level, cell] = value
    values.move[slot, level, cell] = move


@compilable
def follow(frame: Frame, values: Values, plan: Ints) -> Point:
    """Follow the best moves from the root; write the cells and add up what they come to."""
    cell, level = frame.root_cell, frame.root_level
    value = values.ahead[0, level, cell]
    gain = cost = real_gain = real_cost = 0.0
    done = False
    for slot in range(frame.slots):
        target = values.move[slot, level, cell]
        plan[slot] = 0 if done else target
        spot, on_demand = target // frame.side, target % frame.side
        pause, level = pause_of(frame, level, cell, target)
        if target > 0:
            gain += frame.rate[spot + on_demand] * max(0.0, frame.hours[slot] - pause)
            cost += (frame.usd[slot, 0] * spot + frame.usd[slot, 1] * on_demand) * frame.billed[slot]
        if not done:
            real_gain, real_cost, done = live(frame, slot, target, pause, real_gain, real_cost)
        cell = target
    return Point(value, gain, cost, real_gain, real_cost)
