"""The numbers of one window: its slots, its prices, the pauses that can be left over, its two limits.

Everything here is compilable and free of choices; `window` says what problem the numbers describe.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.compiled import compilable
from slacktide.market.base import Floats, Ints
from slacktide.physics import WORK_TOLERANCE_HOURS, Terms
from slacktide.types import JobState

TILT = 1e-8
"""Prices are tilted by this share of the dearest one, so that plans of equal cost have an order."""

MOST_WORK = 1e6
"""Dearest prices per GPU-hour that work is worth when nothing but work counts."""

SAME_PAUSE_HOURS = 1e-9


class Frame(NamedTuple):
    """A window in bare numbers.

    A holding of s spot and o on-demand GPUs is the cell s * side + o; cell 0 holds nothing. A level
    is an amount of pause left at the start of a slot; level 0 is none, the last is the root's own.
    """

    slots: int
    side: int
    """One more than the widest width."""
    cells: int
    hours: Floats
    """[slot]: its length; the last one may be cut by the deadline."""
    billed: Floats
    """[slot]: hours that are paid for a holding kept through it."""
    usd: Floats
    """[slot, kind]: price of a spot and of an on-demand GPU-hour, tilted."""
    offered: Ints
    """[slot]: spot GPUs, no more than the widest width."""
    rate: Floats
    fit: Ints
    whole_slots: bool
    restart: float
    left: Floats
    """[level]: hours of pause still to come."""
    shrunk: Floats
    """[level]: hours of pause after workers were only let go."""
    stay_next: Ints
    """[level]: the level after a slot without change."""
    shrink_next: Ints
    """[level]: the level after a slot that began by letting workers go."""
    restart_next: int
    root_cell: int
    root_level: int
    low: float
    """Progress the window has to make to end on the line."""
    high: float
    """Progress that ends the job."""
    reserve: float
    """What a GPU-hour of work beyond the line is worth."""
    dearest: float


@compilable
def frame(terms: Terms, state: JobState, slot: int, quotes: Floats, reserve: float) -> Frame:
    """Write a window as numbers: `quotes` has rows (spot USD, on-demand USD, spot GPUs) from `slot` on."""
    slots = min(len(quotes), terms.deadline_slots - slot)
    side = len(terms.fit)
    hours, billed = slot_lengths(terms, slot, slots)
    dearest = max(quotes[:slots, 0].max(), quotes[:slots, 1].max())
    dearest = dearest if dearest > 0.0 else 1.0
    usd = np.empty((slots, 2))
    offered = np.empty(slots, dtype=np.int64)
    for k in range(slots):
        # Of plans that cost the same, spot first and soon, on demand last and late: spot is in the
        # market now, and on demand can wait for what the forecast did not see.
        usd[k, 0] = quotes[k, 0] + TILT * dearest * k
        usd[k, 1] = quotes[k, 1] + TILT * dearest * (2 * slots - k)
        offered[k] = min(max(int(np.rint(quotes[k, 2])), 0), side - 1)
    left, shrunk, stay_next, shrink_next, restart_next = pause_levels(terms, state, slots)
    end = min((slot + slots) * terms.slot_hours, terms.deadline_hours)
    done = state.progress_gpu_hours
    return Frame(
        slots, side, side * side, hours, billed, usd, offered, terms.rate, terms.fit, terms.whole_slots,
        terms.restart_hours, left, shrunk, stay_next, shrink_next, restart_next,
        state.spot_gpus * side + state.on_demand_gpus, len(left) - 1,
        terms.work_gpu_hours * end / terms.deadline_hours - done, terms.work_gpu_hours - done,
        # Spot at just the reserve is to be taken, whatever its last binary digit and the tilt say.
        reserve * (1.0 + 20.0 * TILT), dearest,
    )  # fmt: skip


@compilable
def slot_lengths(terms: Terms, slot: int, slots: int) -> tuple[Floats, Floats]:
    """Return the hours that count in each slot, and those that are paid."""
    hours = np.full(slots, terms.slot_hours)
    if slot + slots == terms.deadline_slots:
        hours[slots - 1] = min(
            terms.slot_hours, terms.deadline_hours - (terms.deadline_slots - 1) * terms.slot_hours
        )
    billed = np.full(slots, terms.slot_hours) if terms.whole_slots else hours.copy()
    return hours, billed


@compilable
def pause_levels(terms: Terms, state: JobState, slots: int) -> tuple[Floats, Floats, Ints, Ints, int]:
    """Return the pauses that can be left at a slot's start, and how one leads to the next.

    They are what remains of a restart, of a shrink or of the pause at the window's start after
    whole slots. The last level is the pause at the window's start itself.
    """
    slot_hours = terms.slot_hours
    first = min(state.pause_hours, terms.restart_hours)
    left = np.zeros(3 * slots + 2)
    count = 1
    for whole in (terms.restart_hours, terms.shrink_hours, first):
        rest = whole - slot_hours
        for _ in range(slots):
            if rest <= SAME_PAUSE_HOURS:
                break
            if np.abs(left[:count] - rest).min() > SAME_PAUSE_HOURS:
                left[count] = rest
                count += 1
            rest -= slot_hours
    left[count] = first
    left = left[: count + 1].copy()
    shrunk = np.maximum(left, terms.shrink_hours)
    stay_next = np.empty(count + 1, dtype=np.int64)
    shrink_next = np.empty(count + 1, dtype=np.int64)
    for level in range(count + 1):
        stay_next[level] = level_of(left, left[level] - slot_hours)
        shrink_next[level] = level_of(left, shrunk[level] - slot_hours)
    return left, shrunk, stay_next, shrink_next, level_of(left, terms.restart_hours - slot_hours)


@compilable
def level_of(left: Floats, rest: float) -> int:
    """Return the level of a pause; the root's own is not among them."""
    for level in range(len(left) - 1):
        if abs(left[level] - max(rest, 0.0)) <= SAME_PAUSE_HOURS:
            return level
    return 0


@compilable
def pause_of(frame: Frame, level: int, cell: int, target: int) -> tuple[float, int]:
    """Return the pause that moving from a holding to another costs, and the level at the slot's end."""
    if target == 0:
        return 0.0, 0
    if target == cell:
        return frame.left[level], frame.stay_next[level]
    side = frame.side
    if target // side <= cell // side and target % side <= cell % side:
        return frame.shrunk[level], frame.shrink_next[level]
    return frame.restart, frame.restart_next


@compilable
def live(
    frame: Frame, slot: int, target: int, pause: float, gain: float, cost: float
) -> tuple[float, float, bool]:
    """Return progress and cost after a slot, and whether the job ended in it; as `physics.advance` counts."""
    if target == 0:
        return gain, cost, False
    spot, on_demand = target // frame.side, target % frame.side
    rate = frame.rate[spot + on_demand]
    usd_per_hour = frame.usd[slot, 0] * spot + frame.usd[slot, 1] * on_demand
    productive = frame.hours[slot] - pause
    if productive <= 0.0:
        return gain, cost + usd_per_hour * frame.billed[slot], False
    needed = (frame.high - gain) / rate
    if needed > productive + WORK_TOLERANCE_HOURS:
        return gain + rate * productive, cost + usd_per_hour * frame.billed[slot], False
    held = frame.billed[slot] if frame.whole_slots else pause + min(needed, productive)
    return frame.high, cost + usd_per_hour * held, True
