"""The clairvoyant's problem as bare numbers: holdings, pauses, and the grid of work left.

**Holdings and pauses** are those of `slotted`; only holdings whose sum is a width the job may have are
numbered. Eight GPUs have 45 of them, sixteen 153.

**Work left.** What a slot does to the work left is a constant for each width and pause:
s(n) * (slot - pause). If all these constants are multiples of one step and the step is not too
small, that step is the grid's cell: every state that can be reached then lies on a grid point and
nothing is rounded. The grid hangs from the job's whole work, so the work itself need not be a
multiple. Otherwise the cell is a given share of the work, and values between grid points are
interpolated linearly.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.core.errors import InputError
from slacktide.core.quotes import UNLIMITED_GPUS, Quote
from slacktide.core.types import FINISH_FAST, TIME_TOLERANCE_HOURS, Job, JobState
from slacktide.physics.progress import WORK_TOLERANCE_HOURS, lose
from slacktide.solvers.clairvoyant.holdings import GpuLevels
from slacktide.solvers.slotted import Pauses, Slotted, list_holdings, list_pauses, live_slot, slotted

GRID_TOLERANCE = 1e-6  # grid positions closer than this share of a cell are the same

EXACT_CELLS = 16_384  # the most cells for which a grid without any rounding is preferred to a coarser one

STORED_NUMBERS = 24_000_000  # the most values kept in memory at a time, 8 bytes each

WHOLE_SLOT_CELLS = 6
"""How many times finer a grid must be when whole slots are paid: values then fall in steps."""

MAX_PAUSE_SLOTS = 1_000  # the longest restart, in slots: each slot of it is a state of its own

FEWEST_CELLS = 64  # a coarser grid is useless; a problem with memory for fewer cells is refused


class JobFrame(NamedTuple):
    """A job, its holdings, its pauses and its grid, in the form compiled code reads."""

    terms: Slotted
    hard: bool
    value_usd: float
    worthless_after_hours: float
    spot: Ints  # spot[h], on_demand[h]: the GPUs of holding h; holding 0 is none
    on_demand: Ints
    pauses: Pauses
    cell_gpu_hours: float
    first_gpu_hours: float  # work left at grid point 0; point j lies j cells above it
    last: int  # the grid point of the whole work
    exact: bool  # whether every state that can be reached lies on a grid point
    shift: Ints
    """shift[q, n], weight[q, n]: n GPUs under pause q lead from point j to the weighted mean of
    points j - shift (weight 1 - w) and j - shift + 1 (weight w)."""
    weight: Floats
    finishing: Ints  # finishing[q, n] = how many grid points, from the lowest, are finished within a slot
    segment: int  # slots whose values are kept together; earlier ones are computed again when they are needed


class Wide(NamedTuple):
    """A wide job as compiled code reads it; fields that `JobFrame` has too mean the same."""

    terms: Slotted
    hard: bool
    value_usd: float
    worthless_after_hours: float
    spot: Ints
    on_demand: Ints
    levels: GpuLevels
    pauses: Pauses


Numbers: TypeAlias = JobFrame | Wide
"""What every solver of the clairvoyant's problem knows of a job."""


def frame(job: Job, slot_hours: float, accuracy: float, *, may_be_exact: bool = True) -> JobFrame:
    """Prepare a job for slots of this length; a cell is this share of the work unless an exact one exists.

    Raises InputError when the accuracy is not a share or the job has too many holdings.
    """
    if not 0.0 < accuracy <= 1.0:
        raise InputError(f"accuracy must be in (0, 1], got {accuracy:g}")
    bare = without_losses(job, slot_hours)
    check_pauses(bare)
    pauses = list_pauses(bare)
    _check_holdings(job, len(pauses.left_hours))
    spot, on_demand = list_holdings((0, *job.widths))
    numbers_per_point = len(pauses.left_hours) * len(spot)
    most = _most_cells(numbers_per_point, bare.deadline_slots)
    if most < FEWEST_CELLS:
        raise InputError(
            f"the clairvoyant must not need more than {STORED_NUMBERS:,} values, got {len(spot)} holdings "
            f"over {bare.deadline_slots} slots; allow fewer widths"
        )
    gains = bare.rate * np.maximum(0.0, slot_hours - pauses.ahead_hours)[:, None]
    step = common_step(gains[:, list(job.widths)]) if may_be_exact else 0.0
    exact = step > 0.0 and bare.work_gpu_hours / step <= min(most, EXACT_CELLS)
    # An exact grid hangs from the job's whole work: what is left at its lower end is less than a cell.
    if exact:
        last = math.floor(bare.work_gpu_hours / step + GRID_TOLERANCE)
        first = max(0.0, bare.work_gpu_hours - last * step)
    else:
        finer = WHOLE_SLOT_CELLS if bare.whole_slots else 1
        last, first = min(most, math.ceil(finer / accuracy)), 0.0
        step = bare.work_gpu_hours / last
    shift, weight, finishing = _transitions(bare, gains, step, first, last)
    return JobFrame(
        terms=bare,
        hard=job.hard,
        value_usd=float(job.value_usd),
        worthless_after_hours=float(job.worthless_after_hours or job.deadline_hours),
        spot=spot,
        on_demand=on_demand,
        pauses=pauses,
        cell_gpu_hours=step,
        first_gpu_hours=first,
        last=last,
        exact=exact,
        shift=shift,
        weight=weight,
        finishing=finishing,
        segment=_segment(numbers_per_point * (last + 2), bare.deadline_slots),
    )


def without_losses(job: Job, slot_hours: float) -> Slotted:
    """Lay a job on slots as the clairvoyant sees it; raises InputError if there is no slot for it.

    Spot that is lost takes no work with it, because its checkpoint is made just before; late work is ended
    as fast as possible.
    """
    bare = slotted(job, slot_hours)
    if bare.deadline_slots < 1:
        raise InputError(f"deadline_hours must be longer than the first instant, got {job.deadline_hours:g}")
    free = bare.terms._replace(checkpoint_hours=0.0, after_deadline=FINISH_FAST)
    return bare._replace(checkpoint_hours=0.0, terms=free)


def check_pauses(terms: Slotted) -> None:
    """Raise InputError when a restart lasts so many slots that a plan would have too many states."""
    if terms.restart_hours > MAX_PAUSE_SLOTS * terms.slot_hours:
        raise InputError(
            f"restart must last at most {MAX_PAUSE_SLOTS} slots of {terms.slot_hours:g} h to be planned, "
            f"got {terms.restart_hours:g} h; use longer slots (--slot)"
        )


def _check_holdings(job: Job, pauses: int) -> None:
    """Raise InputError when a job has so many holdings that no useful grid fits into memory."""
    count = 1 + sum(width + 1 for width in job.widths)
    if count * pauses * FEWEST_CELLS > STORED_NUMBERS:
        raise InputError(
            f"the clairvoyant must not have more than {STORED_NUMBERS // (pauses * FEWEST_CELLS)} holdings, "
            f"got {count}; allow fewer widths"
        )


def common_step(gains: Floats) -> float:
    """Return the greatest step of which all gains are multiples, or 0 if there is none or only a tiny one.

    Euclid's algorithm on floats: a remainder under the tolerance counts as none.
    """
    # Remainders below a tiny share of the greatest amount are rounding.
    amounts = gains[gains > 0.0]
    if not len(amounts):
        return 0.0
    tolerance = 1e-9 * float(amounts.max())
    step = 0.0
    for amount in amounts:
        rest = float(amount)
        while rest > tolerance:
            step, rest = rest, math.fmod(step, rest)
            if step - rest < tolerance:
                rest = 0.0
    if step < 1e-6 * float(amounts.max()):
        return 0.0
    # Remainders accumulate rounding; dividing the greatest amount by a whole number removes it again.
    step = float(amounts.max()) / round(float(amounts.max()) / step)
    off = np.abs(amounts / step - np.round(amounts / step))
    return step if float(off.max()) < 1e-7 else 0.0


def _transitions(
    terms: Slotted, gains: Floats, step: float, first: float, last: int
) -> tuple[Ints, Floats, Ints]:
    """Return the constant shifts, weights and finishing points of each pause and width."""
    # A gain of `cells` cells leads from point j to j - cells: between the points j - shift and
    # j - shift + 1, where the second has the weight; no weight where the gain is whole cells.
    cells = gains / step
    whole = np.abs(cells - np.round(cells)) < GRID_TOLERANCE
    shift = np.where(whole, np.round(cells), np.ceil(cells)).astype(np.int64)
    weight = np.where(whole, 0.0, shift - cells)
    # The same tolerance as physics has, or a point that just ends in the slot would go on to the next.
    reach = (gains + terms.rate * WORK_TOLERANCE_HOURS - first) / step
    finishing = np.clip(np.floor(reach + GRID_TOLERANCE) + 1, 0, last + 1)
    return shift, weight, np.where(gains > 0.0, finishing, 0).astype(np.int64)


def _segment(numbers_per_slot: int, slots: int) -> int:
    """Return how many slots' values to keep at once: all, or about the square root of their number.

    With segments of that length, twice the root of the slots are kept, and each slot is computed twice.
    """
    return slots if numbers_per_slot * (slots + 1) <= STORED_NUMBERS else math.ceil(math.sqrt(slots))


def _most_cells(numbers_per_point: int, slots: int) -> int:
    """Return the most cells with which twice the square root of the slots fits into memory."""
    return STORED_NUMBERS // (numbers_per_point * (2 * math.ceil(math.sqrt(slots)) + 3)) - 2


NEVER = -1e30  # the value of what cannot be done; finite, so that 0 times it is 0


Grid = Floats


class Future(NamedTuple):
    """The quotes a job will meet, by slot since it began."""

    spot_usd: Floats
    on_demand_usd: Floats
    spot_gpus: Ints
    owed_usd: Floats  # owed_usd[k] = what k whole slots of one on-demand GPU cost from the deadline's slot on


class Edge(NamedTuple):
    """Where a hard deadline ends what can be done; arrays by slot, pause left over and holding."""

    most_gpu_hours: Grid  # the most work that can still be done by the deadline
    value_usd: Grid  # minus the least cost of doing that much
    top: Ints  # the highest grid point that can still be finished in time


@compilable
def worth(frame: Numbers, finish_hours: float) -> float:
    """Return what a result at this time is worth; 0 with a hard deadline, where only cost is compared."""
    if frame.hard:
        return 0.0
    if finish_hours <= frame.terms.deadline_hours + TIME_TOLERANCE_HOURS:
        return frame.value_usd
    if finish_hours >= frame.worthless_after_hours:
        return 0.0
    late = finish_hours - frame.terms.deadline_hours
    return frame.value_usd * (1.0 - late / (frame.worthless_after_hours - frame.terms.deadline_hours))


@compilable
def window_hours(frame: Numbers, slot: int) -> float:
    """Return the part of a slot in which finishing counts: a hard deadline may cut the last one."""
    slot_hours = frame.terms.slot_hours
    if frame.hard and slot == frame.terms.deadline_slots - 1:
        return min(slot_hours, frame.terms.deadline_hours + 0.5 * TIME_TOLERANCE_HOURS - slot * slot_hours)
    return slot_hours


@compilable
def usd_per_hour(frame: Numbers, future: Future, slot: int, holding: int) -> float:
    """Return what a holding costs per hour in a slot."""
    spot = frame.spot[holding] * future.spot_usd[slot]
    return float(spot + frame.on_demand[holding] * future.on_demand_usd[slot])


@compilable
def look_ahead(
    frame: Numbers, future: Future, start: int, spot_usd: Floats, on_demand_usd: Floats, spot_gpus: Ints
) -> None:
    """Copy the quotes from a start on to `future`; after the pool's end only on demand, at its last price."""
    widest = len(frame.terms.rate) - 1
    for slot in range(len(future.spot_usd)):
        at = min(start + slot, len(spot_gpus) - 1)
        future.spot_usd[slot] = spot_usd[at]
        future.on_demand_usd[slot] = on_demand_usd[at]
        future.spot_gpus[slot] = min(spot_gpus[at], widest) if start + slot < len(spot_gpus) else 0
    for late in range(len(future.owed_usd) - 1):
        price = future.on_demand_usd[frame.terms.deadline_slots + late]
        future.owed_usd[late + 1] = future.owed_usd[late] + price * frame.terms.slot_hours


@compilable
def replay(frame: Numbers, future: Future, plan: Ints, spot: Ints, on_demand: Ints, out: Floats) -> None:
    """Run a plan through physics; fills in what it holds and a row of COLUMNS. -1 is fastest on demand."""
    terms = frame.terms
    state = JobState(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, np.inf, False)
    for column in range(len(out)):
        out[column] = 0.0
    for slot in range(len(plan)):
        if state.finish_hours < np.inf:
            break
        quote = Quote(
            future.spot_usd[slot], future.on_demand_usd[slot], future.spot_gpus[slot], UNLIMITED_GPUS
        )
        left = lose(terms.terms, state, quote.spot_gpus)
        spot[slot], on_demand[slot] = 0, terms.fastest
        if slot < terms.deadline_slots and plan[slot] >= 0:
            spot[slot], on_demand[slot] = frame.spot[plan[slot]], frame.on_demand[plan[slot]]
        out[4] += 1.0 if state.spot_gpus > left.spot_gpus else 0.0
        lived = live_slot(terms, left, slot, quote, spot[slot], on_demand[slot])
        state = lived.state
        out[2] += spot[slot] * lived.passed.hours
        out[3] += on_demand[slot] * lived.passed.hours
        out[6] = slot + 1
    out[0], out[1] = state.cost_usd, state.finish_hours


def empty_future(frame: Numbers) -> Future:
    """Allocate the quotes of one start: up to the deadline, and for as long after it as all work may take."""
    terms = frame.terms
    longest = terms.restart_hours + terms.work_gpu_hours / terms.rate[terms.fastest]
    late = math.ceil(longest / terms.slot_hours) + 3
    slots = terms.deadline_slots + late
    return Future(np.empty(slots), np.empty(slots), np.empty(slots, dtype=np.int64), np.zeros(late + 1))


def empty_edge(frame: JobFrame) -> Edge:
    """Allocate the edge of what a hard deadline allows."""
    shape = (frame.terms.deadline_slots + 1, len(frame.pauses.left_hours), len(frame.spot))
    return Edge(np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.int64))
