"""A stream of jobs on an average budget: formulas, baselines and speed; learning is in `benchmarks.online`.

`python -m benchmarks budget`. The fleets and streams here were drawn once; nothing was tuned on them. Speeds
are by CPU time of one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from benchmarks.stream_fleets import faster, paper_fleet, pollux_fleet, random_fleet
from slacktide.allocators.streams.fixed_width import FixedWidth
from slacktide.allocators.streams.one_width import OneWidth
from slacktide.allocators.streams.online_width import OnlineWidth
from slacktide.allocators.view import AnyAllocator
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import draw_stream, realised_classes
from slacktide.budget.widths import optimal_widths
from slacktide.results.stream import StreamRun
from slacktide.simulation.fleet.comparison import compare_streams
from slacktide.simulation.fleet.run import run_events, simulate
from slacktide_papers.baselines.efficiency_band import EfficiencyBand
from slacktide_papers.baselines.equi import Equi
from slacktide_papers.baselines.fifo import Fifo
from slacktide_papers.baselines.srpt import Srpt

STREAMS = (
    ("poisson", "exponential"),
    ("bursty", "exponential"),
    ("poisson", "pareto"),
    ("bursty", "lognormal"),
)
LONG = 2_000_000
BASELINES = ("one-width", "efficiency-band", "equi", "fifo", "srpt")
CROWD = 6.0
"""How many times as fast jobs come where about a hundred are to be present."""


def main() -> None:
    """Print all figures."""
    formulas()
    baselines()
    speeds()


def formulas() -> None:
    """Print how far long simulated runs of fixed widths are from the formulas."""
    print(f"(a) fixed-width compared with its formulas, {LONG:,} jobs a stream (aim: within 1 %)")
    worst = 0.0
    for name, fleet in (("paper's two", paper_fleet(1.5)), ("phases", random_fleet(90, restarts=True))):
        plan = optimal_widths(fleet.classes, fleet.budget_gpus)
        for arrivals, sizes in STREAMS:
            stream = draw_stream(fleet.classes, LONG, arrivals=arrivals, sizes=sizes, seed=91)
            run = simulate(stream, fleet, "fixed-width")
            response = run.mean_response_hours / plan.mean_response_hours - 1
            spent = run.average_gpus / plan.average_gpus - 1
            worst = max(worst, abs(response), abs(spent))
            print(f"  {name}, {arrivals}, {sizes}: response {response:+.2%}, GPUs {spent:+.2%}", flush=True)
    print(f"  worst: {worst:.2%}", flush=True)


def baselines() -> None:
    """Print each baseline's mean response over the optimum's at the same realised spending."""
    print("(b) baselines over the optimum at equal realised average GPUs, 8,000 jobs (aim: none below 1)")
    least: dict[str, list[float]] = {name: [] for name in BASELINES}
    bound: dict[str, list[float]] = {name: [] for name in BASELINES}
    for fleet, arrivals, sizes in _grounds():
        stream = draw_stream(fleet.classes, 8_000, arrivals=arrivals, sizes=sizes, seed=92)
        came = [one for one in realised_classes(fleet.classes, stream) if one is not None]
        for name, row in zip(BASELINES, compare_streams(stream, fleet, BASELINES).rows, strict=True):
            if row.ratio is not None:
                least[name].append(row.ratio)
            frontier = optimal_widths(came, row.run.average_gpus).mean_response_hours
            bound[name].append(row.run.mean_response_hours / frontier)
    for name in BASELINES:
        ratios = np.array(least[name])
        print(
            f"  {name}: {ratios.min():.4f} to {ratios.max():.4f} (median {np.median(ratios):.4f}) on "
            f"{len(ratios)} streams; over the frontier of the jobs that came >= {min(bound[name]):.4f}",
            flush=True,
        )


def _grounds() -> list[tuple[Fleet, str, str]]:
    fleets = [paper_fleet(room) for room in (1.2, 2.0, 3.5)]
    fleets += [found for room in (1.5, 2.5) if (found := pollux_fleet(room)) is not None]
    fleets += [random_fleet(seed) for seed in (93, 94)]
    fleets += [random_fleet(seed, restarts=True) for seed in (95, 96)]
    return [(fleet, *STREAMS[number % len(STREAMS)]) for number, fleet in enumerate(fleets)]


def speeds() -> None:
    """Print jobs a second: all at once, and event by event under every policy with about 100 jobs present."""
    fleet = replace(paper_fleet(1.5), budget_gpus=120.0)
    million = draw_stream(fleet.classes, 1_000_000, seed=97)
    seconds = _best_cpu(lambda: _with_figures(simulate(million, fleet, "fixed-width")))
    print(f"(c) fixed-width, all at once, figures included: {1e6 / seconds:,.0f} jobs/s (aim 1,000,000)")
    busy = faster(random_fleet(98, room=1.5), CROWD)
    busy = replace(busy, budget_gpus=CROWD * busy.budget_gpus)
    for policy, name in _speed_policies(busy):
        stream = draw_stream(busy.classes, 6_000, seed=99)
        run_events(stream.head(300), busy, policy)
        seconds = _best_cpu(partial(run_events, stream, busy, policy))
        present = run_events(stream, busy, policy).response_hours.sum() / stream.hours
        print(
            f"  {name}: {len(stream) / seconds:,.0f} jobs/s with {present:.0f} present (aim 5,000)",
            flush=True,
        )


def _speed_policies(fleet: Fleet) -> list[tuple[AnyAllocator, str]]:
    size = int(fleet.budget_gpus)
    return [
        (FixedWidth(), "fixed-width"), (OnlineWidth(), "online-width"), (OneWidth(2), "one-width"),
        (Fifo(size, 1), "fifo"), (Equi(size), "equi"), (Srpt(size, 1), "srpt"),
        (EfficiencyBand(0.95), "efficiency-band"),
    ]  # fmt: skip


def _with_figures(run: StreamRun) -> None:
    assert run.responses.p95_hours >= run.responses.p50_hours
    assert run.peak_gpus > 0


def _best_cpu(work: Callable[[], object], tries: int = 3) -> float:
    shortest = float("inf")
    for _ in range(tries):
        began = time.process_time()
        work()
        shortest = min(shortest, time.process_time() - began)
    return shortest


if __name__ == "__main__":
    main()
