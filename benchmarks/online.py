"""What `online-width` learns about a stream without prior knowledge, compared with the optimum in hindsight.

`python -m benchmarks online`. The load that came differs by chance from its mean, the more the burstier the
stream, so no rule can promise both what it spends and what that buys. Here responses are compared with the
optimum for the very jobs that count, at what the rule itself spent on them, and spending with what chance
explains. The fleets were drawn once; others were looked at while the allocator was written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.stream_fleets import DATA, pollux_fleet, random_fleet
from slacktide.allocators.streams.online_width import OnlineWidth
from slacktide.allocators.view import AnyAllocator, FleetView
from slacktide.budget.estimates.rates import ArrivalRate
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, draw_stream, realised_classes
from slacktide.budget.widths import FleetPlan, least_budget_gpus, optimal_widths
from slacktide.core.arrays import Floats, Ints
from slacktide.files.fleet.recorded_jobs import read_jobs
from slacktide.simulation.fleet.run import RunOptions, run_events

JOBS, LEARNING = 2_000, 500
"""Jobs of a stream, and how many of them are not counted; as many are given to it after a doubling."""
FLEETS = range(700, 708)
"""Seeds of the fleets; others were used while the allocator was written."""
STREAMS = (("poisson", "exponential"), ("bursty", "exponential"), ("bursty", "lognormal"))
DOUBLING = ("poisson", "bursty")
ROOM = 3.0
"""Budget over the least where rates double: half as much afterwards."""
ROOMS = (1.4, 2.0, 3.0)
"""The same of recorded streams."""
LAPS = 2
"""How often a recorded stream is lived through, one lap after another."""
LEAST_ALLOWED = 0.02
"""What may be spent too much of the budget on a stream of any length."""
REFERENCE = {
    "poisson, exponential": "1.045 / 1.013 (1.019)",
    "bursty, exponential": "1.089 / 1.047 (1.061)",
    "bursty, lognormal": "1.098 / 1.062 (1.042)",
    "poisson, doubling": "1.079 / 1.031 (1.062)",
    "bursty, doubling": "1.050 / 1.010 (1.123)",
}
"""What the rule was designed to reach, on 8 other fleets: response worst / median (spent worst)."""


class Result(NamedTuple):
    """What one stream came to."""

    response: float
    """Mean response over that of the optimum in hindsight at the same spending."""
    spent: float
    """Over the budget, on the whole stream."""
    allowed: float
    """What chance explains of that."""
    late_spent: float
    """Over the budget, on the jobs that count; where rates double, on those after it."""
    with_learning: float
    """The response with the learning charged: the optimum has what was spent on all jobs, also on the first
    of each part, and all jobs but the first of the stream count."""


def main() -> None:
    """Print all figures."""
    print(
        f"online-width from nothing, {JOBS:,} jobs, {len(FLEETS)} fleets: mean response of jobs after the "
        f"first {LEARNING} over the optimum in hindsight for them at what was spent on them, worst / median "
        "(aim 1.15 / 1.05); in brackets spent on all jobs over the budget, worst (aim 1 + max(0.02, root of "
        "dispersion / jobs))"
    )
    for arrivals, sizes in STREAMS:
        report(f"{arrivals}, {sizes}", [steady(seed, arrivals, sizes) for seed in FLEETS])
    print(
        f"  rates double after {JOBS // 2:,} jobs, budget {ROOM:g} times the least before; the first "
        f"{LEARNING} jobs of each half are not counted (aim of the rate of spending after them: 1.05)"
    )
    for arrivals in DOUBLING:
        report(f"{arrivals}, doubling", [doubling(seed, arrivals) for seed in FLEETS], doubles=True)
    rooms = ", ".join(f"{room:g}" for room in ROOMS)
    print(
        f"  streams recorded by Sia, {LAPS} laps of 960 jobs, speedups measured by Pollux, budgets of "
        f"{rooms} times the least (aim 1.10)"
    )
    for name, results in recorded():
        report(name, results)


def report(name: str, results: Sequence[Result], doubles: bool = False) -> None:
    """Print a row."""
    response, spent, allowed, late_spent, charged = np.array(results).T
    designed = f"; designed for {REFERENCE[name]}" if name in REFERENCE else ""
    late = (
        f"; rate of spending {late_spent.max():.3f} (median {np.median(late_spent):.3f})" if doubles else ""
    )
    print(
        f"  {name}: {response.max():.3f} / {np.median(response):.3f} ({spent.max():.3f}){designed}; "
        f"{int((spent > allowed).sum())} of {len(results)} spent more than chance explains{late}; "
        f"with learning charged {charged.max():.3f} / {np.median(charged):.3f}",
        flush=True,
    )


def steady(seed: int, arrivals: str, sizes: str, allocator: AnyAllocator | None = None) -> Result:
    """Live through a stream whose rates stay."""
    fleet = random_fleet(seed, restarts=seed % 2 == 1)
    stream = draw_stream(fleet.classes, JOBS, arrivals=arrivals, sizes=sizes, seed=seed)
    return lived(stream, fleet, allocator)


def doubling(seed: int, arrivals: str, allocator: AnyAllocator | None = None) -> Result:
    """Live through a stream whose rates double half-way."""
    fleet = random_fleet(seed, room=ROOM, restarts=seed % 2 == 1)
    drawn = draw_stream(fleet.classes, JOBS, arrivals=arrivals, seed=seed)
    stream = drawn.sped_up(float(drawn.arrival_hours[JOBS // 2 - 1]), 2.0)
    return lived(stream, fleet, allocator, parts=2)


def recorded(allocator: AnyAllocator | None = None) -> Iterator[tuple[str, list[Result]]]:
    """Live through recorded streams in a ring; nothing where there is no data."""
    for path in sorted((DATA / "jobs").glob("sia-newtrace-*.csv")):
        found = []
        for room in ROOMS:
            fleet = pollux_fleet(room)
            if fleet is not None:
                stream, fleet = ring(path, fleet, room)
                found.append(lived(stream, fleet, allocator))
        if found:
            yield path.stem, found


def ring(path: Path, fleet: Fleet, room: float) -> tuple[Stream, Fleet]:
    """Return a recorded stream again and again, and its fleet with a budget of this many times the least."""
    once = read_jobs(path, fleet.classes, sizes="fixed")
    stream = Stream(
        np.concatenate([once.arrival_hours + lap * once.hours for lap in range(LAPS)]),
        np.tile(once.class_index, LAPS),
        np.tile(once.size, LAPS),
    )
    came = [one for one in realised_classes(fleet.classes, stream) if one is not None]
    return stream, replace(fleet, budget_gpus=room * least_budget_gpus(came))


def lived(stream: Stream, fleet: Fleet, allocator: AnyAllocator | None, parts: int = 1) -> Result:
    """Run a stream and compare it, part by part, with the optimum at what was spent on the jobs of each."""
    paid = Paid(np.zeros(len(stream)))
    run = run_events(stream, fleet, allocator or OnlineWidth(speedups="learn"), RunOptions(watch=paid))
    each = len(stream) // parts
    whole = [slice(part * each, (part + 1) * each) for part in range(parts)]
    late = [slice(part.start + LEARNING, part.stop) for part in whole]
    best, best_late = (
        np.concatenate([optimum(_part(stream, one), fleet, _spent_gpus(stream, paid, one)) for one in pieces])
        for pieces in (whole, late)
    )
    took_late = np.concatenate([run.response_hours[one] for one in late])
    return Result(
        float(took_late.mean() / best_late.mean()),
        run.average_gpus / fleet.budget_gpus,
        1.0 + max(LEAST_ALLOWED, math.sqrt(dispersion(stream) / len(stream))),
        _spent_gpus(stream, paid, late[-1]) / fleet.budget_gpus,
        float(run.response_hours[LEARNING:].mean() / best[LEARNING:].mean()),
    )


@dataclass
class Paid:
    """Watches what was paid for each job."""

    gpu_hours: Floats
    now_hours: float = 0.0
    ids: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    widths: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __call__(self, view: FleetView, widths: Ints) -> None:
        self.gpu_hours[self.ids] += self.widths * (view.now_hours - self.now_hours)
        self.now_hours, self.ids, self.widths = view.now_hours, view.jobs.ids.copy(), widths.copy()


def _spent_gpus(stream: Stream, paid: Paid, jobs: slice) -> float:
    """Return the GPUs that were paid for some jobs, on average over the time in which they came."""
    return float(paid.gpu_hours[jobs].sum() / (stream.arrival_hours[jobs][-1] - _begins(stream, jobs)))


def _begins(stream: Stream, jobs: slice) -> float:
    return float(stream.arrival_hours[jobs.start - 1]) if jobs.start else 0.0


def _part(stream: Stream, jobs: slice) -> Stream:
    hours = stream.arrival_hours[jobs] - _begins(stream, jobs)
    return Stream(hours, stream.class_index[jobs], stream.size[jobs])


def dispersion(stream: Stream) -> float:
    """Return how bursty a stream was."""
    rate = ArrivalRate()
    for now_hours in stream.arrival_hours.tolist():
        rate.arrived(now_hours)
    return rate.dispersion


def optimum(stream: Stream, fleet: Fleet, budget_gpus: float) -> Floats:
    """Return the response of each job under the optimum for the jobs that really came."""
    came = [one for one in realised_classes(fleet.classes, stream) if one is not None]
    return responses(
        optimal_widths(came, max(budget_gpus, least_budget_gpus(came) * (1 + 1e-9))), stream, fleet
    )


def responses(plan: FleetPlan, stream: Stream, fleet: Fleet) -> Floats:
    """Return the mean response of jobs of each size under a plan; pauses are spread over the class."""
    planned = {one.name: one for one in plan.classes}
    work = {one.name: one.work_gpu_hours for one in plan.job_classes}
    per_size = np.array(
        [
            planned[one.name].response_hours * one.work_gpu_hours / work[one.name]
            if one.name in planned
            else 0.0
            for one in fleet.classes
        ]
    )
    found: Floats = per_size[stream.class_index] * stream.size
    return found


if __name__ == "__main__":
    main()
