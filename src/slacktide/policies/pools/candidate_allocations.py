"""The allocations that `roaming-horizon` compares in each pool, and the grids of time and slack it uses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.quotes import Quote
from slacktide.physics.progress import Terms
from slacktide.policies.view import Places
from slacktide.solvers.pools import joint

STEPS = ((6, 0.0), (12, 0.5), (10**9, 1.0))
"""(count, hours) of the programme's steps ahead, in order; 0 hours means one slot."""
KEPT = STEPS[0][0]  # for how many slots a programme is used before it is solved again
FINE, NEAR, COARSE, WIDEST_HOURS = 3, 6, 0.12, 0.5
"""Cells of slack: FINE to the longest pause, for NEAR pauses; then COARSE of the slack, WIDEST at most."""


class CandidateAllocation(NamedTuple):
    """A pool and GPUs to hold there; `pool` is its place among the pools that are compared."""

    pool: int
    level: int
    spot_gpus: int
    on_demand_gpus: int


def widths_of(terms: Terms, levels: int) -> tuple[int, ...]:
    """Return the widths to compare in a pool, ascending: equal shares of the fastest, which is the last."""
    shares = (round(terms.fastest * level / levels) for level in range(1, levels))
    return (*(int(terms.fit[max(share, 1)]) or int(terms.fastest) for share in shares), int(terms.fastest))


def seats_of(widths: Sequence[Sequence[int]], home: int, home_gpus: int) -> tuple[CandidateAllocation, ...]:
    """Return the seats: each width on spot, narrower ones also filled up on demand, and home as the last."""
    found = []
    for pool, ascending in enumerate(widths):
        for level, gpus in enumerate(ascending, 1):
            if level == 1 or gpus > ascending[level - 2]:
                found.append(CandidateAllocation(pool, level, gpus, 0))
                if gpus < ascending[-1]:
                    found.append(CandidateAllocation(pool, level, gpus, ascending[-1] - gpus))
    return (*found, CandidateAllocation(home, 0, 0, home_gpus))


def numbers_of(
    seats: Sequence[CandidateAllocation],
    levels: Sequence[int],
    terms: Sequence[Terms],
    quotes: Sequence[Quote],
    places: Places,
    pools: Sequence[int],
    phase: int,
    slack_hours: float,
    late_hours: float,
) -> joint.Seats:
    """Return allocations as bare numbers for the solver; terms and quotes are those of the compared pools."""
    home = seats[-1]
    pace = terms[home.pool].rate[phase, home.on_demand_gpus]
    usd = np.array([usd_per_hour(quotes[seat.pool], seat.spot_gpus, seat.on_demand_gpus) for seat in seats])
    lost = [
        0.5 * terms[seat.pool].checkpoint_hours
        if seat.level and terms[seat.pool].checkpoint_hours < math.inf
        else 0.0
        for seat in seats
    ]
    speed = np.array(
        [terms[one.pool].rate[phase, one.spot_gpus + one.on_demand_gpus] / pace for one in seats]
    )
    starts = places.move_hours[np.ix_(pools, pools)] + np.array([one.restart_hours for one in terms])
    pauses, which = np.unique(np.round(starts, 9), return_inverse=True)
    return joint.Seats(
        levels=np.array(levels),
        pool=np.array([seat.pool for seat in seats]),
        level=np.array([seat.level for seat in seats]),
        usd_per_hour=np.minimum(usd, joint.IMPOSSIBLE_USD),
        speed=speed,
        lost_hours=speed * np.array(lost),
        move_usd=np.ascontiguousarray(places.move_usd[np.ix_(pools, pools)]),
        pause=which.reshape(starts.shape).astype(np.int64),
        pause_hours=pauses,
        slack_hours=grid(slack_hours, float(pauses.max()), late_hours),
        below_usd_per_hour=math.inf if late_hours <= 0.0 else float(usd[-1]),
    )


def usd_per_hour(quote: Quote, spot_gpus: int, on_demand_gpus: int) -> float:
    """Return what GPUs cost per hour; none of a kind cost nothing, even if its price is infinite."""
    spot = quote.spot_usd_per_gpu_hour * spot_gpus if spot_gpus else 0.0
    return spot + (quote.on_demand_usd_per_gpu_hour * on_demand_gpus if on_demand_gpus else 0.0)


def borders(left_hours: float, slot_hours: float) -> Ints:
    """Return the slots at which the programme's steps begin, and the one at the deadline."""
    last = max(1, math.ceil(left_hours / slot_hours - 1e-6))
    found = [0]
    for count, hours in STEPS:
        width, begun = max(1, round(hours / slot_hours)), len(found)
        while found[-1] < last and len(found) - begun < count:
            found.append(min(last, found[-1] + width))
    return np.array(found, dtype=np.int64)


def grid(slack_hours: float, pause_hours: float, late_hours: float) -> Floats:
    """Return points of slack: fine near 0, coarse far above it, and below 0 if a late result has a value."""
    cell = max(pause_hours, 0.02) / FINE
    near = min(max(slack_hours, 0.0), NEAR * FINE * cell)
    points = [cell * at for at in range(math.ceil(near / cell) + 2)]
    while points[-1] < slack_hours:
        points.append(points[-1] + min(WIDEST_HOURS, max(cell, COARSE * points[-1])))
    low = np.linspace(-late_hours, 0.0, 24, endpoint=False) if late_hours > 0.0 else ()
    return np.array([*low, *points])
