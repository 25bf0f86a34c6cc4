"""The optimal widths on a budget once more, as a linear programme for HiGHS.

A second opinion: nothing but the classes' own numbers is shared with the solver. The jobs of a class
flow through a network. Through each (phase, width) flows a share of them; from one phase to the next a
share stays at its width or goes over a *hub* to another, and whoever leaves the hub pays a restart at
the new width. Whoever starts pays one too, as part of the first phase. One row holds all classes together:
the GPUs they rent on average.

Variables, for each class, phase e and width k, all >= 0 and in the order of their blocks:

- run[e,k], the share that does phase e on k GPUs;
- leave[e,k], the part of it that goes to the hub after phase e (none after the last);
- join[e,k], the part of run[e,k] that came from the hub before phase e (none before the first).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.core.arrays import Floats
from slacktide.core.errors import SlacktideError


@dataclass(frozen=True, slots=True)
class Reference:
    """The optimum of the linear programme."""

    mean_response_hours: float
    average_gpus: float
    shadow_price_hours_per_gpu: float
    """The dual of the budget's row; between two slopes of the frontier any may come."""


class _Rows:
    """Rows of a sparse matrix of equalities, collected entry by entry."""

    def __init__(self) -> None:
        self.row: list[int] = []
        self.column: list[int] = []
        self.value: list[float] = []
        self.right: list[float] = []

    def add(self, terms: Iterator[tuple[int, float]], right: float) -> None:
        """Add the row: sum of coefficient x variable = right."""
        for column, value in terms:
            self.row.append(len(self.right))
            self.column.append(column)
            self.value.append(value)
        self.right.append(right)


@dataclass(frozen=True, slots=True, eq=False)
class Programme:
    """The numbers of the programme: everything but the budget."""

    jobs: Floats
    """Jobs present for each variable."""
    gpus: Floats
    rows: _Rows
    arrivals_per_hour: float

    def solve(self, budget_gpus: float) -> Reference:
        """Run HiGHS. Raises SlacktideError where it finds no optimum."""
        from scipy.optimize import linprog
        from scipy.sparse import coo_array

        rows, shape = self.rows, (len(self.rows.right), len(self.jobs))
        found: Any = linprog(
            self.jobs, A_ub=coo_array(self.gpus[None, :]), b_ub=[budget_gpus],
            A_eq=coo_array((rows.value, (rows.row, rows.column)), shape=shape).tocsr(), b_eq=rows.right,
            method="highs",
        )  # fmt: skip
        if found.status != 0:
            raise SlacktideError(f"the linear programme must have an optimum, got {found.message}")
        price = -float(found.ineqlin.marginals[0])
        return Reference(
            float(found.fun) / self.arrivals_per_hour,
            float(self.gpus @ found.x),
            price / self.arrivals_per_hour,
        )


def solve(classes: Sequence[JobClass], budget_gpus: float) -> Reference:
    """Build the programme of some classes and solve it."""
    return build(classes).solve(budget_gpus)


def build(classes: Sequence[JobClass]) -> Programme:
    """Write down the cost of each variable in jobs present and in GPUs, and the rows of the flow."""
    jobs: list[float] = []
    gpus: list[float] = []
    rows = _Rows()
    for job_class in classes:
        rate, first = job_class.arrivals_per_hour, len(jobs)
        for index, phase in enumerate(job_class.phases):
            start = 0.0 if index else job_class.restart_hours
            hours = [start + phase.work_gpu_hours / phase.speedup(width) for width in job_class.widths]
            jobs += [rate * each for each in hours]
            gpus += [rate * width * each for width, each in zip(job_class.widths, hours, strict=True)]
        for restart in (0.0, job_class.restart_hours):  # leave, then join
            cost = [rate * restart] * len(job_class.widths) * (len(job_class.phases) - 1)
            jobs += cost
            gpus += [
                each * width
                for each, width in zip(cost, job_class.widths * (len(job_class.phases) - 1), strict=True)
            ]
        _flow(rows, first, len(job_class.phases), len(job_class.widths))
    arrivals = sum(job_class.arrivals_per_hour for job_class in classes)
    return Programme(np.array(jobs), np.array(gpus), rows, arrivals)


def _flow(rows: _Rows, first: int, phases: int, widths: int) -> None:
    """Add the rows of one class: all jobs start, and whoever leaves a width joins another."""
    leave = first + phases * widths
    join = leave + (phases - 1) * widths
    rows.add(((first + k, 1.0) for k in range(widths)), 1.0)
    for phase in range(1, phases):
        before = (phase - 1) * widths
        for k in range(widths):
            at = before + k
            terms = ((first + at + widths, 1.0), (first + at, -1.0), (leave + at, 1.0), (join + at, -1.0))
            rows.add(iter(terms), 0.0)
        hub = [(leave + before + k, 1.0) for k in range(widths)]
        hub += [(join + before + k, -1.0) for k in range(widths)]
        rows.add(iter(hub), 0.0)
