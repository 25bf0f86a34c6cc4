"""The backward sweep: the best value still to be had from every state, slot by slot from the deadline.

Let J_t(h, l, y) be the greatest value less cost still to come at the start of slot t with holding h,
pause l left over and work y left. Going into the slot with target g under pause q gives

    C_g^q(y) = V(t*slot + q + y/s) - p_g * (q + y/s)                     if that ends inside the slot,
             = J_{t+1}(g, q - slot, y - s * (slot - q)) - p_g * slot     otherwise,

where p_g is what g costs per hour and s its speedup. The market may first take spot: h becomes h',
and a loss counts as a shrink. Then, because a shrink never pauses longer than a restart,

    J_t(h, l, y) = max( C_h^l              if nothing was lost: stay,
                        max_{g <= h'} C_g^max(l, shrink)      let go: a two-dimensional running maximum,
                        max_g C_g^restart, C_none )           anything: one maximum for all holdings,

so no pair of holdings is ever compared. When a shrink pauses as long as a restart, the second row is
part of the third. A step of the sweep along the axis of y is a shift by a constant with constant weights.

**A hard deadline** makes some states hopeless. How much work a state can still do by the deadline,
M_t(h, l), needs no grid at all: it obeys the same recursion without y, and so does the cheapest way to
do just that much. A state is feasible exactly when y <= M. The grid point just above M holds the
straight continuation through the value at M itself, so that interpolation next to the edge ends in the
edge's true value and feasibility neither grows nor recedes by rounding.
"""

from __future__ import annotations

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.solvers.clairvoyant.frame import (
    GRID_TOLERANCE,
    NEVER,
    Edge,
    Future,
    Grid,
    JobFrame,
    usd_per_hour,
    window_hours,
    worth,
)
from slacktide.solvers.slotted import kind_of_move, pause_ahead

TIE_GPU_HOURS = 1e-9
"""Amounts of work closer than this are equal when the cheaper way to reach them is sought."""


@compilable
def late_value(frame: JobFrame, future: Future, pause: float, work: float) -> float:
    """Return the value less cost of the termination configuration, begun at the deadline's slot."""
    terms = frame.terms
    if frame.hard:
        return NEVER
    hours = pause + work / terms.rate[terms.fastest]
    slots = int(np.floor(hours / terms.slot_hours + 1e-9))
    rest = max(0.0, hours - slots * terms.slot_hours)
    if terms.whole_slots and rest > 1e-9:
        rest = terms.slot_hours
    price = (future.owed_usd[slots + 1] - future.owed_usd[slots]) / terms.slot_hours
    owed = terms.fastest * (future.owed_usd[slots] + price * rest)
    value: float = worth(frame, terms.deadline_slots * terms.slot_hours + hours) - owed
    return value


@compilable
def late_pause(frame: JobFrame, left: int, holding: int) -> float:
    """Return the pause with which the termination configuration begins: all spot is let go, or lost."""
    kind = kind_of_move(frame.spot[holding], frame.on_demand[holding], 0, frame.terms.fastest)
    return pause_ahead(frame.terms, kind, frame.pauses.left_hours[left])


@compilable
def find_edge(frame: JobFrame, future: Future, edge: Edge) -> None:
    """Fill in how much work each state can still do by the deadline, and at what cost."""
    slots, holdings, lefts = frame.terms.deadline_slots, len(frame.spot), len(frame.pauses.left_hours)
    most, value = np.zeros(holdings), np.zeros(holdings)
    set_edge(frame, edge, slots, 0.0, 0.0)
    # The recursion of the module without y: M_t = max over the same three moves of s * (slot - q) + M_{t+1}.
    for slot in range(slots - 1, -1, -1):
        if not frame.hard:
            set_edge(frame, edge, slot, 0.0, 0.0)
            continue
        # Anything: hold nothing, or restart with whatever the market has.
        edge_targets(frame, future, edge, slot, frame.pauses.restart, most, value)
        for target in range(holdings):
            if target == 0:
                set_edge(frame, edge, slot, most[0], value[0])
            else:
                take_edge(edge, slot, 0, 0, most[target], value[target])
        set_edge(frame, edge, slot, edge.most_gpu_hours[slot, 0, 0], edge.value_usd[slot, 0, 0])
        for left in range(lefts):
            edge_stay(frame, future, edge, slot, left, most, value)
            edge_fewer(frame, future, edge, slot, left, most, value)
        for left in range(lefts):
            for holding in range(holdings):
                edge.top[slot, left, holding] = point_below(frame, edge.most_gpu_hours[slot, left, holding])


@compilable
def point_below(frame: JobFrame, work: float) -> int:
    """Return the highest grid point that is not above an amount of work; -1 if all are."""
    position = (work - frame.first_gpu_hours) / frame.cell_gpu_hours
    return min(int(np.floor(position + GRID_TOLERANCE)), frame.last)


@compilable
def set_edge(frame: JobFrame, edge: Edge, slot: int, most: float, value: float) -> None:
    """Give every state of a slot the same edge."""
    top = point_below(frame, most) if frame.hard else frame.last
    for left in range(len(frame.pauses.left_hours)):
        for holding in range(len(frame.spot)):
            edge.most_gpu_hours[slot, left, holding] = most
            edge.value_usd[slot, left, holding] = value
            edge.top[slot, left, holding] = top


@compilable
def edge_stay(
    frame: JobFrame, future: Future, edge: Edge, slot: int, left: int, most: Floats, value: Floats
) -> None:
    """Let each holding that the market leaves alone stay as it is."""
    if frame.pauses.stay[left] == frame.pauses.restart:
        return
    edge_targets(frame, future, edge, slot, frame.pauses.stay[left], most, value)
    for holding in range(1, len(frame.spot)):
        if frame.spot[holding] <= future.spot_gpus[slot]:
            take_edge(edge, slot, left, holding, most[holding], value[holding])


@compilable
def edge_fewer(
    frame: JobFrame, future: Future, edge: Edge, slot: int, left: int, most: Floats, value: Floats
) -> None:
    """Let each holding shrink to any part of itself; pair by pair, because there are few holdings."""
    shrink = frame.pauses.shrink[frame.pauses.stay[left]]
    if shrink == frame.pauses.restart:
        return
    edge_targets(frame, future, edge, slot, shrink, most, value)
    for holding in range(1, len(frame.spot)):
        spot, on_demand = frame.spot[holding], frame.on_demand[holding]
        for target in range(1, len(frame.spot)):
            if frame.spot[target] <= spot and frame.on_demand[target] <= on_demand:
                take_edge(edge, slot, left, holding, most[target], value[target])


@compilable
def ahead(most: float, value: float, best_most: float, best_value: float) -> bool:
    """Whether one way does more work than another, or as much at a higher value (less cost)."""
    if most > best_most + TIE_GPU_HOURS:
        return True
    return most > best_most - TIE_GPU_HOURS and value > best_value


@compilable
def take_edge(edge: Edge, slot: int, left: int, holding: int, most: float, value: float) -> None:
    """Improve a state's edge by one more way to go on, if it does more work, or as much for less."""
    old_most = edge.most_gpu_hours[slot, left, holding]
    if ahead(most, value, old_most, edge.value_usd[slot, left, holding]):
        edge.value_usd[slot, left, holding] = value
    edge.most_gpu_hours[slot, left, holding] = max(most, old_most)


@compilable
def edge_targets(
    frame: JobFrame, future: Future, edge: Edge, slot: int, pause: int, most: Floats, value: Floats
) -> None:
    """Compute the work and the value of going into a slot with each target under one pause."""
    terms, window = frame.terms, window_hours(frame, slot)
    held = terms.slot_hours if terms.whole_slots else window
    most[0], value[0] = edge.most_gpu_hours[slot + 1, 0, 0], edge.value_usd[slot + 1, 0, 0]
    for target in range(1, len(frame.spot)):
        most[target], value[target] = -1.0, NEVER
        if frame.spot[target] <= future.spot_gpus[slot]:
            rate = terms.rate[frame.spot[target] + frame.on_demand[target]]
            after = frame.pauses.after[pause]
            gain = rate * max(0.0, window - frame.pauses.ahead_hours[pause])
            most[target] = gain + edge.most_gpu_hours[slot + 1, after, target]
            paid = held * usd_per_hour(frame, future, slot, target)
            value[target] = edge.value_usd[slot + 1, after, target] - paid


@compilable
def fill_deadline(frame: JobFrame, future: Future, values: Grid, rows: Ints) -> None:
    """Write the value of each state at the deadline's slot, where the termination configuration begins."""
    for left in range(len(frame.pauses.left_hours)):
        for holding in range(len(frame.spot)):
            rows[left, holding] = holding
            pause = late_pause(frame, left, holding)
            row = values[left, holding]
            for point in range(frame.last + 1):
                work = frame.first_gpu_hours + point * frame.cell_gpu_hours
                row[point] = late_value(frame, future, pause, work)


@compilable
def fill(target: Floats, value: float) -> None:
    """Set each value of a row."""
    for i in range(len(target)):
        target[i] = value


@compilable
def copy(target: Floats, other: Floats) -> None:
    """Copy a row."""
    for i in range(len(target)):
        target[i] = other[i]


@compilable
def raise_to(target: Floats, other: Floats) -> None:
    """Raise each value to that of the other row where it is greater."""
    for i in range(len(target)):
        target[i] = other[i] if other[i] > target[i] else target[i]


@compilable
def raise_to_moved(target: Floats, near: Floats, paid: float) -> None:
    """Raise each value to a later one less what was paid on the way."""
    for i in range(len(target)):
        later = near[i] - paid
        target[i] = later if later > target[i] else target[i]


@compilable
def raise_to_between(target: Floats, near: Floats, far: Floats, weight: float, paid: float) -> None:
    """Raise each value to one between two later ones, less what was paid on the way."""
    for i in range(len(target)):
        later = near[i] + weight * (far[i] - near[i]) - paid
        target[i] = later if later > target[i] else target[i]


@compilable
def raise_to_target(
    frame: JobFrame, future: Future, edge: Edge, slot: int, holding: int, pause: int,
    low: int, later: Grid, later_rows: Ints, row: Floats,
) -> None:  # fmt: skip
    """Raise a row of values, from point `low` on, to C_g^q: going into the slot with one target."""
    terms, after = frame.terms, frame.pauses.after[pause]
    width = frame.spot[holding] + frame.on_demand[holding]
    hours, rate = frame.pauses.ahead_hours[pause], terms.rate[width]
    price = usd_per_hour(frame, future, slot, holding)
    finishing = frame.finishing[pause, width]
    window = window_hours(frame, slot)
    if window < terms.slot_hours:
        finishing = point_below(frame, rate * (window - hours)) + 1 if window > hours else 0
    for point in range(low, finishing):
        # These points end inside the slot: paid until then, and worth what a result at that time is.
        held = hours + (frame.first_gpu_hours + point * frame.cell_gpu_hours) / rate
        paid = price * (terms.slot_hours if terms.whole_slots else held)
        row[point] = max(row[point], worth(frame, slot * terms.slot_hours + held) - paid)

    # Above `top` the deadline is missed after this slot: those points keep the value they have.
    top = frame.last
    if frame.hard:
        if slot + 1 == terms.deadline_slots:
            return
        gain = rate * max(0.0, terms.slot_hours - hours)
        top = point_below(frame, gain + edge.most_gpu_hours[slot + 1, after, holding])
    start = max(low, finishing)
    if start > top:
        return
    source = later[after, later_rows[after, holding]]
    shift, weight = frame.shift[pause, width], frame.weight[pause, width]
    # Going from y to y - gain is a shift of the row.
    near = source[start - shift : top + 1 - shift]
    paid = price * terms.slot_hours
    if weight == 0.0:
        raise_to_moved(row[start : top + 1], near, paid)
    else:
        raise_to_between(
            row[start : top + 1], near, source[start - shift + 1 : top + 2 - shift], weight, paid
        )


@compilable
def close_edge(frame: JobFrame, low: int, top: int, most: float, value: float, row: Floats) -> None:
    """Continue a row one point beyond its top, straight through the value at the edge itself."""
    if not frame.hard or top >= frame.last or top < low:
        return
    gap = (most - frame.first_gpu_hours) / frame.cell_gpu_hours - top
    fall = min(0.0, value - row[top])
    row[top + 1] = row[top] + (fall / gap if gap > GRID_TOLERANCE else 0.0)


@compilable
def step_back(
    frame: JobFrame, future: Future, edge: Edge, slot: int, low: int,
    later: Grid, later_rows: Ints,
    values: Grid, rows: Ints, subset: Grid,
) -> None:  # fmt: skip
    """Compute the values of one slot, from grid point `low` on, from those of the next slot.

    `values[left, rows[left, h]]` is the row of holding h: holdings that can only restart (the third row of
    the recursion) share the row of holding nothing instead of copying it.
    """
    offered, holdings, lefts = future.spot_gpus[slot], len(frame.spot), len(frame.pauses.left_hours)
    # The third row of the recursion first: it is the same for all holdings.
    anything = values[0, 0]
    top = edge.top[slot, 0, 0]
    fill(anything[low : top + 1], NEVER)
    # Holding nothing for a slot leaves the work as it is.
    still = edge.top[slot + 1, 0, 0] + 1
    raise_to(anything[low:still], later[0, 0, low:still])
    for target in range(1, holdings):
        if frame.spot[target] <= offered:
            raise_to_target(
                frame, future, edge, slot, target, frame.pauses.restart, low, later, later_rows, anything
            )
    close_edge(frame, low, top, edge.most_gpu_hours[slot, 0, 0], edge.value_usd[slot, 0, 0], anything)
    for left in range(lefts):
        stay = frame.pauses.stay[left]
        fewer = frame.pauses.shrink[stay]
        if fewer != frame.pauses.restart:
            best_subsets(frame, future, edge, slot, fewer, low, later, later_rows, subset)
        for holding in range(holdings):
            spot, on_demand = frame.spot[holding], frame.on_demand[holding]
            # The market takes spot first; what it leaves is what may stay or be let go of.
            keeps = min(spot, offered)
            alone = keeps + on_demand == 0 or (
                fewer == frame.pauses.restart and (spot > offered or stay == frame.pauses.restart)
            )
            rows[left, holding] = 0 if alone else holding
            row = values[left, rows[left, holding]]
            if alone:
                if left > 0 and holding == 0:
                    copy(row[low : top + 2], anything[low : top + 2])
                continue
            fill(row[low : edge.top[slot, left, holding] + 1], NEVER)
            if spot <= offered:
                raise_to_target(frame, future, edge, slot, holding, stay, low, later, later_rows, row)
            if fewer != frame.pauses.restart:
                raise_to(row[low : edge.top[slot, left, holding] + 1], subset[keeps, on_demand, low:])
            raise_to(row[low : top + 1], anything[low : top + 1])
            close_edge(
                frame,
                low,
                edge.top[slot, left, holding],
                edge.most_gpu_hours[slot, left, holding],
                edge.value_usd[slot, left, holding],
                row,
            )


@compilable
def best_subsets(
    frame: JobFrame, future: Future, edge: Edge, slot: int, pause: int, low: int,
    later: Grid, later_rows: Ints, subset: Grid,
) -> None:  # fmt: skip
    """Fill subset[s, o] with the best target of at most s spot and o on-demand GPUs, under one pause."""
    widest = len(frame.terms.rate) - 1
    for spot in range(widest + 1):
        for on_demand in range(widest + 1 - spot):
            fill(subset[spot, on_demand, low:], NEVER)
    for holding in range(1, len(frame.spot)):
        if frame.spot[holding] <= future.spot_gpus[slot]:
            row = subset[frame.spot[holding], frame.on_demand[holding]]
            raise_to_target(frame, future, edge, slot, holding, pause, low, later, later_rows, row)
    # A running maximum in two dimensions: the best within (s, o) is (s, o), or within (s-1, o) or (s, o-1).
    for spot in range(widest + 1):
        for on_demand in range(widest + 1 - spot):
            row = subset[spot, on_demand, low:]
            if spot > 0:
                raise_to(row, subset[spot - 1, on_demand, low:])
            if on_demand > 0:
                raise_to(row, subset[spot, on_demand - 1, low:])
