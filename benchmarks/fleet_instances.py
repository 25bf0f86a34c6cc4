"""Fleets for the benchmark of one budget: recorded jobs and spot counts, and a synthetic month."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from benchmarks.stream_fleets import DATA
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import Member
from slacktide.core.speedup import Amdahl, Power, Table
from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.market.source import open_market
from slacktide.simulation.fleet.scene import FleetScene

WIDTHS = (1, 2, 4, 8, 16)
RESTART_HOURS = 0.1
HOURS = 190.0
STREAM_HOURS = 48.0
"""The recorded streams are this long, and are stretched."""


class Instance(NamedTuple):
    """Recorded jobs on the spot counts of some zones, added up."""

    stream: str
    zones: tuple[str, ...]
    scale: float
    """The jobs' work, as a multiple of what was recorded."""
    seed: int
    wavering: bool = False
    """Whether the spot price moves; the recorded ones stand still."""

    def __str__(self) -> str:
        price = ", moving price" if self.wavering else ""
        return f"{self.stream} x{self.scale:g} on {' + '.join(self.zones)}{price}"


INSTANCES = (
    Instance("sia-newtrace-1", ("us-central1-b", "us-east4-b"), 0.45, 1),
    Instance("sia-newtrace-2", ("us-central1-b", "us-east4-b"), 1.0, 2),
    Instance("sia-newtrace-3", ("us-west1-a", "asia-southeast1-b"), 0.45, 3),
    Instance("sia-newtrace-1", ("us-west1-a", "europe-west1-c"), 0.35, 4, wavering=True),
    Instance("sia-newtrace-2", ("us-central1-a", "europe-west1-c"), 0.7, 5),
    Instance("sia-newtrace-3", ("us-east4-b", "us-west1-a"), 0.6, 6, wavering=True),
    Instance("sia-newtrace-2", ("us-central1-a", "us-east4-b"), 1.0, 7),
)


def is_there() -> bool:
    """Whether the recorded data are there."""
    return (DATA / "markets" / "gcp-h100-2025.csv.gz").exists()


def scene(one: Instance, usd: float = math.inf) -> FleetScene:
    """Return an instance on a budget for all of its time."""
    members = recorded_jobs(one.stream, one.scale, one.seed)
    return FleetScene(_market(one), members, Allowance(usd, members[-1].submitted_hours), again=True)


@lru_cache(maxsize=1)
def _zones() -> Market:
    return open_market(str(DATA / "markets" / "gcp-h100-2025.csv.gz"))


def _market(one: Instance) -> Market:
    """Add up the spot counts of zones; the mean spot price and the least on-demand price."""
    pools = [_zones().pool(name) for name in one.zones]
    gpus = sum(pool.spot_gpus for pool in pools)
    spot = np.mean([pool.spot_usd_per_gpu_hour for pool in pools], axis=0)
    on_demand = np.min([pool.on_demand_usd_per_gpu_hour for pool in pools], axis=0)
    if one.wavering:
        spot = np.minimum(spot * _wave(len(spot), pools[0].slot_hours, one.seed), on_demand)
    return Market((Pool("+".join(one.zones), pools[0].slot_hours, spot, on_demand, np.asarray(gpus)),))


def _wave(slots: int, slot_hours: float, seed: int) -> np.ndarray:
    """Return a factor that wanders about one, half a day from one swing to the next."""
    noise, share = np.random.default_rng(seed).normal(size=slots), slot_hours / 12.0
    level, found = 0.0, np.empty(slots)
    for slot in range(slots):
        level += -level * share + math.sqrt(2.0 * share) * 0.4 * noise[slot]
        found[slot] = math.exp(level)
    return found


@lru_cache(maxsize=1)
def applications() -> dict[str, Job]:
    """Return the recorded applications, each with the upper hull of its measured speedup."""
    hours: dict[str, dict[int, float]] = {}
    with (DATA / "speedups" / "pollux-sia-time-to-target.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["hw"] == "aws":
                hours.setdefault(row["app"], {})[int(row["n_gpus"])] = float(row["time_to_target_s"]) / 3600
    return {name: _application(name, times) for name, times in hours.items()}


def _application(name: str, hours: dict[int, float]) -> Job:
    kept = _hull([(0.0, 0.0), *((float(gpus), hours[1] / hours[gpus]) for gpus in sorted(hours))])
    rates = np.interp(WIDTHS, [gpus for gpus, _ in kept], [rate for _, rate in kept])
    table = Table(tuple((float(gpus), float(rate)) for gpus, rate in zip(WIDTHS, rates, strict=True)))
    return Job(name=name, widths=WIDTHS, work_gpu_hours=hours[1], speedup=table, restart_hours=RESTART_HOURS)


def _hull(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the corners of the upper concave hull of points in ascending order."""
    kept: list[tuple[float, float]] = []
    for x, y in points:
        while len(kept) >= 2 and (kept[-1][1] - kept[-2][1]) * (x - kept[-1][0]) <= (y - kept[-1][1]) * (
            kept[-1][0] - kept[-2][0]
        ):
            kept.pop()
        kept.append((x, y))
    return kept


def recorded_jobs(stream: str, scale: float, seed: int) -> tuple[Member, ...]:
    """Return the jobs of a recorded stream, stretched; some 30 % are given hard deadlines."""
    rng, found = np.random.default_rng(seed), list[Member]()
    with (DATA / "jobs" / f"{stream}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        job = applications()[row["application"]]
        hours = float(row["time"]) / 3600 * HOURS / STREAM_HOURS
        work = job.work_gpu_hours * scale * float(rng.lognormal(-0.125, 0.5))
        found.append(Member(hours, job, work, deadline(rng, job, work, 0.3), kind=job.name))
    return from_the_first(found)


def deadline(rng: np.random.Generator, job: Job, work: float, share: float) -> float:
    """Draw a deadline of 1.3 to 4 times what the job takes on eight GPUs, at least an hour; or none."""
    if rng.random() >= share:
        return math.inf
    return max(1.0, (work / job.speedup(8) + job.restart_hours) * float(rng.uniform(1.3, 4.0)))


def from_the_first(members: Sequence[Member]) -> tuple[Member, ...]:
    """Return jobs in order, the first one at hour 0."""
    ordered = sorted(members, key=lambda one: one.submitted_hours)
    first = ordered[0].submitted_hours
    return tuple(
        Member(
            one.submitted_hours - first, one.template, one.work_gpu_hours, one.deadline_hours, kind=one.kind
        )
        for one in ordered
    )


def month(seed: int, usd: float, jobs: int = 4000) -> FleetScene:
    """Return a synthetic month: five kinds of jobs, a quarter with deadlines, on synthetic H100 spot."""
    rng = np.random.default_rng(seed)
    kinds = (
        Job(name="tests", work_gpu_hours=0.6, speedup=Amdahl(0.7), widths=(1, 2, 4), restart_hours=0.03),
        Job(name="tuning", work_gpu_hours=4.0, speedup=Amdahl(0.95), widths=WIDTHS, restart_hours=0.1),
        Job(name="vision", work_gpu_hours=6.0, speedup=Power(0.85), widths=WIDTHS, restart_hours=0.08),
        Job(name="sweeps", work_gpu_hours=2.0, speedup=Power(0.95), widths=(1, 2, 4, 8), restart_hours=0.05),
        Job(name="large", work_gpu_hours=30.0, speedup=Amdahl(0.98), widths=WIDTHS, restart_hours=0.15),
    )
    shares = np.array([0.45, 0.2, 0.15, 0.18, 0.02])
    members = []
    for hours in np.sort(rng.uniform(0.0, 730.0, jobs)):
        kind = kinds[rng.choice(len(kinds), p=shares)]
        work = kind.work_gpu_hours * float(rng.lognormal(-0.32, 0.8))
        due = max(1.0, (work / kind.speedup(4) + 0.1) * float(rng.uniform(1.5, 5.0)))
        members.append(
            Member(float(hours), kind, work, due if rng.random() < 0.25 else math.inf, kind=kind.name)
        )
    market = open_market(f"synthetic:h100?seed={seed}&days=32&slot=10m")
    return FleetScene(market, from_the_first(members), Allowance(usd, 730.0), again=True)
