"""Optimal widths where restarts take no time, the model of the papers: plans and frontiers, pinned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from slacktide.budget.classes import JobClass
from slacktide.budget.frontier import frontier
from slacktide.budget.width_plan import one_widths
from slacktide.budget.widths import optimal_widths
from slacktide.core.speedup import Amdahl, Linear, Power, Table
from slacktide.core.types import Job, Phase

MEASURED = Table.of({1: 1.0, 2: 1.8, 4: 3.0, 8: 4.5})


class Own:
    """A speedup that the solver must search."""

    def __call__(self, gpus: float) -> float:
        return math.sqrt(gpus)


CLASSES = (
    JobClass(Job(name="amdahl", work_gpu_hours=2.0, speedup=Amdahl(0.9)), arrivals_per_hour=5.0),
    JobClass(
        Job(name="power", work_gpu_hours=1.5, speedup=Power(0.6), widths=(1, 2, 4, 8)), arrivals_per_hour=2.0
    ),
    JobClass(Job(name="linear", work_gpu_hours=3.0, speedup=Linear(0.7, 0.3)), arrivals_per_hour=1.0),
    JobClass(
        Job(name="table", work_gpu_hours=3.0, speedup=MEASURED, widths=(1, 2, 4, 8)), arrivals_per_hour=4.0
    ),
    JobClass(
        Job(name="own", work_gpu_hours=1.0, speedup=Own(), widths=tuple(range(1, 17))), arrivals_per_hour=1.5
    ),
    JobClass(
        Job(
            name="phases",
            phases=(Phase(0.5, Power(0.5)), Phase(2.0, Linear(0.9, 0.1)), Phase(1.0, Amdahl(0.5))),
            widths=tuple(range(1, 17)),
        ),
        arrivals_per_hour=3.0,
    ),
)
BUDGETS_GPUS = (48.0, 60.0, 110.0)


def number(value: float) -> str:
    """Write a number with all digits that every machine has in common."""
    return f"{value:.12g}"


def plans(classes: Sequence[JobClass], integer: bool) -> Iterator[str]:
    """Tell what budgets buy."""
    kind, found = "whole" if integer else "real", frontier(classes, integer)
    for index in range(0, len(found), max(1, len(found) // 8)):
        columns = (found.budget_gpus, found.mean_response_hours, found.shadow_price_hours_per_gpu)
        corner = [float(column[index]) for column in columns]
        yield f"{kind} corner {index} of {len(found)}: {' '.join(map(number, corner))}"
    for budget in BUDGETS_GPUS:
        plan = optimal_widths(classes, budget, integer)
        figures = (plan.mean_response_hours, plan.average_gpus, plan.shadow_price_hours_per_gpu)
        yield f"{kind} on {budget:g}: {' '.join(map(number, figures))}"
        for one in plan.classes:
            for path in one.paths:
                widths = "-".join(map(number, path.widths))
                rest = (path.share, path.response_hours, path.gpu_hours)
                yield f"  {one.name} {widths}: {' '.join(map(number, rest))}"
        single = one_widths(classes, integer).best_at(budget)
        if single is not None:
            yield f"  one width {number(single.average_gpus)} {number(single.mean_response_hours)}"


def test_widths_without_restarts_are_as_they_were(golden: Callable[[Path, str], None]) -> None:
    lines = [*plans(CLASSES, True), *plans(CLASSES, False)]
    golden(Path(__file__).parent / "widths-without-restarts.txt", "\n".join(lines) + "\n")
