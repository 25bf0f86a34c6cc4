"""The value of given prices of money and of scarce spot: what they prove about every allocator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.compiled import compiled
from slacktide.core.errors import InfeasibleError
from slacktide_papers.fleet_bound import programme
from slacktide_papers.fleet_bound.families import CELLS, Family, Starts, families
from slacktide_papers.fleet_bound.follow import Books, follow
from slacktide_papers.fleet_bound.problem import Problem

BLOCKS = 64  # what jobs do is added up in this many parts of the time


class Answer(NamedTuple):
    """What all jobs do at given prices, each by itself; one entry for each block of jobs."""

    hours: Floats  # weighted hours of response, plus what money and spot cost at these prices
    spent_usd: Floats
    spot_gpu_hours: Floats  # [block, slot, pool]


@dataclass(slots=True)
class Dual:
    """The jobs' answers to prices, with memory that is reused."""

    problem: Problem
    cells: int = CELLS
    blocks: int = BLOCKS
    parts: list[tuple[Family, Starts]] = field(init=False)
    _room: np.ndarray[tuple[int], np.dtype[np.float32]] = field(init=False)

    def __post_init__(self) -> None:
        self.parts = families(self.problem, self.cells, self.blocks)
        most = max((len(one.hours) + 1) * 2 * len(one.pool) * one.cells for one, _ in self.parts)
        self._room = np.empty(most, dtype=np.float32)

    def answer(self, hours_per_usd: float, rent: Floats) -> Answer:
        """Return what jobs do when money costs hours and spot a rent, in hours per GPU-hour: [slot, pool]."""
        future = self.problem.future
        spot, on_demand = hours_per_usd * future.spot_usd + rent, hours_per_usd * future.on_demand_usd
        hours, money = np.zeros(self.blocks), np.zeros(self.blocks)
        shape = (self.blocks, *spot.shape)
        books = Books(np.zeros(shape), np.zeros(shape), np.zeros(self.blocks))
        for family, starts in self.parts:
            values = self._family(family, starts, hours_per_usd, spot, on_demand, books)
            np.add.at(hours, starts.block, values)
            money += books.after_gpu_hours * self._after(family, hours_per_usd)[1]
            books.after_gpu_hours[:] = 0.0
        held = books.spot_gpu_hours * future.spot_usd + books.on_demand_gpu_hours * future.on_demand_usd
        return Answer(hours, money + held.sum(axis=(1, 2)), books.spot_gpu_hours)

    def _family(
        self, family: Family, starts: Starts, hours_per_usd: float,
        spot: Floats, on_demand: Floats, books: Books,
    ) -> Floats:  # fmt: skip
        """Return the least that each job of a family pays by itself, and book what they hold."""
        slots, holdings, jobs = len(family.hours), len(family.pool), len(starts.slot)
        cost, taken = np.zeros((slots, holdings)), np.zeros((slots, holdings), dtype=np.int64)
        values, offs, ways = np.zeros(jobs), np.zeros(jobs), np.zeros((jobs, 4), dtype=np.int64)
        shape = (slots + 1, 2, holdings, family.cells)
        kept = self._room[: int(np.prod(shape))].reshape(shape)
        offered = self.problem.future.spot_gpus
        compiled(programme.price_holdings)(family, spot, on_demand, offered, cost, taken)
        after = self._after(family, hours_per_usd)[0]
        least = compiled(programme.least_prices)(family, cost, after)
        compiled(programme.sweep)(family, starts, cost, after, least, kept, values, offs, ways)
        if not np.isfinite(values).all():
            number = int(starts.number[~np.isfinite(values)][0])
            raise InfeasibleError(
                f"every hard deadline must be within reach on demand, got job {number} that cannot be in time"
            )
        compiled(follow)(family, starts, cost, taken, least, kept, offs, ways, books)
        return values

    def _after(self, family: Family, hours_per_usd: float) -> tuple[float, float]:
        """Return what a GPU-hour of work costs after the last slot, in hours and in USD."""
        usd = family.gpus[1:] * self.problem.future.after_usd[family.pool[1:]] / family.rate[1:]
        hours = family.weight / family.rate[1:] + hours_per_usd * usd
        best = int(np.argmin(hours))
        return float(hours[best]), float(usd[best])
