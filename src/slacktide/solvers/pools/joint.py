"""The joint programme of roaming-horizon: what a job that may be in several pools still pays, on average.

A pool offers one of a few levels of spot, 0 for none; s says which level each pool is at, as a number whose
digits are the levels. A job is idle with its checkpoint in pool r, or in a *seat*: a pool with some GPUs
on spot and on demand, which is there while the pool is at the seat's level or above; x is its slack: the time
left less the time that the rest of the work takes on demand. With E the expectation of the next step's values
over the next s, in which a job that lost the spot of its seat is idle with less slack, going into a step of L
hours costs

    wait      E(idle r, x - L)
    stay      price * L + E(same seat, x - loss)                        loss: what a slower seat loses
    start j   move(r, r_j) + price_j * L + E(seat j, x - loss - pause)  for every seat that is there

or only the price of the hours until the work ends, if it ends inside the step. The expectation is taken pool
by pool in place: mixing the values of s over one pool's levels is a sum of a few rows, so all of them cost
R * levels rows for each s and not one for each other s. Steps may be longer than a slot; a pause is served in
the step in which it begins.

Slack lies on a grid that is fine near 0, where every pause counts, and coarse far from it; between two points
values are interpolated. Below the lowest point a hard deadline is missed; with a soft one each hour costs
what the caller says.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable

IMPOSSIBLE_USD = 1e9  # the cost of what cannot be done: more than any bill, but finite as it enters means


class Seats(NamedTuple):
    """The seats that a job may be in, and the grid of slack, as bare numbers."""

    levels: Ints  # [pool]: how many levels a pool may be at, none included
    pool: Ints  # [seat]
    level: Ints  # [seat]: the level that its pool must be at; 0 for one that is all on demand
    usd_per_hour: Floats  # [seat]
    speed: Floats  # [seat]: the job's pace there, as a multiple of the pace that slack is measured with
    lost_hours: Floats
    """[seat]: the slack lost on average when its spot is taken, with the work since the last checkpoint."""
    move_usd: Floats  # [from pool, to pool]
    pause: Ints  # [from pool, to pool]: which of `pause_hours` a start costs
    pause_hours: Floats
    slack_hours: Floats  # the grid, ascending; for a hard deadline it begins with 0
    below_usd_per_hour: float  # what each hour below the lowest point costs; infinite for a hard deadline


@compilable
def place_shifts(grid: Floats, lost_hours: float, low: Ints, weight: Floats) -> None:
    """Fill in between which points each point lies after a loss of slack: `low` and the next, by a weight.

    More slack than the highest point counts as the highest; below the lowest one `low` is -1.
    """
    last = len(grid) - 1
    for point in range(last + 1):
        slack = grid[point] - lost_hours
        if slack >= grid[last]:
            low[point], weight[point] = last, 0.0
            continue
        if slack < grid[0] - 1e-9:
            low[point], weight[point] = -1, grid[0] - slack
            continue
        at = np.searchsorted(grid, slack + 1e-9, side="right") - 1
        share = (slack - grid[at]) / (grid[at + 1] - grid[at])
        low[point], weight[point] = at, share if share > 1e-9 else 0.0


@compilable
def shifted(row: Floats, low: Ints, weight: Floats, below_usd: float, add_usd: float, out: Floats) -> None:
    """Fill `out` with a row read after a loss of slack, and a cost added."""
    for point in range(len(out)):
        at = low[point]
        if at < 0:
            value = row[0] + below_usd * weight[point] if below_usd < np.inf else IMPOSSIBLE_USD
        else:
            value = row[at]
            if weight[point] > 0.0:
                value += weight[point] * (row[at + 1] - value)
        out[point] = min(value + add_usd, IMPOSSIBLE_USD)


@compilable
def expect(values: Floats, levels_of: Ints, change: Floats, out: Floats) -> None:
    """Fill `out` with the expectation of values over the next step's levels, pool by pool in place.

    `change` is [pool, level now, level then].
    """
    # For one pool, the others' levels fixed: out[level] = sum over then of change[level, then] * out[then].
    # `rows` holds the old values while they are overwritten; `stride` is how far apart one pool's levels lie.
    out[:] = values
    sets, modes, points = values.shape
    rows = np.empty((levels_of.max(), points))
    stride = 1
    for pool in range(len(levels_of)):
        levels = levels_of[pool]
        for one in range(sets):
            if one // stride % levels != 0:
                continue
            for mode in range(modes):
                for level in range(levels):
                    rows[level] = out[one + level * stride, mode]
                for level in range(levels):
                    into, chance = out[one + level * stride, mode], change[pool, level, 0]
                    for point in range(points):
                        into[point] = chance * rows[0, point]
                    for then in range(1, levels):
                        chance = change[pool, level, then]
                        if chance > 0.0:
                            for point in range(points):
                                into[point] += chance * rows[then, point]
        stride *= levels


@compilable
def ends_inside(seats: Seats, seat: int, pause_hours: float, span: float, left: float, row: Floats) -> None:
    """Overwrite costs by the price of the hours held at points where the work ends inside the step."""
    usd, speed = seats.usd_per_hour[seat], seats.speed[seat]
    for point in range(len(row) - 1, -1, -1):
        held = pause_hours + max(0.0, left - seats.slack_hours[point]) / speed
        if held > span + 1e-9:
            break  # with less slack more work is left, so no later point ends inside the step
        row[point] = usd * held


@compilable
def place_seat_shifts(
    seats: Seats, span: float, still_low: Ints, still_weight: Floats, low: Ints, weight: Floats
) -> None:
    """Fill in where slack lies after a step of this length in each seat: if kept, and if begun, by pause.

    A seat loses slack by being slower than the pace that slack is measured with; one that is begun also
    loses its whole pause, including what does not fit into the step.
    """
    for seat in range(len(seats.pool)):
        still = span * (1.0 - seats.speed[seat])
        place_shifts(seats.slack_hours, still, still_low[seat], still_weight[seat])
        for pause in range(len(seats.pause_hours)):
            wait = min(seats.pause_hours[pause], span)
            lost = span - (span - wait) * seats.speed[seat] + (seats.pause_hours[pause] - wait)
            place_shifts(seats.slack_hours, lost, low[pause, seat], weight[pause, seat])


@compilable
def solve(seats: Seats, hours: Floats, left_hours: Floats, change: Floats, end: Floats, kept: Floats) -> None:
    """Sweep back over the steps from what is owed at the deadline; the first steps' values go into `kept`.

    `hours[k]` and `left_hours[k]` say how long step k is and how long before the deadline it begins,
    `change` [step, pool, level, level then] how pools change until the next; `end` is by slack. Modes: idle
    with the checkpoint in each pool, then the seats.
    """
    pools, count, points = len(seats.move_usd), len(seats.pool), len(seats.slack_hours)
    levels = seats.levels
    modes = pools + count
    stride = np.ones(pools + 1, np.int64)
    for pool in range(pools):
        stride[pool + 1] = stride[pool] * levels[pool]
    sets = stride[pools]
    values, ahead = np.empty((sets, modes, points)), np.empty((sets, modes, points))
    values[:] = end
    pauses = len(seats.pause_hours)
    begun = np.empty((pauses, count, points))
    best, row = np.empty((pools, points)), np.empty(points)
    low, weight = np.empty((pauses, count, points), np.int64), np.empty((pauses, count, points))
    still_low, still_weight = np.empty((count, points), np.int64), np.empty((count, points))
    idle_low, idle_weight = np.empty(points, np.int64), np.empty(points)
    gone_low, gone_weight = np.empty((count, points), np.int64), np.empty((count, points))
    for seat in range(count):
        place_shifts(seats.slack_hours, seats.lost_hours[seat], gone_low[seat], gone_weight[seat])
    below = seats.below_usd_per_hour
    before = -1.0
    for k in range(len(hours) - 1, -1, -1):
        span, left = hours[k], left_hours[k]
        if span != before:  # most steps are as long as the one after them, and lose the same slack
            before = span
            place_shifts(seats.slack_hours, span, idle_low, idle_weight)
            place_seat_shifts(seats, span, still_low, still_weight, low, weight)
        expect(values, seats.levels, change[k], ahead)
        for one in range(sets):
            for pool in range(pools):
                shifted(ahead[one, pool], idle_low, idle_weight, below, 0.0, best[pool])
            for seat in range(count):
                target = seats.pool[seat]
                if one // stride[target] % levels[target] < seats.level[seat]:
                    continue
                usd, then = seats.usd_per_hour[seat] * span, ahead[one, pools + seat]
                for pause in range(pauses):
                    starts = begun[pause, seat]
                    shifted(then, low[pause, seat], weight[pause, seat], below, usd, starts)
                    ends_inside(seats, seat, seats.pause_hours[pause], span, left, starts)
                for pool in range(pools):
                    fee, starts = seats.move_usd[pool, target], begun[seats.pause[pool, target], seat]
                    for point in range(points):
                        best[pool, point] = min(best[pool, point], starts[point] + fee)
            for pool in range(pools):
                values[one, pool] = best[pool]
            for seat in range(count):
                pool, mode = seats.pool[seat], pools + seat
                if one // stride[pool] % levels[pool] < seats.level[seat]:
                    shifted(best[pool], gone_low[seat], gone_weight[seat], below, 0.0, values[one, mode])
                    continue
                values[one, mode] = best[pool]
                usd = seats.usd_per_hour[seat] * span
                shifted(ahead[one, mode], still_low[seat], still_weight[seat], below, usd, row)
                ends_inside(seats, seat, 0.0, span, left, row)
                for point in range(points):
                    values[one, mode, point] = min(values[one, mode, point], row[point])
        if k < len(kept):
            kept[k] = values


@compilable
def expected_usd(seats: Seats, values: Floats, chance: Floats, mode: int, slack_hours: float) -> float:
    """Return the mean of one mode's value if each pool is at its levels by these chances [pool, level]."""
    grid, total = seats.slack_hours, 0.0
    last = len(grid) - 1
    at, share, below = last, 0.0, 0.0
    if slack_hours < grid[0] - 1e-9:
        if seats.below_usd_per_hour == np.inf:
            return IMPOSSIBLE_USD
        at, below = 0, (grid[0] - slack_hours) * seats.below_usd_per_hour
    elif slack_hours < grid[last]:
        at = int(np.searchsorted(grid, slack_hours + 1e-9, side="right")) - 1
        share = max(0.0, (slack_hours - grid[at]) / (grid[at + 1] - grid[at]))
    for one in range(len(values)):
        likely, rest = 1.0, one
        for pool in range(len(chance)):
            likely *= chance[pool, rest % seats.levels[pool]]
            rest //= seats.levels[pool]
        if likely > 1e-12:
            value = values[one, mode, at]
            if share > 0.0:
                value += share * (values[one, mode, at + 1] - value)
            total += likely * value
    return float(total + below)
