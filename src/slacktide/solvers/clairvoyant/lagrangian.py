"""The clairvoyant of wide jobs, by Lagrangian relaxation: work has a price instead of an amount on a grid.

The programme of `sweep` keeps a value for every amount of work left and every holding: for a hundred GPUs
that is too much. Here work has a *price* of λ USD per GPU-hour and its amount is left out. With p_g what
target g costs per hour, s its speedup and q the pause ahead,

    C_g^q  =  λ s * (slot - q) - p_g * slot + J_{t+1}(g, q - slot)

    J_t(h, l) = max( C_h^l              if nothing was lost: stay,
                     max_{g <= h'} C_g^max(l, shrink)      let go,
                     max_g C_g^restart, C_none )           anything,

which is the recursion of `sweep` without y: a slot takes a few operations for each holding. It gives

- *a bound* (Lagrange): for every λ, max_R (V(R) + λ R) - λ W + J_0 is at least the value less cost of any
  plan, where V(R) is the value less cost of doing R after the deadline (see `bound`);
- *plans*: with a small λ the best targets do too little work, with a great one too much. `wide` searches for
  the λ with which they do just enough; plans that follow the targets of one side up to some slot and those
  of the other side from there on are run through the true physics, and the best of them is taken.

So the plan is a real one, and its distance from the bound says what a better one could gain at the most.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.physics.progress import WORK_TOLERANCE_HOURS
from slacktide.solvers.clairvoyant.frame import (
    NEVER,
    Future,
    Grid,
    Wide,
    replay,
    usd_per_hour,
    window_hours,
    worth,
)
from slacktide.solvers.slotted import kind_of_move

Targets: TypeAlias = npt.NDArray[np.int32]
"""targets[slot, left, holding]: what to hold next; small numbers, as there are many of them."""


class SweepBuffers(NamedTuple):
    """The memory of one sweep."""

    later: Grid  # later[l, h], values[l, h]: what is still to be had from the next slot on, and from this one
    values: Grid
    anew: Floats
    """anew[h], kept[h], fewer[h]: C of target h after a restart, with the pause left over, after a shrink."""
    kept: Floats
    fewer: Floats
    best: Grid  # best[s, o], which[s, o]: the best target within two levels after a shrink, and its number
    which: Ints


@compilable
def weigh(wide: Wide, future: Future, slot: int, price: float, pause: int, later: Grid, out: Floats) -> None:
    """Fill in C of every target under one pause, with work at a price."""
    terms, window = wide.terms, window_hours(wide, slot)
    held = terms.slot_hours if terms.whole_slots else window
    after = wide.pauses.after[pause]
    hours = max(0.0, window - wide.pauses.ahead_hours[pause])
    out[0] = later[0, 0]
    for target in range(1, len(wide.spot)):
        out[target] = NEVER
        if wide.spot[target] <= future.spot_gpus[slot]:
            rate = terms.rate[wide.spot[target] + wide.on_demand[target]]
            paid = held * usd_per_hour(wide, future, slot, target)
            out[target] = price * rate * hours - paid + later[after, target]


@compilable
def best_parts(wide: Wide, room: SweepBuffers) -> None:
    """Fill in the best target within every pair of levels: a two-dimensional running maximum."""
    levels = wide.levels
    for spot in range(len(levels.spot)):
        for on_demand in range(len(levels.on_demand)):
            room.best[spot, on_demand], room.which[spot, on_demand] = room.fewer[0], 0
    for target in range(1, len(wide.spot)):
        spot, on_demand = levels.of_spot[target], levels.of_on_demand[target]
        if room.fewer[target] > room.best[spot, on_demand]:
            room.best[spot, on_demand], room.which[spot, on_demand] = room.fewer[target], target
    for spot in range(len(levels.spot)):
        for on_demand in range(len(levels.on_demand)):
            for way in range(2):
                i, j = (spot - 1, on_demand) if way == 0 else (spot, on_demand - 1)
                if min(i, j) >= 0 and room.best[i, j] > room.best[spot, on_demand]:
                    room.best[spot, on_demand] = room.best[i, j]
                    room.which[spot, on_demand] = room.which[i, j]


@compilable
def sweep_priced(wide: Wide, future: Future, price: float, room: SweepBuffers, targets: Targets) -> float:
    """Sweep back from the deadline with work at a price; fills targets[slot, left, holding], returns J_0.

    If only J_0 is wanted, `targets` may have a single slot.
    """
    holdings, lefts = len(wide.spot), len(wide.pauses.left_hours)
    later, values = room.later, room.values
    later[:, :] = 0.0
    for slot in range(wide.terms.deadline_slots - 1, -1, -1):
        offered = future.spot_gpus[slot]
        weigh(wide, future, slot, price, wide.pauses.restart, later, room.anew)
        anything = int(np.argmax(room.anew))
        for left in range(lefts):
            stay = wide.pauses.stay[left]
            weigh(wide, future, slot, price, stay, later, room.kept)
            shrink = wide.pauses.shrink[stay]
            if shrink != wide.pauses.restart:  # else letting go costs as much as a restart
                weigh(wide, future, slot, price, shrink, later, room.fewer)
                best_parts(wide, room)
            for holding in range(holdings):
                target, value = anything, room.anew[anything]
                if shrink != wide.pauses.restart:
                    keeps = wide.levels.below[min(wide.spot[holding], offered)]
                    own = wide.levels.of_on_demand[holding]
                    if room.best[keeps, own] > value:
                        target, value = room.which[keeps, own], room.best[keeps, own]
                if room.kept[holding] >= value:
                    target, value = holding, room.kept[holding]
                targets[slot % len(targets), left, holding], values[left, holding] = target, value
        later, values = values, later  # swapped, so that only two slots' values are kept
    return float(later[0, 0])


@compilable
def follow_targets(
    wide: Wide, future: Future, first: Targets, then: Targets, switch: int, plan: Ints
) -> tuple[float, float]:
    """Write the plan that follows one set of targets up to a slot and another from there on.

    Returns the work that could be done by the deadline, and what is left of the job's. The plan is -1 in
    slots after the job's end.
    """
    terms = wide.terms
    plan[:] = -1
    holding, left, work, done = 0, 0, terms.work_gpu_hours, 0.0
    for slot in range(terms.deadline_slots):
        target = first[slot, left, holding] if slot < switch else then[slot, left, holding]
        # What the market takes counts as a shrink, on top of whichever move follows.
        spot, on_demand = min(wide.spot[holding], future.spot_gpus[slot]), wide.on_demand[holding]
        stay = wide.pauses.stay[left]
        if spot < wide.spot[holding]:
            stay = wide.pauses.shrink[stay]
        aheads = (stay, wide.pauses.shrink[stay], wide.pauses.restart)
        pause = aheads[kind_of_move(spot, on_demand, wide.spot[target], wide.on_demand[target])]
        rate = terms.rate[wide.spot[target] + wide.on_demand[target]]
        hours = max(0.0, window_hours(wide, slot) - wide.pauses.ahead_hours[pause])
        if work > 0.0:
            plan[slot] = target
        work = work - rate * hours if work > rate * (hours + WORK_TOLERANCE_HOURS) or target == 0 else 0.0
        done += rate * hours
        holding, left = target, 0 if target == 0 else wide.pauses.after[pause]
    return done, work


@compilable
def better_plan(
    wide: Wide, future: Future, low: Targets, high: Targets, switches: Ints,
    plan: Ints, spot: Ints, on_demand: Ints, row: Floats, best_plan: Ints, best: float,
) -> float:  # fmt: skip
    """Try plans that change from one set of targets to the other at these slots, in both directions.

    Keeps the plan of greatest utility, without those that miss a hard deadline; returns that utility.
    """
    for way in range(2):
        first, then = (low, high) if way == 0 else (high, low)
        for switch in switches:
            work = follow_targets(wide, future, first, then, switch, plan)[1]
            if wide.hard and work > 0.0:
                continue
            replay(wide, future, plan, spot, on_demand, row)
            if wide.hard and row[1] > wide.terms.deadline_hours + TIME_TOLERANCE_HOURS:
                continue
            utility = worth(wide, row[1]) - row[0]
            if utility > best:
                best = utility
                best_plan[:] = plan
    return best
