"""The best allocation of a tiny fleet by trying all of them: decisions at the borders of slots, one pool.

It shares no code with the bound or the simulator. For every job all rows of holdings are played by the rules
of `docs/design/physics-and-billing.md`; then all combinations that fit into the spot that is there are
compared.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

Usage = tuple[int, ...]
"""Spot GPUs by slot."""


@dataclass(frozen=True)
class TinyJob:
    """A job that comes at the beginning of slot 0 and may hold each of its widths as spot or on demand."""

    work: float
    rate: dict[int, float]
    restart: float
    due: float = math.inf


class Played(NamedTuple):
    """What a row of holdings came to."""

    usage: Usage
    usd: float
    hours: float


def play(
    job: TinyJob, row: tuple[tuple[int, int], ...], slot: float, spot_usd: list[float], od_usd: float
) -> Played | None:
    """Play holdings (spot, on demand) slot by slot; None where the job is not done in time."""
    left, pause, held, usd = job.work, 0.0, (0, 0), 0.0
    usage = []
    for at, (spot, stock) in enumerate(row):
        if spot + stock == 0:
            pause = 0.0
        elif spot > held[0] or stock > held[1]:
            pause = job.restart
        elif (spot, stock) != held:
            pause = max(pause, job.restart)
        held = (spot, stock)
        usage.append(spot)
        price = spot * spot_usd[at] + stock * od_usd
        speed = job.rate[spot + stock] if spot + stock else 0.0
        if speed and pause + left / speed <= slot:
            hours = pause + left / speed
            ends = at * slot + hours
            usage.extend([0] * (len(row) - at - 1))
            return Played(tuple(usage), usd + price * hours, ends) if ends <= job.due + 1e-9 else None
        usd += price * slot
        left -= speed * max(0.0, slot - pause)
        pause = max(0.0, pause - slot)
    return None


def outcomes(
    job: TinyJob, slot: float, spot_usd: list[float], od_usd: float, gpus: list[int]
) -> list[Played]:
    """Return what all plans of a job come to, without those that another beats with the same spot."""
    choices = []
    for there in gpus:
        widths = list(job.rate)
        mixed = [(spot, width - spot) for width in widths for spot in range(width + 1) if spot <= there]
        choices.append([(0, 0), *mixed])
    best: dict[Usage, list[Played]] = {}
    for row in itertools.product(*choices):
        found = play(job, row, slot, spot_usd, od_usd)
        if found is not None:
            best.setdefault(found.usage, []).append(found)
    return [one for rows in best.values() for one in _front(rows)]


def _front(rows: list[Played]) -> list[Played]:
    kept: list[Played] = []
    for one in sorted(rows, key=lambda row: (row.usd, row.hours)):
        if not kept or one.hours < kept[-1].hours:
            kept.append(one)
    return kept


def best_mean_hours(
    jobs: list[TinyJob], slot: float, spot_usd: list[float], od_usd: float, gpus: list[int], budget_usd: float
) -> float:
    """Return the least mean response of jobs without a deadline that the budget buys."""
    found = [outcomes(job, slot, spot_usd, od_usd, gpus) for job in jobs]
    free = [job.due == math.inf for job in jobs]
    least = math.inf
    for plans in itertools.product(*found):
        if sum(plan.usd for plan in plans) > budget_usd + 1e-9:
            continue
        if all(
            sum(held) <= there
            for held, there in zip(zip(*(p.usage for p in plans), strict=True), gpus, strict=True)
        ):
            hours = [plan.hours for plan, one in zip(plans, free, strict=True) if one]
            least = min(least, sum(hours) / len(hours))
    return least
