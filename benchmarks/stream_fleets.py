"""Fleets for the benchmark of streams: drawn by seed, the paper's two classes, Pollux's applications."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.widths import least_budget_gpus
from slacktide.core.speedup import Amdahl, Power, Speedup, Table
from slacktide.core.types import Job, Phase

DATA = Path(os.environ.get("SLACKTIDE_DATA") or Path(__file__).parents[2] / "shared" / "data")
WIDTHS = (tuple(range(1, 65)), (1, 2, 4, 8, 16, 32, 64), tuple(range(1, 17)))


def random_fleet(seed: int, *, room: float | None = None, restarts: bool = False) -> Fleet:
    """Draw a fleet of a few classes; `room` is its budget as a multiple of the least, else drawn too."""
    rng = np.random.default_rng(seed)
    classes = tuple(_random_class(rng, index, restarts) for index in range(rng.integers(2, 7)))
    drawn = float(rng.uniform(1.4, 3.5))
    return Fleet(classes, budget_gpus=least_budget_gpus(classes) * (room or drawn))


def _random_class(rng: np.random.Generator, index: int, restarts: bool) -> JobClass:
    rate, work = float(rng.lognormal(1.0, 0.8)), float(rng.lognormal(1.0, 0.8))
    shares = rng.dirichlet(np.full(3, 4.0)).tolist() if restarts and rng.random() < 0.5 else [1.0]
    return JobClass(
        Job(
            name=f"class {index}",
            phases=tuple(Phase(work * share, _speedup(rng)) for share in shares),
            restart_hours=0.02 * work if restarts else 0.0,
            widths=WIDTHS[rng.integers(len(WIDTHS))],
        ),
        arrivals_per_hour=rate,
    )


def _speedup(rng: np.random.Generator) -> Speedup:
    kind = rng.integers(3)
    if kind == 0:
        return Amdahl(float(rng.uniform(0.7, 0.99)))
    if kind == 1:
        return Power(float(rng.uniform(0.45, 0.9)))
    law = Amdahl(float(rng.uniform(0.85, 0.98)))
    return Table(tuple((float(k), law(k) * float(rng.uniform(0.92, 1.08))) for k in (1, 2, 4, 8, 16, 32)))


def paper_fleet(room: float) -> Fleet:
    """Return the two classes of Li et al. 2024: Amdahl's law with 80 % in parallel, and a square root."""
    classes = (
        JobClass(Job(name="amdahl", work_gpu_hours=1.0, speedup=Amdahl(0.8)), arrivals_per_hour=40.0),
        JobClass(Job(name="root", work_gpu_hours=1.0, speedup=Power(0.5)), arrivals_per_hour=40.0),
    )
    return Fleet(classes, budget_gpus=80.0 * room)


def pollux_fleet(room: float) -> Fleet | None:
    """Return Pollux's applications on AWS with their measured speedups; None where there is no data."""
    path = DATA / "speedups" / "pollux-sia-time-to-target.csv"
    if not path.exists():
        return None
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["hw"] == "aws"]
    classes = tuple(_measured(name, [row for row in rows if row["app"] == name]) for name in _in_order(rows))
    return Fleet(classes, budget_gpus=least_budget_gpus(classes) * room)


def _in_order(rows: Sequence[dict[str, str]]) -> list[str]:
    return list(dict.fromkeys(row["app"] for row in rows))


def _measured(name: str, rows: Sequence[dict[str, str]]) -> JobClass:
    hours = max(float(row["time_to_target_s"]) for row in rows) / 3600
    points = {float(row["n_gpus"]): float(row["tta_speedup"]) for row in rows}
    widths = tuple(int(gpus) for gpus in sorted(points))
    # Each application brings the same load, so that none drowns the others.
    return JobClass(
        Job(name=name, work_gpu_hours=hours, speedup=Table(tuple(sorted(points.items()))), widths=widths),
        arrivals_per_hour=4.0 / hours,
    )


def faster(fleet: Fleet, factor: float) -> Fleet:
    """Return the fleet with all arrivals faster by a factor."""
    classes = tuple(replace(one, arrivals_per_hour=one.arrivals_per_hour * factor) for one in fleet.classes)
    return replace(fleet, classes=classes)
