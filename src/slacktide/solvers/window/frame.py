"""The numbers of one window of AHAP: its slots, its prices, the pauses that can be left, its two limits.

Everything here is compilable; `programme` says what problem the numbers describe.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.core.types import JobState
from slacktide.physics.progress import WORK_TOLERANCE_HOURS
from slacktide.solvers.slotted import SAME_PAUSE_HOURS, Slotted, kind_of_move, left_overs, pause_ahead

TILT = 1e-8  # prices are tilted by this share of the highest one, so that plans of equal cost have an order

MOST_WORK = 1e6  # times the highest price that a GPU-hour of work is worth when nothing but work counts


class WindowFrame(NamedTuple):
    """A window in bare numbers.

    A holding of s spot and o on-demand GPUs is the cell s * side + o; cell 0 holds nothing. A level
    is an amount of pause left at the start of a slot; level 0 is none, the last is the root's own.
    """

    slots: int
    side: int  # one more than the widest width
    cells: int
    hours: Floats  # [slot]: its length; the last one may be cut by the deadline
    billed: Floats  # [slot]: hours that are paid for a holding kept through it
    usd: Floats  # [slot, kind]: price of a spot and of an on-demand GPU-hour, tilted
    offered: Ints  # [slot]: spot GPUs, no more than the widest width
    rate: Floats
    most: Floats  # [width]: the greatest rate of this or any smaller width
    fit: Ints
    whole_slots: bool
    restart: float
    pauses: Floats  # [level, kind of move]: the pause that the move leaves ahead
    nexts: Ints  # [level, kind of move]: the level at the slot's end
    root_cell: int
    root_level: int
    low: float  # progress the window has to make to end on the line
    high: float  # progress that ends the job
    reserve: float  # what a GPU-hour of work beyond the line is worth
    highest_usd: float


@compilable
def frame(terms: Slotted, state: JobState, slot: int, quotes: Floats, reserve: float) -> WindowFrame:
    """Write a window as numbers: `quotes` has rows (spot USD, on-demand USD, spot GPUs) from `slot` on."""
    slots = min(len(quotes), terms.deadline_slots - slot)
    side = len(terms.fit)
    hours, billed = slot_lengths(terms, slot, slots)
    highest_usd = max(quotes[:slots, 0].max(), quotes[:slots, 1].max())
    highest_usd = highest_usd if highest_usd > 0.0 else 1.0
    usd = np.empty((slots, 2))
    offered = np.empty(slots, dtype=np.int64)
    for k in range(slots):
        # Of plans that cost the same, prefer spot, and early; use on demand last, and late: spot is
        # offered now, and on demand can wait for what the forecast did not see.
        usd[k, 0] = quotes[k, 0] + TILT * highest_usd * k
        usd[k, 1] = quotes[k, 1] + TILT * highest_usd * (2 * slots - k)
        offered[k] = min(max(int(np.rint(quotes[k, 2])), 0), side - 1)
    pauses, nexts = pause_levels(terms, state, slots)
    most = terms.rate.copy()
    for width in range(1, side):
        most[width] = max(most[width - 1], terms.rate[terms.fit[width]])
    end = min((slot + slots) * terms.slot_hours, terms.deadline_hours)
    done = state.progress_gpu_hours
    return WindowFrame(
        slots, side, side * side, hours, billed, usd, offered, terms.rate, most, terms.fit, terms.whole_slots,
        terms.restart_hours, pauses, nexts,
        state.spot_gpus * side + state.on_demand_gpus, len(pauses) - 1,
        terms.work_gpu_hours * end / terms.deadline_hours - done, terms.work_gpu_hours - done,
        # Spot at exactly the reserve price must be taken in spite of rounding and the tilt.
        reserve * (1.0 + 20.0 * TILT), highest_usd,
    )  # fmt: skip


@compilable
def slot_lengths(terms: Slotted, slot: int, slots: int) -> tuple[Floats, Floats]:
    """Return the hours that count in each slot, and those that are paid."""
    hours = np.full(slots, terms.slot_hours)
    if slot + slots == terms.deadline_slots:
        hours[slots - 1] = min(
            terms.slot_hours, terms.deadline_hours - (terms.deadline_slots - 1) * terms.slot_hours
        )
    billed = np.full(slots, terms.slot_hours) if terms.whole_slots else hours.copy()
    return hours, billed


@compilable
def pause_levels(terms: Slotted, state: JobState, slots: int) -> tuple[Floats, Ints]:
    """Return, for each pause that can be left at a slot's start, the pause after each kind of move
    and the level that it leads to.

    What can be left is the rest of a restart, of a shrink or of the pause at the window's start
    after whole slots. The last level is the pause at the window's start itself.
    """
    slot_hours = terms.slot_hours
    first = min(state.pause_hours, terms.restart_hours)
    left = np.zeros(3 * slots + 2)
    count = 1
    for fresh in (terms.restart_hours, terms.shrink_hours, first):
        for rest in left_overs(fresh, slot_hours, slots):
            if level_of(left[:count], rest) < 0:
                left[count] = rest
                count += 1
    left[count] = first
    pauses, nexts = np.empty((count + 1, 3)), np.zeros((count + 1, 3), dtype=np.int64)
    for level in range(count + 1):
        for kind in range(3):
            pauses[level, kind] = pause_ahead(terms, kind, left[level])
            nexts[level, kind] = max(level_of(left[:count], pauses[level, kind] - slot_hours), 0)
    return pauses, nexts


@compilable
def level_of(left: Floats, rest: float) -> int:
    """Return the level of a pause, or -1."""
    for level in range(len(left)):
        if abs(left[level] - rest) <= SAME_PAUSE_HOURS:
            return level
    return -1


@compilable
def live(
    rate: float, usd_per_hour: float, hours: float, billed: float, whole_slots: bool, pause: float,
    high: float, gain: float, cost: float,
) -> tuple[float, float, bool]:  # fmt: skip
    """Return progress and cost after a slot, and whether the job ended in it, as `ledger.live` counts."""
    productive = hours - pause
    if rate <= 0.0 or productive <= 0.0:
        return gain, cost + usd_per_hour * billed, False
    needed = (high - gain) / rate
    if needed > productive + WORK_TOLERANCE_HOURS:
        return gain + rate * productive, cost + usd_per_hour * billed, False
    held = billed if whole_slots else pause + min(needed, productive)
    return high, cost + usd_per_hour * held, True


@compilable
def outcome(frame: WindowFrame, plan: Ints) -> tuple[float, float, float, float]:
    """Return a plan's progress and cost until the job is done, and those if its work never ended."""
    side, rates, usd, pauses, nexts = (
        frame.side, frame.rate, frame.usd, frame.pauses, frame.nexts
    )  # fmt: skip
    held_spot, held_on_demand, level = frame.root_cell // side, frame.root_cell % side, frame.root_level
    gain = cost = endless_gain = endless_cost = 0.0
    done = False
    for slot in range(frame.slots):
        spot, on_demand = plan[slot] // side, plan[slot] % side
        kind = kind_of_move(held_spot, held_on_demand, spot, on_demand)
        pause = pauses[level, kind]
        level = nexts[level, kind] if plan[slot] > 0 else 0
        rate = rates[spot + on_demand]
        usd_per_hour = usd[slot, 0] * spot + usd[slot, 1] * on_demand
        endless_gain += rate * max(0.0, frame.hours[slot] - pause)
        endless_cost += usd_per_hour * frame.billed[slot]
        if not done:
            gain, cost, done = live(
                rate, usd_per_hour, frame.hours[slot], frame.billed[slot], frame.whole_slots, pause,
                frame.high, gain, cost,
            )  # fmt: skip
        held_spot, held_on_demand = spot, on_demand
    return gain, cost, endless_gain, endless_cost


@compilable
def copy_plan(source: Ints, target: Ints) -> None:
    """Copy one plan's cells over another's; a loop compiles faster than an assignment of slices."""
    for slot in range(len(source)):
        target[slot] = source[slot]


@compilable
def fill(array: Floats, number: float) -> None:
    """Fill an array with a number; a loop compiles faster than an assignment of slices."""
    for index in range(len(array)):
        array[index] = number
