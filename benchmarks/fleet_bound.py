"""The bound below a fleet's mean response, compared with cheaper bounds and `patient-spot`.

`python -m benchmarks fleet_bound`: recorded jobs of the Sia streams, four times as slow, with measured
speedups on 1, 2, 4, 8 and 16 GPUs and restarts of 6 minutes; three of ten have a hard deadline. Spot is what
two H100 zones had together, in slots of 10 minutes. At what settings of `patient-spot` spent (those that no
other beats) stand the bounds: *trivial*, every job at its fastest from its arrival on; *no restarts*, the
same programme for jobs whose restarts take no time; and the bound itself. The data is found at
SLACKTIDE_DATA, or ../shared/data.
"""

from __future__ import annotations

import csv
import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from slacktide.allocators.patient_spot import PatientSpot
from slacktide.budget.classes import Member
from slacktide.core.arrays import Floats
from slacktide.core.speedup import Table, concave_hull
from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.market.source import open_market
from slacktide.results.fleet import FleetRun
from slacktide.simulation.fleet.run import RunOptions, run_fleet
from slacktide.simulation.fleet.scene import FleetScene
from slacktide_papers.fleet_bound.climb import Climb
from slacktide_papers.fleet_bound.problem import Problem, trivial_hours
from slacktide_papers.fleet_bound.scenes import problem_of

DATA = Path(os.environ.get("SLACKTIDE_DATA") or Path(__file__).parents[2] / "shared" / "data")
ZONES = ("us-central1-b", "us-east4-b")
WIDTHS = (1, 2, 4, 8, 16)
RESTART_HOURS = 0.1
STRETCH = 4.0
"""How much slower jobs come than they were recorded."""
WORK_SHARE = 0.4
"""How much of an application's work a job has, in the mean: with all of it spot is short all the time."""
DEADLINE_SHARE = 0.3
HORIZONS = ((1, 48.0), (2, 48.0), (3, 48.0), (2, 190.0))
"""Streams, and for how many hours of each jobs are taken."""
SETTINGS = tuple((width, wait) for width in WIDTHS[:4] for wait in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0))
SHOWN = 2
"""For how many settings of a stream bounds are printed."""


def main() -> None:
    """Print the bounds of every stream."""
    for stream, hours in HORIZONS:
        measure(stream, hours)


def measure(stream: int, hours: float) -> None:
    """Print what bounds say at the money that runs of a stream spent."""
    scene = scene_of(stream, hours)
    problem = problem_of(scene)
    deadlines = int(problem.demand.hard.sum())
    print(f"stream {stream}, {hours:g} h: {len(scene.members)} jobs, {deadlines} with a deadline")
    print(f"  trivial bound {trivial_hours(problem):.3f} h")
    climb, without = Climb(problem), Climb(_without_restarts(problem))
    runs = front(scene)
    for run in runs[:: max(1, len(runs) // SHOWN)][:SHOWN]:
        began = time.process_time()
        found = climb.bound(run.spent_usd)
        seconds = (time.process_time() - began) / len(found.history)
        free = without.bound(run.spent_usd).mean_response_hours
        reached = run.responses.mean_hours
        print(
            f"  {run.spent_usd:8,.0f} USD: no restarts {free:.3f}, bound {found.mean_response_hours:.3f} h; "
            f"{run.policy} {reached:.3f} h, {reached / found.mean_response_hours:.2f} of the bound; "
            f"{len(found.history)} steps of {seconds:.2f} CPU s; an hour is worth "
            f"{1.0 / found.nu_hours_per_usd:,.0f} USD",
            flush=True,
        )


def front(scene: FleetScene) -> list[FleetRun]:
    """Return the runs of `patient-spot` that no other setting beats in both, the cheapest first."""
    runs = [
        run_fleet(scene, PatientSpot(width, wait), RunOptions(name=f"patient-spot({width}, {wait:g} h)"))
        for width, wait in SETTINGS
    ]
    runs.sort(key=lambda run: run.spent_usd)
    soonest = np.minimum.accumulate([run.responses.mean_hours for run in runs])
    faster = [True, *(later < before for before, later in pairwise(soonest))]
    return [run for run, one in zip(runs, faster, strict=True) if one and not len(run.late)]


def _without_restarts(problem: Problem) -> Problem:
    nothing = np.zeros_like(problem.shapes.restart_hours)
    return problem._replace(shapes=problem.shapes._replace(restart_hours=nothing, shrink_hours=nothing))


def scene_of(stream: int, hours: float) -> FleetScene:
    """Return the jobs of a stream that come within some hours, on the market of both zones together."""
    rng = np.random.default_rng(stream)
    templates, members = templates_of(), []
    with (DATA / "jobs" / f"sia-newtrace-{stream}.csv").open(encoding="utf-8") as file:
        rows = sorted(
            (float(row["time"]) / 3600 * STRETCH, row["application"]) for row in csv.DictReader(file)
        )
    for came, name in rows:
        if came <= hours and name in templates:
            job = templates[name]
            work = job.work_gpu_hours * WORK_SHARE * float(rng.lognormal(-0.125, 0.5))
            due = np.inf
            if rng.random() < DEADLINE_SHARE:
                on_eight = RESTART_HOURS + work / job.speedup(8)
                due = max(1.0, on_eight * float(rng.uniform(1.3, 4.0)))
            members.append(Member(came, job, work, due))
    return FleetScene(market_of(), tuple(members), again=True)


def market_of() -> Market:
    """Return one pool with the spot of both zones, at their mean price."""
    both = {pool.name: pool for pool in open_market(str(DATA / "markets" / "gcp-h100-2025.csv.gz")).pools}
    pools = [both[name] for name in ZONES]
    spot: Floats = np.mean([pool.spot_usd_per_gpu_hour for pool in pools], axis=0)
    on_demand: Floats = np.min([pool.on_demand_usd_per_gpu_hour for pool in pools], axis=0)
    gpus = pools[0].spot_gpus + pools[1].spot_gpus
    return Market((Pool("both zones", pools[0].slot_hours, spot, on_demand, gpus),))


def templates_of() -> dict[str, Job]:
    """Return a job of each application, with all of its work; the smallest one, of seconds, is left out."""
    with (DATA / "speedups" / "pollux-sia-time-to-target.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["hw"] == "aws" and row["app"] != "ncf"]
    return {name: _template(name, rows) for name in dict.fromkeys(row["app"] for row in rows)}


def _template(name: str, rows: list[dict[str, str]]) -> Job:
    hours = {int(row["n_gpus"]): float(row["time_to_target_s"]) / 3600 for row in rows if row["app"] == name}
    measured = ((float(width), hours[1] / one) for width, one in sorted(hours.items()))
    corners = concave_hull(((0.0, 0.0), *measured))
    gpus, rate = zip(*corners, strict=True)
    rates = np.maximum.accumulate(np.interp(WIDTHS, gpus, rate))
    points = tuple((float(width), float(rate)) for width, rate in zip(WIDTHS, rates, strict=True))
    return Job(
        name=name, work_gpu_hours=hours[1], speedup=Table(points), widths=WIDTHS, restart_hours=RESTART_HOURS
    )


if __name__ == "__main__":
    main()
