"""The cheapest plan of a single job at given prices, in its favour wherever anything is rounded; compiled.

A job pays for what it holds and for every hour in which it is not done (`Family.weight`). A restart is
charged as work: a job that changes to a holding of rate s has s * restart more to do. That equals a pause if
the holding outlasts it; to leave sooner is never worth it, as the job could have waited instead.
With prices that are constant in a slot the cost of a plan is linear in the times at which it changes, and its
work is too. So there is a best plan in which all of these times but one are borders of slots: either

- all changes are at borders or at the submission, and the job ends at any time (layer 0), or
- it ends at a border (or its deadline), and one change is inside a slot (layer 1 from there on).

For the time of the one change inside a slot `PARTS` intervals are tried; in each, the change counts for
progress at one end and for money at the other, in two variants; no time in the interval beats the better one.
With work left x, h what is held, c_g what g costs per hour and s_g its rate,

    V_t(h, x) = min( S_t(h, x), min_g S_t(g, x + s_g * restart) )
    S_t(g, x) = (c_g + weight) * hours + V_{t+1}(g, x - s_g * hours), or up to the job's end if sooner.

Where x is rounded down to a cell by d, d * least_t is charged: less work could be had by leaving out the last
d of the plan, and no work costs less than least_t = min over what is still to come of (c_g + weight) / s_g.
With a plan that must end at a border nothing can be left out, so nothing is charged (`Family.at_borders`);
where cells are too coarse for that, layer 1 may end at any time, which is another relaxation.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, inlined
from slacktide_papers.fleet_bound.families import MIXED, SPOT, Family, Starts

PARTS = 8  # intervals of a slot in which the one change inside a slot may be
MARGIN = 1e-5
"""By how much a followed plan may cost more than the best one, as a share: values are short floats."""

Values: TypeAlias = npt.NDArray[np.floating[Any]]
"""[layer, holding, cells left]: what is still to be paid, in weighted hours."""


@compilable
def price_holdings(
    family: Family, spot: Floats, on_demand: Floats, offered: Ints, cost: Floats, taken: Ints
) -> None:
    """Fill in what each holding costs per hour in each slot, and how many spot GPUs it has.

    `spot` and `on_demand` are prices of a GPU-hour, [slot, pool]; a holding that cannot be had costs
    infinitely much.
    """
    for slot in range(len(family.hours)):
        for g in range(len(family.pool)):
            at, pool, gpus, form = family.first_slot + slot, family.pool[g], family.gpus[g], family.form[g]
            least = most = gpus if form == SPOT else 0
            if form == MIXED:
                cheap = spot[at, pool] < on_demand[at, pool]
                least, most = 1, min(gpus - 1, offered[at, pool]) if cheap else 1
            taken[slot, g] = most
            cost[slot, g] = np.inf
            if offered[at, pool] >= least:
                cost[slot, g] = most * spot[at, pool] + (gpus - most) * on_demand[at, pool]


class Least(NamedTuple):
    """The least price of work from each border on, and where it is paid; compiled code reads it."""

    price: Floats  # [border]: of a cell
    slot: Ints  # [border]: in which slot; the number of slots means after the last one
    holding: Ints


@compilable
def least_prices(family: Family, cost: Floats, after: float) -> Least:
    """Return the least that a cell of work can cost from each border on; 0 if there is none."""
    slots = len(family.hours)
    least = Least(np.zeros(slots + 1), np.full(slots + 1, slots), np.zeros(slots + 1, dtype=np.int64))
    price, at, best = np.inf if family.hard else after, slots, 0
    least.price[slots] = 0.0 if family.hard else after * family.cell_gpu_hours
    for slot in range(slots - 1, -1, -1):
        for g in range(1, len(family.pool)):
            if (cost[slot, g] + family.weight) / family.rate[g] < price:
                price, at, best = (cost[slot, g] + family.weight) / family.rate[g], slot, g
        least.price[slot] = price * family.cell_gpu_hours if price < np.inf else 0.0
        least.slot[slot], least.holding[slot] = at, best
    return least


@inlined
def moments(part: int, hours: float) -> tuple[float, float]:
    """Return when a change inside a slot counts for progress, and when for money, in one of its variants."""
    early, late = part // 2 * hours / PARTS, (part // 2 + 1) * hours / PARTS
    if part % 2 == 0:
        return early, late
    return late, early


@inlined
def rounded(cells: float) -> tuple[int, float]:
    """Return whole cells, and what was rounded off."""
    whole_cells = math.floor(cells)
    return whole_cells, cells - whole_cells


@inlined
def onto(family: Family, border: int, g: int, hours: float) -> tuple[int, float]:
    """Return how many whole cells of work are added on the lattice of g, and what is rounded off.

    `hours` of g are to be done more than there was work: a pause, less what of the slot g is held.
    """
    return rounded(hours * family.rate[g] / family.cell_gpu_hours - family.phase[border, g])


@inlined
def still(later: Values, layer: int, g: int, cells: int) -> float:
    """Return what is still to be paid with a number of cells left."""
    if cells < 0:
        return 0.0
    return float(later[layer, g, min(cells, later.shape[2] - 1)])


@inlined
def whole(family: Family, cost: Floats, slot: int, layer: int, g: int, cells: int, later: Values) -> float:
    """Return what it costs to hold g until the next border or the job's end, and then to go on."""
    if cells < 0:
        return 0.0
    hours = family.hours[slot]
    if cells > family.ends[slot, g]:
        ahead = still(later, layer, g, cells - family.step[slot, g])
        return float((cost[g] + family.weight) * hours + ahead)
    return float((cost[g] + family.weight) * last_hours(family, slot, layer, g, cells))


@inlined
def last_hours(family: Family, slot: int, layer: int, g: int, cells: int) -> float:
    """Return how long a job holds g in the slot in which it ends on g."""
    if layer == 1 and family.at_borders:
        return float(family.hours[slot])
    needed = (cells + family.phase[slot, g]) * family.cell_gpu_hours / family.rate[g]
    return float(min(family.hours[slot], needed))


@compilable
def whole_rows(family: Family, cost: Floats, slot: int, later: Values, out: Values) -> None:
    """Fill in `whole` for all holdings and cells."""
    hours, count = family.hours[slot], out.shape[2]
    for layer in range(2):
        for g in range(len(cost)):
            if cost[g] == np.inf:
                out[layer, g, :] = np.inf
                continue
            ends, paid = min(family.ends[slot, g], count - 1), (cost[g] + family.weight) * hours
            # What a cell costs if the job ends in the slot; one that must end at a border pays all of it.
            each = paid / hours * family.cell_gpu_hours / family.rate[g] if g > 0 else 0.0
            begun = np.inf if layer == 1 and family.at_borders else each * family.phase[slot, g]
            row = out[layer, g, : ends + 1]
            for cells in range(len(row)):
                value = begun + cells * each
                row[cells] = value if value < paid else paid
            first = ends + 1 - family.step[slot, g]
            row = out[layer, g, ends + 1 :]
            ahead = later[layer, g, first : first + len(row)]
            for cells in range(len(row)):
                row[cells] = paid + ahead[cells]


@inlined
def lower(row: Values, below: float, paid: float, source: Values, shift: int) -> None:
    """Lower a row where another one, `shift` cells on, costs less; `below` is its cost under cell 0."""
    count = len(row)
    first = min(max(-shift, 0), count)
    last = max(min(count - shift, count), first)
    for cells in range(first):
        row[cells] = below if below < row[cells] else row[cells]
    own, other = row[first:last], source[first + shift : last + shift]
    for cells in range(len(own)):
        value = paid + other[cells]
        own[cells] = value if value < own[cells] else own[cells]
    top = paid + source[count - 1]
    for cells in range(last, count):
        row[cells] = top if top < row[cells] else row[cells]


@inlined
def copy_row(row: Values, out: Values) -> None:
    """Copy a row; an assignment of arrays takes several times as long."""
    for cells in range(len(row)):
        out[cells] = row[cells]


@compilable
def keep(values: Values, out: Values) -> None:
    """Copy all values to `out`, which may have short floats."""
    for layer in range(values.shape[0]):
        for g in range(values.shape[1]):
            copy_row(values[layer, g], out[layer, g])


@compilable
def inside_rows(
    family: Family, cost: Floats, slot: int, least: float, later: Values, then: Floats, out: Values
) -> None:
    """Let one change be inside the slot where that is better; `then` is memory for one row."""
    hours = family.hours[slot]
    for part in range(2 * PARTS):
        works, pays = moments(part, hours)
        then[:] = np.inf
        for g in range(len(cost)):
            if cost[g] < np.inf:
                more, off = onto(family, slot + 1, g, family.shrink_hours - (hours - works))
                paid = (hours - pays) * cost[g]
                lower(then, paid, paid + off * least, later[1, g], more)
        for h in range(len(cost)):
            if cost[h] < np.inf:
                done = works * family.rate[h] / family.cell_gpu_hours
                less, off = rounded(family.phase[slot, h] - done)
                paid = pays * cost[h] + family.weight * hours
                lower(out[0, h], paid + then[0], paid + off * least, then, less)


@compilable
def is_part(family: Family, g: int, h: int) -> bool:
    """Whether one holding may be what is left of another."""
    if family.pool[g] != family.pool[h] or family.gpus[g] >= family.gpus[h]:
        return False
    return bool(family.form[h] == MIXED or family.form[g] == family.form[h])


@compilable
def change_rows(family: Family, slot: int, least: float, best: Floats, rows: Floats, out: Floats) -> None:
    """Let the job change what it holds at the border before the slot; `best` is memory for one row."""
    best[:] = np.inf
    for g in range(len(rows)):
        more, off = onto(family, slot, g, family.restart_hours)
        lower(best, 0.0, off * least, rows[g], more)
    for h in range(len(rows)):
        copy_row(rows[h], out[h])
        rest = family.phase[slot, h] * least
        lower(out[h], rest, rest, best, 0)
        if family.shrink_hours < family.restart_hours:
            for g in range(len(rows)):
                if is_part(family, g, h):
                    more, off = onto(family, slot, g, family.shrink_hours)
                    lower(out[h], rest, rest + off * least, rows[g], more)


@compilable
def begin(
    family: Family, cost: Floats, slot: int, hours: float, work: float, least: float, later: Values, way: Ints
) -> tuple[float, float]:
    """Return what the best plan costs a job that comes with `hours` of a slot left, and what is rounded off.

    Fills in `way`: what it holds at first, the variant of the change inside the slot (-1: none), what it
    holds at the next border (-1: it is done) and how many cells are then left.
    """
    best, best_off, size = np.inf, 0.0, work / family.cell_gpu_hours
    for g in range(len(cost)):
        pause = family.restart_hours if g > 0 else 0.0
        ends = pause + work / family.rate[g] if g > 0 else np.inf
        speed = family.rate[g] / family.cell_gpu_hours
        cells, off = rounded(size + (pause - hours) * speed - family.phase[slot + 1, g])
        paid = min(ends, hours) * (cost[g] + family.weight)
        off = off if ends > hours and cells >= 0 else 0.0
        if ends > hours:
            paid += still(later, 0, g, cells) + off * least
        if paid < best:
            best, best_off = paid, off
            way[:] = g, -1, g if ends > hours else -1, cells
    for part in range(2 * PARTS):
        works, pays = moments(part, hours)
        for h in range(len(cost)):
            pause = family.restart_hours if h > 0 else 0.0
            left = max(size + (pause - works) * family.rate[h] / family.cell_gpu_hours, 0.0)
            pause = family.shrink_hours if h > 0 else family.restart_hours
            for g in range(len(cost)):
                more = (pause - (hours - works)) * family.rate[g] / family.cell_gpu_hours
                cells, off = rounded(left + (more if g > 0 else 0.0) - family.phase[slot + 1, g])
                off = off if cells >= 0 and not family.at_borders else 0.0
                paid = family.weight * hours + pays * cost[h] + (hours - pays) * cost[g]
                paid += still(later, 1, g, cells) + off * least
                if paid < best:
                    best, best_off = paid, off
                    way[:] = h, part, g, cells
    return best, best_off


@compilable
def sweep(
    family: Family, starts: Starts, cost: Floats, after: float, least: Least, kept: Values,
    values: Floats, offs: Floats, ways: Ints,
) -> None:  # fmt: skip
    """Sweep back over all slots and begin every job in its own; a GPU-hour of work costs `after` after them.

    Fills in values[job], offs[job] and ways[job] (see `begin`), and kept[slot, layer, holding, cells], which
    may have short floats.
    """
    shape, slots = (2, len(family.pool), family.cells), len(family.hours)
    later, rows, own = np.full(shape, np.inf), np.zeros(shape), np.zeros(shape)
    spare, job = np.zeros(family.cells), len(starts.slot) - 1
    if not family.hard:
        for g in range(len(family.pool)):
            later[:, g] = (np.arange(family.cells) + family.phase[slots, g]) * family.cell_gpu_hours * after
    keep(later, kept[slots])
    for slot in range(slots - 1, -1, -1):
        price = least.price[slot + 1]
        while job >= 0 and starts.slot[job] == slot:
            hours, work = starts.hours[job], starts.work_gpu_hours[job]
            values[job], offs[job] = begin(family, cost[slot], slot, hours, work, price, later, ways[job])
            job -= 1
        whole_rows(family, cost[slot], slot, later, rows)
        inside_rows(family, cost[slot], slot, 0.0 if family.at_borders else price, later, spare, rows)
        for layer in range(2):
            price = 0.0 if layer == 1 and family.at_borders else least.price[slot]
            change_rows(family, slot, price, spare, rows[layer], own[layer])
        keep(own, kept[slot])
        later, own = own, later
