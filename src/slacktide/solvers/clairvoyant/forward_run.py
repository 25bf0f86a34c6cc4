"""The forward run: follow the best values through the true physics, from one start or from many.

The grid only advises. A *label* is one way to have come to a slot: holding, pause left over, true work
left, and what was paid. Every target is tried from every label; its score is the value that the grid
promises after it, read between points if need be, less what was paid. Whether a target still meets a
hard deadline is decided by the exact edge and not by the grid, and an end of the job is scored by its
formula. Where the grid is exact its promises are true and one label is enough; elsewhere the best BEAM
labels of each slot are kept, so that a slightly wrong promise does not decide at once: the error is less
than a tenth of that of a single path.

The best plan is then run through `physics`. So a plan is always one that can be carried out, its cost
is what the physics says, and rounding can make it only worse than the optimum, never better.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.physics.progress import WORK_TOLERANCE_HOURS
from slacktide.solvers.clairvoyant.frame import (
    GRID_TOLERANCE,
    NEVER,
    Edge,
    Future,
    Grid,
    JobFrame,
    look_ahead,
    replay,
    usd_per_hour,
    window_hours,
    worth,
)
from slacktide.solvers.clairvoyant.sweep import (
    copy,
    fill_deadline,
    find_edge,
    late_pause,
    late_value,
    step_back,
)
from slacktide.solvers.slotted import kind_of_move

SAME = 1e-9  # amounts of work or money closer than this are equal
BEAM = 64
"""How many labels of a slot are followed if the grid is not exact; twice as many if whole slots are paid,
because then more of them look alike."""


class SlotValues(NamedTuple):
    """The values of states, slot by slot, for as many slots as are kept at once."""

    inside: Grid  # values by slot of a segment, pause left over, row and grid point; see `step_back`
    rows: Ints
    kept: Grid  # the values at each segment's first slot, and at the deadline
    kept_rows: Ints
    subset: Grid
    low: Ints  # the lowest grid point that can have been reached by each slot


class PathLabels(NamedTuple):
    """The labels of each slot that are worth following, and the best end of the job found so far."""

    counts: Ints  # how many there are, by slot; the other arrays are by slot and label
    holding: Ints
    left: Ints  # index of the pause left over
    work: Grid  # work left, in GPU-hours
    paid: Grid
    score: Grid  # the value still to be had by the grid, less what was paid
    parent: Ints  # the label of the slot before
    end: Ints  # the best end so far: its slot, its target, and its parent among the labels of that slot
    end_score: Grid


class Label(NamedTuple):
    """One way to have come to a slot; the fields are those of `PathLabels`."""

    holding: int
    left: int
    work: float
    paid: float
    score: float
    parent: int


def empty_values(frame: JobFrame) -> SlotValues:
    """Allocate the values of one segment, and of the first slot of each."""
    state = (len(frame.pauses.left_hours), len(frame.spot))
    slots, points = frame.terms.deadline_slots, frame.last + 2
    segments = math.ceil(slots / frame.segment)
    fewer = frame.pauses.shrink[frame.pauses.stay]
    widths = len(frame.terms.rate) if (fewer != frame.pauses.restart).any() else 0
    low = np.full(slots + 1, frame.last)
    low[1:] -= frame.shift[frame.pauses.restart].max() + frame.shift.max() * np.arange(slots)
    return SlotValues(
        inside=np.empty((frame.segment + 1, *state, points)),
        rows=np.empty((frame.segment + 1, *state), dtype=np.int64),
        kept=np.empty((segments + 1 if segments > 1 else 0, *state, points)),
        kept_rows=np.empty((segments + 1, *state), dtype=np.int64),
        subset=np.empty((widths, widths, points)),
        low=np.maximum(low, 0).astype(np.int64),
    )


def empty_labels(frame: JobFrame) -> PathLabels:
    """Allocate the labels of every slot: one where the grid is exact, else BEAM or twice as many."""
    slots = frame.terms.deadline_slots + 1
    beam = 2 * BEAM if frame.terms.whole_slots else BEAM
    shape = (slots, 1 if frame.exact else beam)
    return PathLabels(
        counts=np.zeros(slots, dtype=np.int64),
        holding=np.zeros(shape, dtype=np.int64),
        left=np.zeros(shape, dtype=np.int64),
        work=np.zeros(shape),
        paid=np.zeros(shape),
        score=np.zeros(shape),
        parent=np.zeros(shape, dtype=np.int64),
        end=np.zeros(3, dtype=np.int64),
        end_score=np.zeros(1),
    )


@compilable
def copy_slot(values: Grid, rows: Ints, other: Grid, other_rows: Ints) -> None:
    """Copy the values of one slot."""
    for left in range(rows.shape[0]):
        for holding in range(rows.shape[1]):
            rows[left, holding] = other_rows[left, holding]
            copy(values[left, holding], other[left, holding])


@compilable
def sweep_segment(
    frame: JobFrame, future: Future, edge: Edge, values: SlotValues, first: int, count: int
) -> None:
    """Compute the values of a segment's slots from those just after it, which are in `inside[count]`."""
    for i in range(count - 1, -1, -1):
        slot = first + i
        if slot > 0:  # at slot 0 there is one state only, and the search tries its targets itself
            step_back(
                frame, future, edge, slot, values.low[slot],
                values.inside[i + 1], values.rows[i + 1], values.inside[i], values.rows[i], values.subset,
            )  # fmt: skip


@compilable
def sweep(frame: JobFrame, future: Future, edge: Edge, values: SlotValues) -> None:
    """Sweep back from the deadline; leaves the first segment's values, and the start of every other."""
    slots, size = frame.terms.deadline_slots, frame.segment
    segments = (slots + size - 1) // size
    count = slots - (segments - 1) * size
    fill_deadline(frame, future, values.inside[count], values.rows[count])
    for segment in range(segments - 1, -1, -1):
        count = min(size, slots - segment * size)
        if segments > 1:
            kept = segment + 1
            copy_slot(values.kept[kept], values.kept_rows[kept], values.inside[count], values.rows[count])
        sweep_segment(frame, future, edge, values, segment * size, count)
        if segment > 0:
            copy_slot(values.inside[size], values.rows[size], values.inside[0], values.rows[0])


@compilable
def sweep_again(frame: JobFrame, future: Future, edge: Edge, values: SlotValues, slot: int) -> None:
    """Compute the values of the segment that begins with this slot again, unless they are in memory."""
    segment = slot // frame.segment
    if segment > 0 and slot == segment * frame.segment:
        count = min(frame.segment, frame.terms.deadline_slots - slot)
        kept = segment + 1
        copy_slot(values.inside[count], values.rows[count], values.kept[kept], values.kept_rows[kept])
        sweep_segment(frame, future, edge, values, slot, count)


@compilable
def work_tolerance(frame: JobFrame) -> float:
    """Return the work by which a state may miss a hard deadline's edge and the physics still finish it."""
    return float(0.5 * WORK_TOLERANCE_HOURS * frame.terms.rate[frame.terms.fastest])


@compilable
def lowest_score(labels: PathLabels, slot: int) -> float:
    """Return the score that a new label must pass to get a place in a slot."""
    if labels.counts[slot] < labels.score.shape[1]:
        return 0.5 * NEVER
    lowest = np.inf
    for score in labels.score[slot]:
        lowest = score if score < lowest else lowest
    return lowest


@compilable
def keep(labels: PathLabels, slot: int, new: Label) -> None:
    """Keep a label of a slot: in place of one that it makes useless, in a free place, or for the worst one.

    Of two labels in the same state, one with no more work left and no more paid makes the other useless.
    """
    count, place = labels.counts[slot], -1
    worst = 0
    for i in range(count):
        if labels.holding[slot, i] == new.holding and labels.left[slot, i] == new.left:
            if labels.work[slot, i] <= new.work + SAME and labels.paid[slot, i] <= new.paid + SAME:
                return
            if labels.work[slot, i] >= new.work - SAME and labels.paid[slot, i] >= new.paid - SAME:
                place = i
        if labels.score[slot, i] < labels.score[slot, worst]:
            worst = i
    if place < 0 and count < labels.score.shape[1]:
        place = count
        labels.counts[slot] = count + 1
    if place < 0:
        place = worst
    labels.holding[slot, place] = new.holding
    labels.left[slot, place] = new.left
    labels.work[slot, place] = new.work
    labels.paid[slot, place] = new.paid
    labels.score[slot, place] = new.score
    labels.parent[slot, place] = new.parent


@compilable
def note_end(labels: PathLabels, slot: int, target: int, parent: int, score: float) -> None:
    """Note the end of a job with this target in this slot, if it is the best so far."""
    if score > labels.end_score[0]:
        labels.end_score[0] = score
        labels.end[0], labels.end[1], labels.end[2] = slot, target, parent


@compilable
def branch(
    frame: JobFrame, future: Future, edge: Edge, later: Grid, rows: Ints, prices: Floats,
    labels: PathLabels, slot: int, parent: int,
) -> None:  # fmt: skip
    """Try every target from one label of a slot.

    This is the hot loop of the forward run, so whatever most targets need is written out or inlined.
    """
    # For each target g from the label (h, l, y, paid): the pause q by the kind of move; then either the job
    # ends inside the slot, or the deadline follows, or score = J_{t+1}(g, q - slot, y - gain) - paid - bill.
    terms, offered = frame.terms, future.spot_gpus[slot]
    slot_hours, cell, first = terms.slot_hours, frame.cell_gpu_hours, frame.first_gpu_hours
    most, tops, tolerance = edge.most_gpu_hours[slot + 1], edge.top[slot + 1], work_tolerance(frame)
    spots, on_demands = frame.spot, frame.on_demand
    holding, left = labels.holding[slot, parent], labels.left[slot, parent]
    work, paid = labels.work[slot, parent], labels.paid[slot, parent]
    spot, on_demand, stay = spots[holding], on_demands[holding], frame.pauses.stay[left]
    aheads = (stay, frame.pauses.shrink[stay], frame.pauses.restart)
    window = window_hours(frame, slot)
    lowest = lowest_score(labels, slot + 1)
    for target in range(len(spots)):
        if spots[target] > offered:
            continue
        after, rest, bill = 0, work, 0.0
        if target > 0:
            pause = aheads[kind_of_move(spot, on_demand, spots[target], on_demands[target])]
            hours, rate = frame.pauses.ahead_hours[pause], terms.rate[spots[target] + on_demands[target]]
            if hours < window and work <= rate * (window - hours + WORK_TOLERANCE_HOURS):
                held = hours + work / rate
                bill = prices[target] * (slot_hours if terms.whole_slots else held)
                note_end(labels, slot, target, parent, worth(frame, slot * slot_hours + held) - paid - bill)
                continue
            after, bill = frame.pauses.after[pause], prices[target] * slot_hours
            rest = work - rate * max(0.0, slot_hours - hours)
        if slot + 1 == terms.deadline_slots:
            lateness = late_pause(frame, after, target)
            note_end(labels, slot, target, parent, late_value(frame, future, lateness, rest) - paid - bill)
            continue
        # Feasible or not is decided by the edge, which has no grid and so no rounding.
        if frame.hard and rest > most[after, target] + tolerance:
            continue
        position = (rest - first) / cell
        point = min(max(int(position + GRID_TOLERANCE), 0), tops[after, target])
        row = rows[after, target]
        score = later[after, row, point] - paid - bill
        weight = position - point
        if abs(weight) > GRID_TOLERANCE:
            score += weight * (later[after, row, point + 1] - later[after, row, point])
        if score > lowest:
            keep(labels, slot + 1, Label(target, after, rest, paid + bill, score, parent))
            lowest = lowest_score(labels, slot + 1)


@compilable
def search(
    frame: JobFrame, future: Future, edge: Edge, values: SlotValues, labels: PathLabels, plan: Ints
) -> float:
    """Find the plan of greatest value; fills in the targets by slot, returns what the grid promised.

    Leaves the plan empty (-1 in every slot) when a hard deadline cannot be met.
    """
    for slot in range(len(plan)):
        plan[slot] = -1
    if frame.hard and frame.terms.work_gpu_hours > edge.most_gpu_hours[0, 0, 0] + 0.5 * work_tolerance(frame):
        return NEVER
    prices = np.zeros(len(frame.spot))
    promised = NEVER
    labels.counts[0], labels.end_score[0] = 1, NEVER
    labels.holding[0, 0], labels.left[0, 0] = 0, 0
    labels.work[0, 0], labels.paid[0, 0] = frame.terms.work_gpu_hours, 0.0
    for slot in range(frame.terms.deadline_slots):
        # Only one segment of values is in memory: the next one is computed from the slot kept after it.
        sweep_again(frame, future, edge, values, slot)
        for target in range(len(prices)):
            prices[target] = usd_per_hour(frame, future, slot, target)
        i = slot % frame.segment + 1
        labels.counts[slot + 1] = 0
        for parent in range(labels.counts[slot]):
            branch(frame, future, edge, values.inside[i], values.rows[i], prices, labels, slot, parent)
        if slot == 0:
            promised = labels.end_score[0]
            for label in range(labels.counts[1]):
                promised = max(promised, labels.score[1, label])
    # Read the plan off backwards, from the best end through the labels' parents.
    target, parent = labels.end[1], labels.end[2]
    for slot in range(labels.end[0], -1, -1):
        plan[slot] = target
        target, parent = labels.holding[slot, parent], labels.parent[slot, parent]
    return promised


@compilable
def solve_starts(
    frame: JobFrame, spot_usd: Floats, on_demand_usd: Floats, spot_gpus: Ints, starts: Ints,
    future: Future, edge: Edge, values: SlotValues, labels: PathLabels, plan: Ints,
    spot: Ints, on_demand: Ints, out: Grid, promised: Floats,
) -> None:  # fmt: skip
    """Solve the job from each start; one row of `out` each. The plan arrays keep the last one's."""
    for row in range(len(starts)):
        look_ahead(frame, future, starts[row], spot_usd, on_demand_usd, spot_gpus)
        find_edge(frame, future, edge)
        sweep(frame, future, edge, values)
        promised[row] = search(frame, future, edge, values, labels, plan)
        replay(frame, future, plan, spot, on_demand, out[row])
