"""Jobs that share one programme, and the cells in which their work is counted.

Work left is counted in cells of one size. A holding has a lattice of its own at every border: cell j of it
stands for j + phase cells, and its phase moves by just what the holding does in a slot. So as long as a job
holds the same nothing is rounded at all; where it changes its work is rounded down, in favour of the
job, and what was rounded off is charged at the least that any work can cost from there on (see `programme`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide_papers.fleet_bound.problem import Problem

NOTHING, SPOT, ON_DEMAND, MIXED = range(4)  # the forms of a holding
CELLS = 160  # how many cells the work of a family's largest job has
SLACK_CELLS = 1e-6
"""What the rounding of numbers may do to a number of cells; taken in favour of the job."""


class Family(NamedTuple):
    """Jobs of one kind whose sizes are alike, or one job with a deadline; compiled code reads it.

    Holdings are numbered; 0 is nothing. A *mixed* one has spot and on-demand GPUs in any proportion, which
    may change at no cost: that is more than any real job may do.
    """

    pool: Ints
    form: Ints
    gpus: Ints
    rate: Floats  # [holding]: progress per hour
    restart_hours: float
    shrink_hours: float
    weight: float  # what an hour costs in which the job is not done; 0 for a job with a deadline
    hard: bool
    cell_gpu_hours: float
    cells: int  # how many cells there are; the last one stands for all beyond
    first_slot: int  # the market's slot that is slot 0 here
    hours: Floats  # [slot]: how long it is; for a job with a deadline the last slot ends at the deadline
    phase: Floats  # [slot + 1, holding]: what its cell j has beyond j
    step: Ints  # [slot, holding]: by how much the number of cells falls in a whole slot
    ends: Ints  # [slot, holding]: a job with up to this cell is done within the slot
    at_borders: bool
    """Whether a plan with a change inside a slot must end at a border, with no charge for rounding."""


class Starts(NamedTuple):
    """The jobs of a family in the order of their submission; compiled code reads it."""

    slot: Ints  # the family's slot in which it comes
    hours: Floats  # how much of that slot is left
    work_gpu_hours: Floats
    number: Ints  # the number of the job in the problem
    block: Ints  # in which part of the time it comes: what jobs do is added up by part


def families(problem: Problem, cells: int = CELLS, blocks: int = 1) -> list[tuple[Family, Starts]]:
    """Group jobs without a deadline by kind, weight and size; each job with a deadline is a group."""
    # Blocks have the same number of jobs each.
    block = np.argsort(np.argsort(problem.demand.submitted_hours)) * blocks // len(problem.demand.kind)
    return [_family(problem, np.array(group), block, cells) for group in _groups(problem)]


def _groups(problem: Problem) -> Iterator[list[int]]:
    demand = problem.demand
    groups: dict[tuple[int, float, int], list[int]] = {}
    for job in range(len(demand.kind)):
        if demand.hard[job]:
            yield [job]
        else:
            octave = math.ceil(2.0 * math.log2(demand.work_gpu_hours[job]))
            groups.setdefault((int(demand.kind[job]), float(demand.weight[job]), octave), []).append(job)
    yield from groups.values()


def _family(problem: Problem, jobs: Ints, block: Ints, cells: int) -> tuple[Family, Starts]:
    future, shapes, demand = problem
    kind, hard = demand.kind[jobs[0]], bool(demand.hard[jobs[0]])
    submitted, work = demand.submitted_hours[jobs], demand.work_gpu_hours[jobs]
    slot = np.floor(submitted / future.slot_hours).astype(np.int64)
    first, hours = int(slot.min()), _hours(problem, int(slot.min()), demand.deadline_hours[jobs[0]])
    if slot.max() >= first + len(hours):
        raise InputError("the market must reach beyond the last job, got a job that comes after its end")
    pool, form, gpus, rate = _holdings(shapes.rate[kind])
    cell = float(work.max()) / cells
    most = (work.max() + shapes.restart_hours[kind] * rate.max()) / cell
    phase, step, ends = _lattice(rate / cell, future.slot_hours, hours)
    family = Family(
        pool=pool,
        form=form,
        gpus=gpus,
        rate=rate,
        restart_hours=float(shapes.restart_hours[kind]),
        shrink_hours=float(min(shapes.shrink_hours[kind], shapes.restart_hours[kind])),
        weight=0.0 if hard else float(demand.weight[jobs[0]]),
        hard=hard,
        cell_gpu_hours=cell,
        cells=math.floor(most) + 2,
        first_slot=first,
        hours=hours,
        phase=phase,
        step=step,
        ends=ends,
        at_borders=bool(shapes.shrink_hours[kind] * rate[1:].min() >= 2.0 * cell),
    )
    over = (slot - first) * future.slot_hours + first * future.slot_hours + hours[slot - first]
    return family, Starts(slot - first, np.maximum(over - submitted, 0.0), work, jobs, block[jobs])


def _hours(problem: Problem, first: int, deadline_hours: float) -> Floats:
    """Return how long each slot is, from the first up to the deadline or the end of the market."""
    slot_hours, slots = problem.future.slot_hours, len(problem.future.spot_usd) - first
    if deadline_hours == math.inf:
        return np.full(slots, slot_hours)
    due = deadline_hours + TIME_TOLERANCE_HOURS - first * slot_hours
    last = math.ceil(due / slot_hours) - 1
    if last >= slots:
        raise InputError("the market must reach up to every hard deadline, got one that lies beyond its end")
    hours = np.full(last + 1, slot_hours)
    hours[last] = due - last * slot_hours
    return hours


def _holdings(rate: Floats) -> tuple[Ints, Ints, Ints, Floats]:
    """List what a job may hold: nothing, and each width of each pool as spot, on demand or mixed."""
    rows = [(0, NOTHING, 0, 0.0)]
    for pool, by_width in enumerate(rate):
        # A wider set is never slower: it may leave some of its GPUs idle.
        fastest = np.maximum.accumulate(by_width)
        for gpus in np.flatnonzero(by_width > 0):
            forms = (SPOT, ON_DEMAND, MIXED) if gpus > 1 else (SPOT, ON_DEMAND)
            rows.extend((pool, form, int(gpus), float(fastest[gpus])) for form in forms)
    numbers = np.array([row[:3] for row in rows], dtype=np.int64).T.copy()
    return numbers[0], numbers[1], numbers[2], np.array([row[3] for row in rows])


def _lattice(rate: Floats, slot_hours: float, hours: Floats) -> tuple[Floats, Ints, Ints]:
    """Return phase, step and ends of holdings that do that many cells an hour (see `Family`)."""
    per_slot = rate * slot_hours
    reached = np.arange(len(hours) + 1)[:, None] * per_slot
    phase = np.ceil(reached) - reached
    step = np.rint(per_slot - phase[:-1] + phase[1:]).astype(np.int64)
    ends = np.floor(rate * hours[:, None] - phase[:-1] + SLACK_CELLS).astype(np.int64)
    ends[:, rate == 0.0] = -1
    return phase, np.minimum(step, ends + 1), ends
