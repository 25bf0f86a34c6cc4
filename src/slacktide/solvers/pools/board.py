"""Lays out a job in several pools as the arrays that the clairvoyant's sweep over pools reads."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.errors import InputError
from slacktide.core.types import Job
from slacktide.solvers.clairvoyant.frame import check_pauses, common_step, without_losses
from slacktide.solvers.pools.sweep import NEVER_USD, Board, Quotes
from slacktide.solvers.slotted import SAME_PAUSE_HOURS, Slotted, distinct, left_overs, list_holdings, nearest

EXACT_POINTS = 16_384
"""The most points of slack for which a grid without any rounding is preferred to a coarser one."""
COARSE_POINTS = 1_500  # about how many points a grid has if values must be interpolated between points
STORED_NUMBERS = 60_000_000  # the most values kept in memory at a time, 8 bytes each


def lay_out(jobs: Sequence[Job], slot_hours: float, move_hours: Floats, move_usd: Floats) -> Board:
    """Lay out a job for the sweep: `jobs[r]` is the job as it is in pool r, moves are [from, to].

    Raises InputError if solving it would need too much memory: too many pools, holdings or points.
    """
    bare = [without_losses(job, slot_hours) for job in jobs]
    for one in bare:
        check_pauses(one)
    spot, on_demand = list_holdings((0, *sorted({width for job in jobs for width in job.widths})))
    rate = np.array([_rates(job, one, spot + on_demand) for job, one in zip(jobs, bare, strict=True)])
    left, ahead = _pauses(bare, move_hours)
    fastest = float(rate.max())
    first = jobs[0]
    most = first.deadline_hours - bare[0].work_gpu_hours / fastest
    cell, whole = _cell(slot_hours, rate, ahead, fastest, most)
    low = 0.0 if first.hard else -_latest(bare, move_hours)
    points = max(0, math.floor((most - low) / cell + 1e-6)) + 1
    if len(jobs) * len(spot) * len(left) * points > STORED_NUMBERS:
        raise InputError(
            f"the best plan over pools must not need more than {STORED_NUMBERS:,} values, got {len(jobs)} "
            f"pools of {len(spot)} holdings at {points} points; allow fewer pools or widths"
        )
    return Board(
        slot_hours=slot_hours,
        deadline_hours=float(first.deadline_hours),
        slots=bare[0].deadline_slots,
        whole_slots=bare[0].whole_slots,
        hard=first.hard,
        value_usd=float(first.value_usd),
        worthless_after_hours=float(first.worthless_after_hours or first.deadline_hours),
        fastest_rate=fastest,
        spot=spot,
        on_demand=on_demand,
        rate=rate,
        left_hours=left,
        ahead_hours=ahead,
        stay=nearest(ahead, left),
        shrink=_shrinks(bare, left, ahead),
        start=nearest(ahead, _starts(bare, move_hours).ravel()).reshape(move_hours.shape),
        after=nearest(left, np.maximum(0.0, ahead - slot_hours)),
        move_usd=np.asarray(move_usd, dtype=np.float64),
        most_hours=most,
        cell_hours=cell,
        points=points,
        whole_cells=whole,
    )


def _rates(job: Job, bare: Slotted, widths: Ints) -> Floats:
    """Return the pace of each holding in one pool; 0 where it is not a width of the job there."""
    allowed = np.zeros(int(widths.max()) + 1)
    for width in job.widths:
        allowed[width] = bare.rate[width]
    found: Floats = allowed[widths]
    return found


def _starts(bare: Sequence[Slotted], move_hours: Floats) -> Floats:
    """Return the pause of a start, by where the checkpoint is and where it goes."""
    restart = np.array([one.restart_hours for one in bare])
    found: Floats = restart[None, :] + move_hours
    return found


def _pauses(bare: Sequence[Slotted], move_hours: Floats) -> tuple[Floats, Floats]:
    """Return the pauses that may be left over when a slot begins, and those that may lie ahead in it."""
    slot = bare[0].slot_hours
    fresh = {*_starts(bare, move_hours).ravel().tolist(), *(one.shrink_hours for one in bare)}
    rests = [left_overs(hours, slot, math.ceil(hours / slot)) for hours in fresh]
    left = distinct([0.0, *(float(rest) for row in rests for rest in row)])
    return left, distinct([*left.tolist(), *fresh])


def _shrinks(bare: Sequence[Slotted], left: Floats, ahead: Floats) -> Ints:
    """Return the pause ahead after only letting workers go, by pool and pause left; -1 if a restart's."""
    rows = []
    for one in bare:
        waits = np.maximum(left, one.shrink_hours)
        rows.append(np.where(waits >= one.restart_hours - SAME_PAUSE_HOURS, -1, nearest(ahead, waits)))
    return np.array(rows, dtype=np.int64)


def _cell(
    slot_hours: float, rate: Floats, ahead: Floats, fastest: float, most_hours: float
) -> tuple[float, int]:
    """Return the hours of a cell of slack, and cells per slot; a cell without rounding if there is one."""
    productive = np.maximum(0.0, slot_hours - ahead)
    paces = np.unique(rate[rate > 0.0])
    losses = slot_hours - productive[:, None] * paces[None, :] / fastest
    step = common_step(np.append(losses[losses > 1e-9], slot_hours))
    if step > 0.0 and most_hours / step <= EXACT_POINTS:
        return step, round(slot_hours / step)
    whole = max(1, math.ceil(slot_hours * COARSE_POINTS / max(most_hours, slot_hours)))
    return slot_hours / whole, whole


def _latest(bare: Sequence[Slotted], move_hours: Floats) -> float:
    """Return how many hours a job may be behind at a soft deadline: all its work, started only then."""
    longest = max(one.work_gpu_hours / one.rate[one.fastest] + one.restart_hours for one in bare)
    return float(longest + move_hours.max())


def at_deadline(board: Board, quotes: Quotes) -> Floats:
    """Return what is still to be paid at the deadline's slot, by pool, holding, pause left and slack.

    After a hard deadline nothing counts. After a soft one the rest is done as fast as possible on demand, in
    the pool where that is best; a job that holds exactly that already continues without a restart.
    """
    shape = len(board.rate), len(board.spot), len(board.left_hours), board.points
    if board.hard:
        return np.full(shape, NEVER_USD)
    slack = board.most_hours - np.arange(board.points) * board.cell_hours
    behind = board.slots * board.slot_hours - board.deadline_hours
    work = np.maximum(0.0, -(slack + behind)) * board.fastest_rate
    end = np.full(shape, NEVER_USD)
    only = np.where((board.spot == 0)[None, :], board.rate, 0.0)
    quickest = only.argmax(axis=1)
    for target, holding in enumerate(quickest.tolist()):
        rate, gpus = board.rate[target, holding], int(board.on_demand[holding])
        owed = _owed(board, quotes.on_demand_usd[:, target], gpus)
        for origin in range(len(board.rate)):
            pause = board.ahead_hours[board.start[origin, target]]
            cost = _late_cost(board, owed, pause + work / rate, work) + board.move_usd[origin, target]
            end[origin] = np.minimum(end[origin], cost)
        for left, pause in enumerate(board.left_hours.tolist()):
            cost = _late_cost(board, owed, pause + work / rate, work)
            end[target, holding, left] = np.minimum(end[target, holding, left], cost)
    return end


def _owed(board: Board, usd: Floats, gpus: int) -> Floats:
    """Return what these on-demand GPUs cost for 0, 1, 2 … whole slots from the deadline's slot on."""
    prices = usd[board.slots :]
    owed: Floats = np.concatenate([[0.0], np.cumsum(prices * gpus * board.slot_hours)])
    return owed


def _late_cost(board: Board, owed: Floats, hours: Floats, work: Floats) -> Floats:
    """Return what finishing that many hours after the deadline's slot began costs, less what it is worth."""
    held = np.where(work > 0.0, hours, 0.0)
    slots = held / board.slot_hours
    if board.whole_slots:
        slots = np.ceil(slots - 1e-9)
    cost = np.interp(slots, np.arange(len(owed)), owed)
    finish = board.slots * board.slot_hours + held
    late = (finish - board.deadline_hours) / max(board.worthless_after_hours - board.deadline_hours, 1e-12)
    found: Floats = cost - board.value_usd * np.clip(1.0 - np.maximum(late, 0.0), 0.0, 1.0)
    return found
