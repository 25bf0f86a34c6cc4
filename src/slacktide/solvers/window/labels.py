"""The window programme where a limit binds: exact label setting under two bounds.

A label is a way to a state (slot, holding, pause left) with its progress and cost. From the root on,
the labels of each slot are moved to all its holdings. A label is dropped when

- it cannot beat the best plan known, even at the price of work that makes the Lagrangian bound tightest;
- it cannot beat it even if no pause were to come: that bound uses whole GPUs only (see `StepWorths`);
- a rival in the same state has done no less and paid no more;
- a rival in any state leads by the work of a whole restart and has paid no more: it can then do whatever
  this label does and not fall behind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.solvers.slotted import kind_of_move
from slacktide.solvers.window.frame import WindowFrame, fill, live
from slacktide.solvers.window.values import HoldingValues

CELL, LEVEL, PARENT, NEXT = range(4)
GAIN, COST = range(2)

BUCKETS = 256  # amounts of progress that labels of any state are compared by

FIRST_LOOK = 8  # how many labels of each slot a first, quick search follows

ALL = 1 << 40

SAME_WORK = 1e-10  # progress that makes no difference, as a share of the work left

SAME_COST = 1e-12  # cost that makes no difference, as a share of the highest bill for the window


STEPS = 128  # into how many steps a window's progress is divided where widths have no step in common

SAME_STEP = 1e-9


class SearchLabels(NamedTuple):
    """All labels of a search, in the order in which they were found."""

    whole: Ints  # [label, (cell, level, parent, next label of the same state)]
    real: Floats  # [label, (gain, cost)]
    newest: Ints  # [state]: its newest label
    cheapest: Floats  # [bucket]: least cost of the present slot's labels that have done this much or more


class Bounds(NamedTuple):
    """The numbers that decide whether a label is dropped."""

    worth: float  # the price of work at which `HoldingValues` were computed
    offset: float  # what the Lagrangian bound adds for the limit on progress
    enough: float  # progress that is on the line
    nearly: float  # progress that may end the job
    slack: float  # cost that makes no difference
    bucket: float  # progress that one bucket stands for
    whole: bool  # whether the job cannot end in the window: then each slot is paid in full


class StepWorths(NamedTuple):
    """An upper bound on what a window's last slots can be worth, by the steps of progress they make.

    The Lagrangian bound mixes plans: it can hold five and a half GPUs. This one leaves the pauses out
    instead, so that slots depend on each other only by the progress they make together; a small knapsack
    over steps of progress then gives the most they can be worth. If each s(n) is a multiple of s(1), the
    step is what one GPU does in a slot and nothing is rounded; else progress is rounded up.
    """

    step: float
    worth: Floats
    """[slot, steps]: the most that this slot and later ones can be worth if they make that many or more."""


class Best(NamedTuple):
    """The best plan known."""

    value: float
    slot: int  # the slot of its last move; -1 while it is the plan that the search began with
    label: int  # the label that was moved
    target: int


@compilable
def search(
    frame: WindowFrame, values: HoldingValues, worth: float, limit: float, known: float, plan: Ints
) -> None:
    """Write the best plan's cells over `plan` if one beats the `known` value.

    `values` are those at the price `worth`; a plan that makes `limit` of progress at least (or at
    most) is worth no more than its value there less what that price adds to the limit. A first search
    follows a few labels only: the better plan it finds makes the whole search shorter, or unnecessary.
    """
    most = frame.hours.sum() * frame.most[frame.side - 1]
    bounds = Bounds(
        worth, (frame.reserve - worth) * limit, frame.low - SAME_WORK * frame.high, frame.high * (1.0 - 1e-6),
        least_difference(frame), most / BUCKETS, most < frame.high,
    )  # fmt: skip
    steps, labels = count_steps(frame), empty_labels(frame)
    known, complete = follow_labels(frame, values, bounds, steps, labels, FIRST_LOOK, known, plan)
    if not complete:
        follow_labels(frame, values, bounds, steps, labels, ALL, known, plan)


@compilable
def follow_labels(
    frame: WindowFrame, values: HoldingValues, bounds: Bounds, steps: StepWorths, labels: SearchLabels,
    at_most: int, known: float,
    plan: Ints,
) -> tuple[float, bool]:  # fmt: skip
    """Move at most this many labels of each slot; return the best value, and whether none was left out."""
    for state in range(len(labels.newest)):
        labels.newest[state] = -1
    best = Best(known, -1, -1, 0)
    complete = True
    # Computed from the root's parent, -1, so that both have the type that `move` returns: it compiles once.
    first, count = int(labels.whole[0, PARENT]) + 1, int(labels.whole[0, PARENT]) + 2
    for slot in range(frame.slots):
        last = count
        note_cheapest(labels, first, last, bounds.bucket)
        chosen = choose(frame, values, bounds, steps, labels, slot, first, last, best.value)
        complete = complete and len(chosen) <= at_most
        for label in chosen[:at_most]:
            if promise(frame, values, bounds, steps, labels, slot, label) > best.value + bounds.slack:
                while count + frame.cells > len(labels.whole):
                    labels = grown(labels)
                count, best = move(frame, values, bounds, steps, labels, slot, label, last, count, best)
        first = last
    unroll(labels, best, plan)
    return best.value, complete


@compilable
def choose(
    frame: WindowFrame, values: HoldingValues, bounds: Bounds, steps: StepWorths, labels: SearchLabels,
    slot: int, first: int,
    last: int, known: float,
) -> Ints:  # fmt: skip
    """Return the labels of a slot that may beat the best plan known and no rival outdoes, best first."""
    promises = np.empty(last - first)
    chosen = np.empty(last - first, dtype=np.int64)
    count = 0
    for label in range(first, last):
        if not is_outdone(frame, labels, label, bounds.bucket):
            value = promise(frame, values, bounds, steps, labels, slot, label)
            if value > known + bounds.slack:
                promises[count], chosen[count] = -value, label
                count += 1
    order = np.argsort(promises[:count], kind="mergesort")  # stable, so that ties have one order
    return chosen[:count][order]


@compilable
def least_difference(frame: WindowFrame) -> float:
    """Return the least difference in cost that is more than a rounding error."""
    return float(SAME_COST * frame.highest_usd * frame.side * frame.billed.sum())


@compilable
def empty_labels(frame: WindowFrame) -> SearchLabels:
    """Make room for labels, the root among them."""
    room = 1 + 2 * frame.cells
    whole = np.full((room, 4), -1)
    whole[0, CELL], whole[0, LEVEL] = frame.root_cell, frame.root_level
    newest = np.empty(len(frame.pauses) * frame.cells, dtype=np.int64)
    return SearchLabels(whole, np.zeros((room, 2)), newest, np.empty(BUCKETS + 1))


@compilable
def grown(labels: SearchLabels) -> SearchLabels:
    """Return the same labels with room for twice as many."""
    count = len(labels.whole)
    whole, real = np.full((2 * count, 4), -1), np.zeros((2 * count, 2))
    for label in range(count):
        for column in range(4):
            whole[label, column] = labels.whole[label, column]
        real[label, GAIN], real[label, COST] = labels.real[label, GAIN], labels.real[label, COST]
    return SearchLabels(whole, real, labels.newest, labels.cheapest)


@compilable
def note_cheapest(labels: SearchLabels, first: int, last: int, width: float) -> None:
    """Note the least cost of the labels of a slot that have done this much or more."""
    cheapest = labels.cheapest
    fill(cheapest, np.inf)
    for label in range(first, last):
        bucket = min(int(labels.real[label, GAIN] / width), BUCKETS)
        cheapest[bucket] = min(cheapest[bucket], labels.real[label, COST])
    for bucket in range(BUCKETS - 1, -1, -1):
        cheapest[bucket] = min(cheapest[bucket], cheapest[bucket + 1])


@compilable
def is_outdone(frame: WindowFrame, labels: SearchLabels, label: int, width: float) -> bool:
    """Whether a rival in any state can do whatever this label does from here on, and is no worse off."""
    cell, gain = labels.whole[label, CELL], labels.real[label, GAIN]
    # Following this label costs a rival one restart at most: it must lead by what is done in that time.
    slip = frame.restart * frame.most[cell // frame.side + cell % frame.side]
    bucket = min(int((gain + slip) / width) + 1, BUCKETS)
    return bool(labels.cheapest[bucket] <= labels.real[label, COST])


@compilable
def promise(
    frame: WindowFrame,
    values: HoldingValues,
    bounds: Bounds,
    steps: StepWorths,
    labels: SearchLabels,
    slot: int,
    label: int,
) -> float:
    """Return the most that a plan through this label can be worth."""
    cell, level = labels.whole[label, CELL], labels.whole[label, LEVEL]
    gain, cost = labels.real[label, GAIN], labels.real[label, COST]
    at_price: float = bounds.worth * gain - cost + bounds.offset + values.ahead[slot, level, cell]
    if not bounds.whole:
        # The last slot may be left early: then idling from here on bounds what is still to come.
        return float(max(at_price, bounds.worth * gain - cost + bounds.offset))
    need = min(max(steps_of(bounds.enough - gain, steps.step), 0), steps.worth.shape[1] - 1)
    return float(min(at_price, frame.reserve * gain - cost + steps.worth[slot, need]))


@compilable
def move(
    frame: WindowFrame, values: HoldingValues, bounds: Bounds, steps: StepWorths, labels: SearchLabels,
    slot: int, label: int,
    first: int, count: int, best: Best,
) -> tuple[int, Best]:  # fmt: skip
    """Extend one label by every holding of its slot that may lead to the best plan.

    New labels are written from `count` on, where there is room for one per holding; those of the
    next slot begin at `first`.
    """
    side, fit, rates, hours, billed = frame.side, frame.fit, frame.rate, frame.hours[slot], frame.billed[slot]
    spot_usd, on_demand_usd, reserve = frame.usd[slot, 0], frame.usd[slot, 1], frame.reserve
    cell, level = labels.whole[label, CELL], labels.whole[label, LEVEL]
    gain, cost = labels.real[label, GAIN], labels.real[label, COST]
    held_spot, held_on_demand = cell // side, cell % side
    table, pauses, nexts = values.by_kind[slot, level], frame.pauses[level], frame.nexts[level]
    completion, step, slack, whole = steps.worth[slot + 1], steps.step, bounds.slack, bounds.whole
    out_of_reach = len(completion) - 1
    enough, nearly, last = bounds.enough, bounds.nearly, slot == frame.slots - 1
    bound = bounds.worth * gain - cost + bounds.offset - slack
    top = best.value
    for spot in range(frame.offered[slot] + 1):
        for on_demand in range(side - spot):
            width, target = spot + on_demand, spot * side + on_demand
            if fit[width] != width:
                continue
            kind = kind_of_move(held_spot, held_on_demand, spot, on_demand)
            # A last slot may be left early, and then be worth more than the whole of it.
            if bound + table[kind, target] <= top and (
                whole or gain + rates[width] * (hours - pauses[kind]) < nearly
            ):
                continue
            new_gain, new_cost, done = live(
                rates[width], spot_usd * spot + on_demand_usd * on_demand, hours, billed, frame.whole_slots,
                pauses[kind], frame.high, gain, cost,
            )  # fmt: skip
            value = reserve * new_gain - new_cost
            if done or last:
                if new_gain >= enough and value > top + slack:
                    best, top = Best(value, slot, label, target), value
                continue
            need = min(max(steps_of(enough - new_gain, step), 0), out_of_reach)
            if whole and value + completion[need] <= top + slack:
                continue
            after = nexts[kind] if target > 0 else 0
            if add(frame, labels, first, count, label, target, after, new_gain, new_cost, slack):
                count += 1
    return count, best


@compilable
def add(
    frame: WindowFrame, labels: SearchLabels, first: int, count: int, parent: int, cell: int, level: int,
    gain: float, cost: float, slack: float,
) -> bool:  # fmt: skip
    """Write a label at `count` unless a rival in its state is as good; void the rivals that it beats."""
    # Without pauses it does not matter what is held: all holdings are one state.
    state = level * frame.cells + cell if frame.restart > 0.0 else 0
    same = SAME_WORK * frame.high
    whole, real = labels.whole, labels.real
    rival = labels.newest[state]
    while rival >= first:
        if real[rival, GAIN] >= gain - same and real[rival, COST] <= cost + slack:
            return False
        if real[rival, GAIN] <= gain + same and real[rival, COST] >= cost - slack:
            # Voided in place: taking it out of the chain would cost more than passing over it.
            real[rival, COST] = np.inf
        rival = whole[rival, NEXT]
    whole[count, CELL], whole[count, LEVEL], whole[count, PARENT] = cell, level, parent
    whole[count, NEXT] = labels.newest[state]
    real[count, GAIN], real[count, COST] = gain, cost
    labels.newest[state] = count
    return True


@compilable
def unroll(labels: SearchLabels, best: Best, plan: Ints) -> None:
    """Write the cells of the best plan, if the search found one."""
    if best.slot < 0:
        return
    for slot in range(len(plan)):
        plan[slot] = 0
    plan[best.slot] = best.target
    label = best.label
    for slot in range(best.slot - 1, -1, -1):
        plan[slot] = labels.whole[label, CELL]
        label = labels.whole[label, PARENT]


@compilable
def count_steps(frame: WindowFrame) -> StepWorths:
    """Compute the bound of `StepWorths`, from the last slot back."""
    step = step_of(frame)
    most = 0
    for slot in range(frame.slots):
        most += steps_of(frame.most[frame.side - 1] * frame.hours[slot], step)
    worth = np.full(
        (frame.slots + 1, most + 2), -np.inf
    )  # the last entry stands for all that is out of reach
    worth[frame.slots, 0] = 0.0
    # A knapsack from the last slot: worth[t, k] = max over n of value(t, n) + worth[t + 1, k - steps(n)].
    for slot in range(frame.slots - 1, -1, -1):
        for width in range(frame.side):
            if frame.fit[width] == width:
                add_width(frame, worth, slot, width, step)
    return StepWorths(step, worth)


@compilable
def step_of(frame: WindowFrame) -> float:
    """Return the step in which progress is counted."""
    for width in range(1, frame.side):
        times = frame.rate[width] / frame.rate[1]
        if frame.fit[width] == width and abs(times - np.rint(times)) > SAME_STEP:
            return float(frame.hours.sum() * frame.most[frame.side - 1] / STEPS)
    return float(frame.rate[1] * frame.hours[0])


@compilable
def steps_of(gain: float, step: float) -> int:
    """Return an amount of progress in whole steps, rounded up."""
    return int(np.ceil(gain / step - SAME_STEP))


@compilable
def add_width(frame: WindowFrame, worth: Floats, slot: int, width: int, step: float) -> None:
    """Raise a slot's worths to those of holding a width, as much of it as possible on the cheaper kind."""
    # Without pauses there is no reason to hold the more expensive kind.
    spot_usd, on_demand_usd = frame.usd[slot, 0], frame.usd[slot, 1]
    spot = min(width, frame.offered[slot]) if spot_usd <= on_demand_usd else 0
    paid = (spot_usd * spot + on_demand_usd * (width - spot)) * frame.billed[slot]
    gain = frame.rate[width] * frame.hours[slot] if width > 0 else 0.0
    made, value = steps_of(gain, step), frame.reserve * gain - paid
    now, after = worth[slot], worth[slot + 1]
    for steps in range(len(now) - 1):
        now[steps] = max(now[steps], value + after[max(0, steps - made)])
