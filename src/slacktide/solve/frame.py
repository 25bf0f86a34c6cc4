"""The clairvoyant's problem as bare numbers: holdings, pauses, and the grid of work left.

**Holdings.** A target is a pair (spot, on demand) whose sum is a width the job may have; number 0
is to hold nothing. Eight GPUs have 45 of them, sixteen 153.

**Pauses.** Between slots the pause left over is 0, or a restart or a shrink less some whole slots.
Inside a slot the pause is one of these, or a fresh shrink, or a fresh restart. Both sets are
finite and small (one and two values when a restart is shorter than a slot), so the pause is an
index and not a number.

**Work left.** What a slot does to the work left is a constant for each width and pause:
s(n) * (slot - pause). If all these constants are multiples of one step and the step is not too
small, that step is the grid's cell: every state that can be reached then lies on a grid point and
nothing is rounded. The grid hangs from the job's whole work, so the work itself need not be a
multiple. Otherwise the cell is a given share of the work, and values between grid points are
interpolated linearly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from slacktide.arrays import Floats, Ints
from slacktide.errors import InputError
from slacktide.physics import WORK_TOLERANCE_HOURS
from slacktide.solve.slotted import Slotted, slotted
from slacktide.types import Job

GRID_TOLERANCE = 1e-6
"""Grid positions closer than this share of a cell are the same."""

EXACT_CELLS = 16_384
"""The most cells for which a grid without any rounding is preferred to a coarser one."""

STORED_NUMBERS = 24_000_000
"""The most values kept in memory at a time, 8 bytes each."""

WHOLE_SLOT_CELLS = 6
"""How many times finer a grid must be when whole slots are paid: values then fall in steps."""

FEWEST_CELLS = 64
"""Below this a grid says nothing; a problem that leaves room for fewer is refused."""


class Frame(NamedTuple):
    """A job, its holdings, its pauses and its grid, in the form compiled code reads."""

    terms: Slotted
    hard: bool
    value_usd: float
    worthless_after_hours: float
    spot: Ints
    """spot[h], on_demand[h]: the GPUs of holding h; holding 0 is none."""
    on_demand: Ints
    left_hours: Floats
    """The pauses that may be left over at a slot's start; the first is 0."""
    pause_hours: Floats
    """The pauses that may lie ahead once workers have been added or let go."""
    after: Ints
    """after[q] = index in left_hours of what pause q leaves over at the slot's end."""
    stay: Ints
    """stay[left] = index in pause_hours if the holding stays as it is."""
    fewer: Ints
    """fewer[left] = index in pause_hours if workers were lost or let go, and none added."""
    restart: int
    """Index in pause_hours if any worker was added."""
    cell_gpu_hours: float
    first_gpu_hours: float
    """Work left at grid point 0; point j lies j cells above it."""
    last: int
    """The grid point of the whole work."""
    exact: bool
    """Whether every state that can be reached lies on a grid point."""
    shift: Ints
    """shift[q, n], weight[q, n]: n GPUs under pause q lead from point j to the weighted mean of
    points j - shift (weight 1 - w) and j - shift + 1 (weight w)."""
    weight: Floats
    finishing: Ints
    """finishing[q, n] = how many grid points, from the lowest, are finished within a slot."""
    segment: int
    """Slots whose values are kept together; earlier ones are computed again when they are needed."""


def frame(job: Job, slot_hours: float, accuracy: float, *, may_be_exact: bool = True) -> Frame:
    """Prepare a job for slots of this length; a cell is this share of the work unless an exact one exists.

    Raises InputError when the accuracy is not a share or the job has too many holdings.
    """
    if not 0.0 < accuracy <= 1.0:
        raise InputError(f"accuracy must be in (0, 1], got {accuracy:g}")
    # Whoever knows the future checkpoints just before each loss, and does not run out of money.
    bare = slotted(job, slot_hours)
    bare = bare._replace(checkpoint_hours=0.0, terms=bare.terms._replace(checkpoint_hours=0.0))
    if bare.deadline_slots < 1:
        raise InputError(f"deadline_hours must reach beyond the first instant, got {job.deadline_hours:g}")
    left, pause = _pauses(bare)
    spot, on_demand = _holdings(job, len(left))
    numbers_per_point = len(left) * len(spot)
    most = _most_cells(numbers_per_point, bare.deadline_slots)
    if most < FEWEST_CELLS:
        raise InputError(
            f"the clairvoyant must not need more than {STORED_NUMBERS:,} values, got {len(spot)} holdings "
            f"over {bare.deadline_slots} slots; allow fewer widths"
        )
    gains = bare.rate * np.maximum(0.0, slot_hours - pause)[:, None]
    step = _common_step(gains[:, list(job.widths)]) if may_be_exact else 0.0
    exact = step > 0.0 and bare.work_gpu_hours / step <= min(most, EXACT_CELLS)
    if exact:
        last = math.floor(bare.work_gpu_hours / step + GRID_TOLERANCE)
        first = max(0.0, bare.work_gpu_hours - last * step)
    else:
        finer = WHOLE_SLOT_CELLS if bare.whole_slots else 1
        last, first = min(most, math.ceil(finer / accuracy)), 0.0
        step = bare.work_gpu_hours / last
    shift, weight, finishing = _transitions(bare, gains, step, first, last)
    return Frame(
        terms=bare,
        hard=job.hard,
        value_usd=float(job.value_usd),
        worthless_after_hours=float(job.worthless_after_hours or job.deadline_hours),
        spot=spot,
        on_demand=on_demand,
        left_hours=left,
        pause_hours=pause,
        after=_nearest(left, np.maximum(0.0, pause - slot_hours)),
        stay=_nearest(pause, left),
        fewer=_nearest(pause, np.maximum(left, bare.shrink_hours)),
        restart=int(_nearest(pause, np.array([bare.restart_hours]))[0]),
        cell_gpu_hours=step,
        first_gpu_hours=first,
        last=last,
        exact=exact,
        shift=shift,
        weight=weight,
        finishing=finishing,
        segment=_segment(numbers_per_point * (last + 2), bare.deadline_slots),
    )


def _holdings(job: Job, pauses: int) -> tuple[Ints, Ints]:
    """List every pair of spot and on-demand GPUs that adds up to an allowed width, and (0, 0) first."""
    count = 1 + sum(width + 1 for width in job.widths)
    if count * pauses * FEWEST_CELLS > STORED_NUMBERS:
        raise InputError(
            f"the clairvoyant must not have more than {STORED_NUMBERS // (pauses * FEWEST_CELLS)} holdings, "
            f"got {count}; allow fewer widths"
        )
    pairs = [(0, 0)] + [(spot, width - spot) for width in job.widths for spot in range(width + 1)]
    spot, on_demand = np.array(pairs, dtype=np.int64).T
    return np.ascontiguousarray(spot), np.ascontiguousarray(on_demand)


def _pauses(terms: Slotted) -> tuple[Floats, Floats]:
    """Return the pauses possible at a slot's start, and those possible inside a slot, ascending."""
    left = [0.0]
    for fresh in (terms.restart_hours, terms.shrink_hours):
        remainder = fresh - terms.slot_hours
        while remainder > WORK_TOLERANCE_HOURS:
            left.append(remainder)
            remainder -= terms.slot_hours
    return _distinct(left), _distinct([*left, terms.restart_hours, terms.shrink_hours])


def _distinct(hours: list[float]) -> Floats:
    kept: list[float] = []
    for value in sorted(hours):
        if not kept or value - kept[-1] > WORK_TOLERANCE_HOURS:
            kept.append(value)
    return np.array(kept)


def _nearest(values: Floats, wanted: Floats) -> Ints:
    """Return the index of the nearest of some values to each wanted one."""
    nearest: Ints = np.abs(values[None, :] - wanted[:, None]).argmin(axis=1).astype(np.int64)
    return nearest


def _common_step(gains: Floats) -> float:
    """Return the greatest step of which all gains are multiples, or 0 where there is none to speak of.

    Euclid's algorithm on floats: a remainder under the tolerance counts as none.
    """
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
    step = float(amounts.max()) / round(float(amounts.max()) / step)
    off = np.abs(amounts / step - np.round(amounts / step))
    return step if float(off.max()) < 1e-7 else 0.0


def _transitions(
    terms: Slotted, gains: Floats, step: float, first: float, last: int
) -> tuple[Ints, Floats, Ints]:
    """Return the constant shifts, weights and finishing points of each pause and width."""
    cells = gains / step
    whole = np.abs(cells - np.round(cells)) < GRID_TOLERANCE
    shift = np.where(whole, np.round(cells), np.ceil(cells)).astype(np.int64)
    weight = np.where(whole, 0.0, shift - cells)
    reach = (gains + terms.rate * WORK_TOLERANCE_HOURS - first) / step
    finishing = np.clip(np.floor(reach + GRID_TOLERANCE) + 1, 0, last + 1)
    return shift, weight, np.where(gains > 0.0, finishing, 0).astype(np.int64)


def _segment(numbers_per_slot: int, slots: int) -> int:
    """Return how many slots' values to keep at once: all, or about the root of their number."""
    return slots if numbers_per_slot * (slots + 1) <= STORED_NUMBERS else math.ceil(math.sqrt(slots))


def _most_cells(numbers_per_point: int, slots: int) -> int:
    """Return the finest grid of which a root's worth of slots, twice, fits into memory."""
    return STORED_NUMBERS // (numbers_per_point * (2 * math.ceil(math.sqrt(slots)) + 3)) - 2
