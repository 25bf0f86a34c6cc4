"""All experiments of Kong et al. 2025, one after another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slacktide.core.errors import InputError
from slacktide.simulation.compare import Progress
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide_papers.deadline import convergence, sweeps
from slacktide_papers.deadline.gains import gains
from slacktide_papers.deadline.measure import measure, parts_of
from slacktide_papers.deadline.places import (
    CONTESTED,
    FULL,
    QUICK,
    USUAL_DEADLINE_HOURS,
    Size,
    job_of,
    real_places,
    synthetic,
)
from slacktide_papers.deadline.rows import BASELINES, Chosen, Reproduction, Step


def reproduce(
    *,
    quick: bool = False,
    seed: int = 0,
    data: Path | None = None,
    progress: Progress | None = None,
    spread: Spread = HERE,
) -> Reproduction:
    """Run the experiments at full or quick size; the same seed gives the same numbers.

    Raises InputError for a negative seed, or a folder without usable traces.
    """
    if seed < 0:
        raise InputError(f"seed must be >= 0, got {seed}")
    return run(QUICK if quick else FULL, seed, data, progress, quick=quick, spread=spread)


def run(
    size: Size,
    seed: int,
    data: Path | None,
    progress: Progress | None = None,
    *,
    quick: bool = True,
    spread: Spread = HERE,
) -> Reproduction:
    """Run the experiments at any size."""
    places, notes = real_places(data)
    cells = [
        *sweeps.tightness(size, seed, places),
        *sweeps.volatility(size, seed),
        *sweeps.noise(size, seed, places),
        *sweeps.parameters(size, seed),
    ]
    arms = len(convergence.arms_of(size)) + len(BASELINES)
    tick = _counter(progress, parts_of(cells) + arms * len(convergence.situations(seed)))
    points = measure(cells, tick, spread)
    steps, chosen = select(size, seed, tick, spread)
    job = job_of(synthetic(CONTESTED, size, seed).pools[0], USUAL_DEADLINE_HOURS)
    return Reproduction(
        seed,
        quick,
        job,
        tuple(points),
        tuple(steps),
        tuple(chosen),
        tuple(gains(points, chosen)),
        tuple(notes),
    )


def select(
    size: Size, seed: int, tick: Callable[[], None], spread: Spread = HERE
) -> tuple[list[Step], list[Chosen]]:
    """Run every scenario of the online selection."""
    earned = convergence.earn(size, seed, tick, spread)
    steps: list[Step] = []
    chosen: list[Chosen] = []
    for scenario, phases in convergence.SCENARIOS.items():
        more, ends = convergence.converge(scenario, [earned[phase] for phase in phases], size.jobs, seed)
        steps += more
        chosen += ends
    return steps, chosen


def _counter(progress: Progress | None, total: int) -> Callable[[], None]:
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return tick
