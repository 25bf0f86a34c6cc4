"""Read the best plans of jobs from the values that `programme` computed, and add up what they hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats, Ints
from slacktide.core.compiled import compilable, inlined
from slacktide_papers.fleet_bound.families import Family, Starts
from slacktide_papers.fleet_bound.programme import (
    MARGIN,
    PARTS,
    Least,
    Values,
    is_part,
    last_hours,
    moments,
    onto,
    rounded,
    still,
    whole,
)


class Books(NamedTuple):
    """What plans hold, added up by block of jobs; compiled code reads it."""

    spot_gpu_hours: Floats  # [block, slot of the market, pool]
    on_demand_gpu_hours: Floats
    after_gpu_hours: Floats  # [block]: work that is left after the last slot


@compilable
def book(family: Family, slot: int, g: int, hours: float, taken: Ints, books: Books, block: int) -> None:
    """Add the GPU-hours of a holding to the books."""
    at, pool, gpus = family.first_slot + slot, family.pool[g], taken[slot, g]
    books.spot_gpu_hours[block, at, pool] += gpus * hours
    books.on_demand_gpu_hours[block, at, pool] += (family.gpus[g] - gpus) * hours


@compilable
def book_off(
    family: Family, least: Least, border: int, cells: float, taken: Ints, books: Books, block: int
) -> None:
    """Add what was rounded off to the books, as work that is done where it is cheapest."""
    slot, g, work = least.slot[border], least.holding[border], cells * family.cell_gpu_hours
    if slot < len(family.hours):
        book(family, slot, g, work / family.rate[g], taken, books, block)
    elif not family.hard:
        books.after_gpu_hours[block] += work


@inlined
def changed(family: Family, slot: int, layer: int, h: int, g: int, cells: int) -> tuple[int, float]:
    """Return the cells left after a change from h to g at the border before a slot, and those rounded off."""
    pause = family.shrink_hours if is_part(family, g, h) else family.restart_hours
    more, off = onto(family, slot, g, pause)
    off = family.phase[slot, h] + (off if cells + more >= 0 else 0.0)
    return min(cells + more, family.cells - 1), 0.0 if layer == 1 and family.at_borders else off


@inlined
def left_inside(family: Family, slot: int, h: int, g: int, cells: int, works: float) -> tuple[int, float]:
    """Return the cells left at the next border after a change inside the slot, and what is rounded off."""
    less, off = rounded(family.phase[slot, h] - works * family.rate[h] / family.cell_gpu_hours)
    more, rest = onto(family, slot + 1, g, family.shrink_hours - (family.hours[slot] - works))
    reached = max(cells + less, 0) + more
    rounded_off = (off if cells + less >= 0 else 0.0) + (rest if reached >= 0 else 0.0)
    return reached, 0.0 if family.at_borders else rounded_off


@compilable
def choose(
    family: Family, cost: Floats, slot: int, layer: int, h: int, cells: int, least: Least, kept: Values
) -> tuple[int, int, int, int]:
    """Return the best way on from a border: a holding, its cells, and a change inside the slot.

    The change is given by its variant, -1 if there is none, and the holding after it.
    """
    later, aim = kept[slot + 1], kept[slot, layer, h, min(cells, family.cells - 1)]
    best, way = np.inf, (h, cells, -1, h)
    for inside in range(2):
        if inside and (layer == 1 or best <= aim * (1.0 + MARGIN)):
            break
        for g in range(len(cost)):
            if cost[g] == np.inf:
                continue
            left, off = (cells, 0.0) if g == h else changed(family, slot, layer, h, g, cells)
            part, to, paid = -1, g, off * least.price[slot]
            if inside:
                more, part, to = best_inside(family, cost, slot, g, left, least.price[slot + 1], later)
                paid += more
            else:
                paid += whole(family, cost, slot, layer, g, left, later)
            if paid < best:
                best, way = paid, (g, left, part, to)
    return way


@compilable
def best_inside(
    family: Family, cost: Floats, slot: int, g: int, cells: int, least: float, later: Values
) -> tuple[float, int, int]:
    """Return the cost of the best change inside a slot, its variant, and the holding after it."""
    hours, best, way = family.hours[slot], np.inf, (0, 0)
    for part in range(2 * PARTS):
        works, pays = moments(part, hours)
        for to in range(len(cost)):
            reached, off = left_inside(family, slot, g, to, cells, works)
            paid = pays * cost[g] + (hours - pays) * cost[to] + family.weight * hours
            paid += off * least + still(later, 1, to, reached)
            if paid < best:
                best, way = paid, (part, to)
    return best, way[0], way[1]


@compilable
def book_first(
    family: Family, starts: Starts, job: int, way: Ints, off: float, least: Least, taken: Ints, books: Books
) -> None:
    """Add what a job holds in the slot in which it comes to the books."""
    slot, hours, block, h, part, g = (
        starts.slot[job], starts.hours[job], starts.block[job], way[0], way[1], way[2],
    )  # fmt: skip
    book_off(family, least, slot + 1, off, taken, books, block)
    if part >= 0:
        _, pays = moments(part, hours)
        book(family, slot, h, pays, taken, books, block)
        book(family, slot, g, hours - pays, taken, books, block)
    elif h > 0:
        ends = family.restart_hours + starts.work_gpu_hours[job] / family.rate[h]
        book(family, slot, h, min(hours, ends), taken, books, block)


@compilable
def follow(
    family: Family, starts: Starts, cost: Floats, taken: Ints, least: Least, kept: Values,
    offs: Floats, ways: Ints, books: Books,
) -> None:  # fmt: skip
    """Follow the best plans of all jobs and book what they hold."""
    for job in range(len(starts.slot)):
        block, slot, g, cells = starts.block[job], starts.slot[job] + 1, ways[job, 2], ways[job, 3]
        layer = 0 if ways[job, 1] < 0 else 1
        book_first(family, starts, job, ways[job], offs[job], least, taken, books)
        while g >= 0 and cells >= 0 and slot < len(family.hours):
            h, left, part, to = choose(family, cost[slot], slot, layer, g, cells, least, kept)
            if h != g:
                off = changed(family, slot, layer, g, h, cells)[1]
                book_off(family, least, slot, off, taken, books, block)
            g, cells, hours = to, left, family.hours[slot]
            if cells < 0:
                break
            if part >= 0:
                works, pays = moments(part, hours)
                book(family, slot, h, pays, taken, books, block)
                book(family, slot, g, hours - pays, taken, books, block)
                cells, off = left_inside(family, slot, h, g, cells, works)
                book_off(family, least, slot + 1, off, taken, books, block)
                layer = 1
            elif cells <= family.ends[slot, h]:
                book(family, slot, h, last_hours(family, slot, layer, h, cells), taken, books, block)
                cells = -1
            else:
                book(family, slot, h, hours, taken, books, block)
                cells -= family.step[slot, h]
            slot += 1
        if g >= 0 and cells >= 0:
            rest = (cells + family.phase[len(family.hours), g]) * family.cell_gpu_hours
            books.after_gpu_hours[block] += rest
