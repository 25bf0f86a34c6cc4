"""The window programme where a limit binds: exact label setting under a Lagrangian bound.

A label is a way to a state (slot, holding, pause left) with its progress and cost. From the root, all
labels of a slot are moved to all holdings of it; those that cannot beat the best plan known, even at
the price of work that makes the bound tightest, are dropped, as are those with a rival in the same
state that has done no less and paid no more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.compiled import compilable
from slacktide.market.base import Floats, Ints
from slacktide.solve.window_frame import Frame, live
from slacktide.solve.window_values import Values

CELL, LEVEL, PARENT, NEXT = range(4)
GAIN, COST = range(2)
FIRST_LABELS = 256
SAME_WORK = 1e-10
"""Progress that makes no difference, as a share of the work left."""

SAME_COST = 1e-12
"""Cost that makes no difference, as a share of the dearest bill for the window."""


class Labels(NamedTuple):
    """All labels of a search; `count` of them are in use."""

    whole: Ints
    """[label, (cell, level, parent, next label of the same state)]."""
    real: Floats
    """[label, (gain, cost)]."""
    head: Ints
    """[state]: its newest label."""


class Best(NamedTuple):
    """The best plan known."""

    value: float
    slot: int
    """Where its last label was moved; -1 while the plan is the one the search began with."""
    label: int
    target: int


@compilable
def empty_labels(frame: Frame) -> Labels:
    """Make room for labels, the root among them."""
    whole = np.full((FIRST_LABELS, 4), -1)
    real = np.zeros((FIRST_LABELS, 2))
    whole[0, CELL], whole[0, LEVEL] = frame.root_cell, frame.root_level
    return Labels(whole, real, np.full(len(frame.left) * frame.cells, -1))


@compilable
def grown(labels: Labels) -> Labels:
    """Return the same labels with room for twice as many."""
    count = len(labels.whole)
    whole, real = np.full((2 * count, 4), -1), np.zeros((2 * count, 2))
    whole[:count], real[:count] = labels.whole, labels.real
    return Labels(whole, real, labels.head)


@compilable
def search(
    frame: Frame, values: Values, worth: float, target_gain: float, known: float, plan: Ints
) -> tuple[float, int]:
    """Write the best plan's cells over `plan` if one beats the `known` value.

    `values` are those at the price `worth`; a plan that makes `target_gain` at least (or at most)
    is worth no more than its value there less what the price adds to that gain. Returns the best
    value and the number of labels it took.
    """
    labels = empty_labels(frame)
    offset = (frame.reserve - worth) * target_gain
    slack = SAME_COST * frame.dearest * frame.side * frame.billed.sum()
    best = Best(known, -1, -1, 0)
    first, count = 0, 1
    for slot in range(frame.slots):
        last = count
        for label in range(first, last):
            if labels.real[label, COST] < np.inf:
                labels, count, best = move_label(
                    frame, values, slot, label, worth, offset, slack, labels, last, count, best
                )
        first = last
    unroll(frame, labels, best, plan)
    return best.value, count


@compilable
def move_label(
    frame: Frame, values: Values, slot: int, label: int, worth: float, offset: float, slack: float,
    labels: Labels, first: int, count: int, best: Best,
) -> tuple[Labels, int, Best]:  # fmt: skip
    """Move one label to every holding of its slot that could still lead to the best plan."""
    side = frame.side
    cell, level = labels.whole[label, CELL], labels.whole[label, LEVEL]
    gain, cost = labels.real[label, GAIN], labels.real[label, COST]
    held_spot, held_on_demand = cell // side, cell % side
    bound = worth * gain - cost + offset - slack
    nearly = frame.high * (1.0 - 1e-6)
    near = gain + frame.rate.max() * frame.hours[slot] >= nearly
    stay, shrink, restart = values.stay[slot, level], values.shrink[slot, level], values.restart[slot]
    for spot in range(frame.offered[slot] + 1):
        for on_demand in range(side - spot):
            if frame.fit[spot + on_demand] != spot + on_demand:
                continue
            target = spot * side + on_demand
            if spot > held_spot or on_demand > held_on_demand:
                value, pause, after = restart[target], frame.restart, frame.restart_next
            elif target == cell:
                value, pause, after = stay[target], frame.left[level], frame.stay_next[level]
            else:
                value, pause, after = shrink[target], frame.shrunk[level], frame.shrink_next[level]
            # A last slot may be left early, and then be worth more than the whole of it.
            ends = near and gain + frame.rate[spot + on_demand] * (frame.hours[slot] - pause) >= nearly
            if bound + value <= best.value and not ends:
                continue
            new_gain, new_cost, done = live(frame, slot, target, pause, gain, cost)
            if done or slot == frame.slots - 1:
                value = frame.reserve * new_gain - new_cost
                if new_gain >= frame.low - SAME_WORK * frame.high and value > best.value + slack:
                    best = Best(value, slot, label, target)
                continue
            if target == 0:
                after = 0
            if count == len(labels.whole):
                labels = grown(labels)
            if add_label(frame, labels, first, count, target, after, new_gain, new_cost, slack):
                labels.whole[count, PARENT] = label
                count += 1
    return labels, count, best


@compilable
def add_label(
    frame: Frame, labels: Labels, first: int, count: int, cell: int, level: int, gain: float, cost: float,
    slack: float,
) -> bool:  # fmt: skip
    """Write a label at `count` unless a rival in its state is as good; drop rivals that it beats."""
    # Without pauses it does not matter what is held: all holdings are one state.
    state = level * frame.cells + cell if frame.restart > 0.0 else 0
    same = SAME_WORK * frame.high
    rival = labels.head[state]
    while rival >= first:
        if labels.real[rival, GAIN] >= gain - same and labels.real[rival, COST] <= cost + slack:
            return False
        if labels.real[rival, GAIN] <= gain + same and labels.real[rival, COST] >= cost - slack:
            labels.real[rival, COST] = np.inf
        rival = labels.whole[rival, NEXT]
    labels.whole[count, CELL], labels.whole[count, LEVEL] = cell, level
    labels.real[count, GAIN], labels.real[count, COST] = gain, cost
    labels.whole[count, NEXT] = labels.head[state]
    labels.head[state] = count
    return True


@compilable
def unroll(frame: Frame, labels: Labels, best: Best, plan: Ints) -> None:
    """Write the cells of the best plan, if the search found one."""
    if best.slot < 0:
        return
    plan[:] = 0
    plan[best.slot] = best.target
    label = best.label
    for slot in range(best.slot - 1, -1, -1):
        plan[slot] = labels.whole[label, CELL]
        label = labels.whole[label, PARENT]
