"""The backward sweep over pools: the least still to be paid from every state, slot by slot from the deadline.

A state is (pool r, holding h, pause left l, slack x): the slack is the time that is left less the time that
the rest of the work takes on the fastest holding of all pools. Work at that pace keeps the slack, everything
else loses some: an idle slot all of its hours, a pause its length, a slower holding part of the slot. So a
hard deadline is met exactly if the slack does not fall below 0, and no rounding moves that edge.

Going into slot t with holding g in pool r under pause q costs, with p what g costs per hour and ρ its pace,

    C_rg^q(x) = p * (q + y / ρ) - what the result is worth then     where the work y ends inside the slot,
              = p * slot + J_{t+1}(r, g, q - slot, x - loss)        elsewhere.

Staying keeps the pause that is left, letting go waits for a shrink at least, and anything else is a start:

    start_r^q(x) = min_g C_rg^q(x)
    any_o(x) = min( J_{t+1}(o, none, 0, x - slot), min_r start_r^(restart + move hours from o)(x) + move USD )
    J_t(r, h, l, x) = min( C_rh^l, min_{g <= h'} C_rg^max(l, shrink), any_r(x) )

so a start is computed once for each pool and pause, not for each pair of holdings. A job that has done no
work has no checkpoint to copy: that is a single slack in each slot, and there every move is free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable

NEVER_USD = 1e30  # the cost of what cannot be done; finite, so that 0 times it is 0


class Board(NamedTuple):
    """All that the sweep knows of job and pools; r numbers pools, h holdings, q and l pauses."""

    slot_hours: float
    deadline_hours: float
    slots: int
    whole_slots: bool
    hard: bool
    value_usd: float
    worthless_after_hours: float
    fastest_rate: float  # the pace that slack is measured with
    spot: Ints
    on_demand: Ints  # [h]: holding 0 is none
    rate: Floats  # [r, h]: progress per hour; 0 where the job may not hold that there
    left_hours: Floats  # [l]: the pauses that may be left over when a slot begins; 0 comes first
    ahead_hours: Floats  # [q]: the pauses that may lie ahead inside a slot
    stay: Ints  # [l]: the pause ahead if all workers are kept
    shrink: Ints  # [r, l]: the pause ahead if some are let go and none added; -1 if it is that of a start
    start: Ints  # [o, r]: the pause ahead after a start in pool r with a checkpoint in pool o
    after: Ints  # [q]: what is left over of it when the next slot begins
    move_usd: Floats  # [o, r]
    most_hours: float  # the slack at the first point; each next one has one cell less
    cell_hours: float
    points: int
    whole_cells: int  # how many cells a slot has


class Quotes(NamedTuple):
    """What all pools quote from the job's first slot on."""

    spot_usd: Floats  # [slot, r]
    on_demand_usd: Floats
    spot_gpus: Ints


@compilable
def value_at(board: Board, finish_hours: float) -> float:
    """Return what a result at this time is worth; 0 with a hard deadline, where only cost is compared."""
    if board.hard:
        return 0.0
    if finish_hours <= board.deadline_hours + 1e-6:
        return board.value_usd
    if finish_hours >= board.worthless_after_hours:
        return 0.0
    late = finish_hours - board.deadline_hours
    return board.value_usd * (1.0 - late / (board.worthless_after_hours - board.deadline_hours))


@compilable
def lower_to(
    board: Board, quotes: Quotes, slot: int, pool: int, holding: int, pause: int, later: Floats, row: Floats
) -> None:
    """Lower a row of costs, by slack, to those of going into a slot with one holding under one pause."""
    hourly = (
        quotes.spot_usd[slot, pool] * board.spot[holding]
        + quotes.on_demand_usd[slot, pool] * board.on_demand[holding]
    )
    rate, wait = board.rate[pool, holding], board.ahead_hours[pause]
    begin = slot * board.slot_hours
    left = board.deadline_hours - begin
    window = min(board.slot_hours, left) if board.hard else board.slot_hours
    productive = max(0.0, board.slot_hours - wait)
    # The slack lost in this slot is `whole` cells and a part of one; points go down in slack, so the value
    # after it is read `whole` points further on.
    lost = (board.slot_hours - productive * rate / board.fastest_rate) / board.cell_hours
    whole = int(np.floor(lost + 1e-6))
    part = lost - whole
    if part < 1e-6:
        part = 0.0
    source = later[pool, holding, board.after[pause]]
    paid = hourly * board.slot_hours
    for point in range(board.points):
        slack = board.most_hours - point * board.cell_hours
        held = wait + max(0.0, left - slack) * board.fastest_rate / rate
        if held <= window + 1e-9:
            cost = hourly * (board.slot_hours if board.whole_slots else held)
            cost -= value_at(board, begin + held)
        else:
            near = point + whole
            if near >= board.points or (part > 0.0 and near + 1 >= board.points):
                break  # there is less and less slack from here on
            cost = source[near] + paid
            if part > 0.0:
                cost += part * (source[near + 1] - source[near])
        row[point] = min(row[point], cost)


@compilable
def step_back(board: Board, quotes: Quotes, slot: int, later: Floats, now: Floats) -> None:
    """Compute what is still to be paid from every state of a slot, from those of the next slot."""
    pools, points = len(board.rate), board.points
    # start_r^q of the recursion: begun[r, q, x], computed for those pauses that some origin needs.
    begun = np.full((pools, len(board.ahead_hours), points), NEVER_USD)
    known = np.zeros((pools, len(board.ahead_hours)), np.bool_)
    for pool in range(pools):
        for origin in range(pools):
            pause = board.start[origin, pool]
            if not known[pool, pause]:
                known[pool, pause] = True
                for holding in range(1, len(board.spot)):
                    if (
                        board.rate[pool, holding] > 0.0
                        and board.spot[holding] <= quotes.spot_gpus[slot, pool]
                    ):
                        lower_to(board, quotes, slot, pool, holding, pause, later, begun[pool, pause])
    fresh = slot * board.whole_cells  # where no work was done yet
    # any_o of the recursion; the row of holding nothing with its checkpoint in pool o is just that.
    for pool in range(pools):
        anything = now[pool, 0, 0]
        for point in range(points):
            idle = point + board.whole_cells
            anything[point] = later[pool, 0, 0, idle] if idle < points else NEVER_USD
        for target in range(pools):
            row, fee = begun[target, board.start[pool, target]], board.move_usd[pool, target]
            for point in range(points):
                cost = row[point] + fee
                anything[point] = min(anything[point], cost)
        if fresh < points:
            for target in range(pools):
                anything[fresh] = min(anything[fresh], begun[target, board.start[target, target], fresh])
                if fresh + board.whole_cells < points:
                    anything[fresh] = min(anything[fresh], later[target, 0, 0, fresh + board.whole_cells])
    for pool in range(pools):
        offered = quotes.spot_gpus[slot, pool]
        for holding in range(1, len(board.spot)):
            if board.rate[pool, holding] <= 0.0 and board.spot[holding] <= offered:
                continue
            for left in range(len(board.left_hours)):
                row = now[pool, holding, left]
                row[:] = now[pool, 0, 0]
                if board.spot[holding] <= offered:
                    lower_to(board, quotes, slot, pool, holding, board.stay[left], later, row)
                fewer = board.shrink[pool, left]
                if fewer < 0:
                    continue
                spot = min(board.spot[holding], offered)
                for target in range(1, len(board.spot)):
                    inside = (
                        board.spot[target] <= spot and board.on_demand[target] <= board.on_demand[holding]
                    )
                    if inside and target != holding and board.rate[pool, target] > 0.0:
                        lower_to(board, quotes, slot, pool, target, fewer, later, row)


@compilable
def sweep(board: Board, quotes: Quotes, end: Floats, kept: Floats, every: int) -> Floats:
    """Sweep back from the deadline, where `end` is still to be paid; return the values at the first slot.

    After every `every` slots the values go into `kept`, so that a plan can be read off piece by piece.
    """
    later = end.copy()
    now = np.full_like(end, NEVER_USD)
    for slot in range(board.slots - 1, -1, -1):
        if slot % every == every - 1 and slot // every < len(kept):
            kept[slot // every] = later
        step_back(board, quotes, slot, later, now)
        later, now = now, later
    return later
