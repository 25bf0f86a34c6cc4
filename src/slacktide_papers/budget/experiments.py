"""All experiments on streams, one after another: Li et al. 2024, and what BOA Constrictor compares."""

from __future__ import annotations

from pathlib import Path

from slacktide.core.errors import InputError
from slacktide.simulation.compare import Progress
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide_papers.budget import rows
from slacktide_papers.budget.cases import (
    FULL,
    IDEAL,
    QUICK,
    USUAL,
    Case,
    Machines,
    Size,
    checked,
)
from slacktide_papers.budget.epochs import applications, epoch_cases, epoch_tasks, said_of_phases
from slacktide_papers.budget.equal import contests, costs, ratios, ratios_at
from slacktide_papers.budget.families import (
    Family,
    band,
    budgets_of,
    equi,
    families,
    fixed_width,
    online_width,
    slow_band,
    with_learners,
)
from slacktide_papers.budget.fleets import MIXED_FLEETS, PAPER_FLEETS, drawn, synthetic
from slacktide_papers.budget.measure import best_of, check, widths_along
from slacktide_papers.budget.rows import BudgetReproduction, Point
from slacktide_papers.budget.traces import recorded_cases

CHECKS = 6
CURVE = 48  # budgets along which the optimal widths are drawn

Task = tuple[Case, str, Family]


def reproduce(
    *,
    quick: bool = False,
    seed: int = 0,
    data: Path | None = None,
    machines: Machines = USUAL,
    progress: Progress | None = None,
    spread: Spread = HERE,
) -> BudgetReproduction:
    """Run the experiments at full or quick size; the same seed gives the same numbers.

    Raises InputError for an impossible number, or a folder without usable streams.
    """
    if seed < 0:
        raise InputError(f"seed must be >= 0, got {seed}")
    size = QUICK if quick else FULL
    return run(size, seed, data, checked(machines), progress, quick=quick, spread=spread)


def run(
    size: Size,
    seed: int,
    data: Path | None,
    machines: Machines = USUAL,
    progress: Progress | None = None,
    *,
    quick: bool = True,
    spread: Spread = HERE,
) -> BudgetReproduction:
    """Run the experiments at any size."""
    recorded, notes = recorded_cases(data, size.streams)
    streams = [*recorded, synthetic(size.synthetic_jobs, seed)]
    fleets = [drawn(draw, size.jobs, seed) for draw in PAPER_FLEETS]
    mixes = [drawn(draw, size.jobs, seed) for draw in MIXED_FLEETS]
    compared = [case.on(one) for case in streams for one in dict.fromkeys((IDEAL, machines))]
    tasks: list[Task] = [
        *((case, rows.PAPER, family) for case in fleets for family in families(case, size)),
        *((case, rows.MIXES, family) for case in mixes for family in families(case, size)),
        *((case, rows.AUTOSCALING, family) for case in compared for family in with_learners(case, size)),
        *_on_machines([*reversed(recorded), *streams][0], machines, size),
        *epoch_tasks(epoch_cases(recorded, size, seed), size),
    ]
    points = _measured(tasks, progress, spread)
    epochs = [point for point in points if point.experiment == rows.EPOCHS]
    found = [*ratios(point for point in points if point.experiment != rows.EPOCHS), *ratios_at(epochs)]
    return BudgetReproduction(
        seed=seed,
        quick=quick,
        machines=machines.name,
        points=tuple(points),
        widths=tuple(
            row for case in fleets[:1] for row in widths_along(case, budgets_of(case.classes, CURVE))
        ),
        checks=tuple(
            check(case, budget) for case in (*fleets, *mixes) for budget in budgets_of(case.classes, CHECKS)
        ),
        ratios=tuple(found),
        contests=tuple(contests(found)),
        costs=tuple(costs(points)),
        epochs=tuple(contests(found, rows.EPOCHS)),
        notes=(*notes, said_of_phases(applications(recorded))),
    )


def _on_machines(case: Case, machines: Machines, size: Size) -> list[Task]:
    """Return tasks on machines that are worse than ideal in one thing at a time, then in all."""
    steps = dict.fromkeys((IDEAL, *size.steps, machines))
    return [
        (made, rows.MACHINES, family)
        for made in (case.on(step) for step in steps)
        for family in (
            fixed_width(made, size), online_width(made, size), band(size), slow_band(size), equi(made, size)
        )
    ]  # fmt: skip


def _measured(tasks: list[Task], progress: Progress | None, spread: Spread) -> list[Point]:
    """Measure every group of every family: the groups are what can be spread."""
    groups = [(number, at) for number, (_, _, family) in enumerate(tasks) for at in range(len(family.groups))]
    points: list[Point] = []
    for done, point in enumerate(spread.each(do_group, tasks, groups), start=1):
        points.append(point)
        if progress is not None:
            progress(done, len(groups))
    return points


def do_group(tasks: list[Task], group: tuple[int, int]) -> Point:
    """Measure one group of tries of one of the tasks."""
    number, at = group
    case, experiment, family = tasks[number]
    return best_of(case, experiment, family.series, family.groups[at])
