"""How fast the optimal widths on a budget are found, compared with a linear programme, and how exactly."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.timing import best
from slacktide.budget.classes import JobClass
from slacktide.budget.frontier import frontier
from slacktide.budget.whole_widths import choices_of
from slacktide.budget.widths import FleetPlan, least_budget_gpus, optimal_widths
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Job, Phase
from tests.oracles import budget_widths as reference

WIDTHS = tuple(range(1, 65))
MEASURED = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
BUDGET_TIMES = (1.05, 1.5, 3.0)
"""Budgets, as multiples of the least feasible one."""
DATA = Path(os.environ.get("SLACKTIDE_DATA") or Path(__file__).parents[2] / "shared" / "data")


def speedup(rng: np.random.Generator) -> Speedup:
    """Draw a speedup: each of the four kinds as often; tables are noisy and not concave."""
    kind = rng.integers(4)
    if kind == 0:
        return Amdahl(float(rng.uniform(0.5, 0.999)))
    if kind == 1:
        return Power(float(rng.uniform(0.3, 0.95)))
    if kind == 2:
        alpha = float(rng.uniform(0.2, 0.9))
        return Linear(alpha, 1.0 - alpha)
    law = Amdahl(float(rng.uniform(0.8, 0.99)))
    noise = rng.uniform(0.9, 1.1, len(MEASURED))
    return Table(tuple((float(k), law(k) * float(error)) for k, error in zip(MEASURED, noise, strict=True)))


def single(count: int, seed: int = 0) -> list[JobClass]:
    """Draw classes of one phase."""
    rng = np.random.default_rng(seed)
    return [
        JobClass(
            arrivals_per_hour=float(rng.uniform(0.1, 5.0)),
            job=Job(
                name=f"class {index}",
                work_gpu_hours=float(rng.lognormal()),
                speedup=speedup(rng),
                widths=WIDTHS,
            ),
        )
        for index in range(count)
    ]


def phased(count: int, phases: int, seed: int = 0) -> list[JobClass]:
    """Draw classes whose phases scale differently and whose changes of width cost something."""
    rng = np.random.default_rng(seed)
    return [
        JobClass(
            arrivals_per_hour=float(rng.uniform(0.1, 5.0)),
            job=Job(
                name=f"class {index}",
                widths=WIDTHS,
                phases=tuple(Phase(float(rng.lognormal()), speedup(rng)) for _ in range(phases)),
                restart_hours=0.02,
            ),
        )
        for index in range(count)
    ]


def pollux() -> list[JobClass]:
    """Read the six applications of Pollux and Sia on AWS, or return none where the file is not."""
    path = DATA / "speedups" / "pollux-sia-time-to-target.csv"
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["hw"] == "aws"]
    alone_s = {row["app"]: float(row["time_to_target_s"]) for row in rows if row["n_gpus"] == "1"}
    return [
        JobClass(
            Job(
                name=app,
                work_gpu_hours=alone_s[app] / 3600.0,
                widths=WIDTHS,
                speedup=Table(
                    tuple(
                        (float(row["n_gpus"]), float(row["tta_speedup"])) for row in rows if row["app"] == app
                    )
                ),
            ),
            arrivals_per_hour=1.0,
        )
        for app in sorted(alone_s)
    ]


def gap(classes: Sequence[JobClass], plan: FleetPlan) -> float:
    """Return by which share a plan lies above the Lagrangian bound at its own price."""
    arrivals = sum(job_class.arrivals_per_hour for job_class in classes)
    price = plan.shadow_price_hours_per_gpu * arrivals
    bound = choices_of(classes).cheapest(1.0, price).cost(price) - price * plan.budget_gpus
    return plan.mean_response_hours * arrivals / bound - 1.0


def compare(
    name: str, classes: Sequence[JobClass], *, reference_classes: Sequence[JobClass], reference_name: str
) -> None:
    """Print the solver's time and gap, and the linear programme's time on classes it can do."""
    least = least_budget_gpus(classes)
    runs = [best(lambda b=least * times: optimal_widths(classes, b)) for times in BUDGET_TIMES]  # type: ignore[misc]
    slowest = max(seconds for seconds, _ in runs)
    print(f"{name}: {slowest:.3f} s at the slowest of {len(runs)} budgets")
    print(f"    gap to the Lagrangian bound:  {max(gap(classes, plan) for _, plan in runs):.1e} at most")
    budget = 1.5 * least_budget_gpus(reference_classes)
    mine, plan = best(lambda: optimal_widths(reference_classes, budget))
    programme = reference.build(reference_classes)
    other, found = best(lambda: programme.solve(budget), tries=1)
    apart = plan.mean_response_hours / found.mean_response_hours - 1.0
    print(
        f"    {reference_name}: HiGHS {other:.2f} s, this {mine:.3f} s: {other / mine:.0f} x, "
        f"apart by {apart:+.1e}"
    )


def main() -> None:
    """Print times next to the linear programme's for one phase, for many, and for measured speedups."""
    optimal_widths(phased(1, 2), 1e9)  # machine code is loaded or made outside the measurement
    many = single(1000)
    compare(
        "1,000 classes x 64 widths",
        many,
        reference_classes=many,
        reference_name="the same as a linear programme",
    )
    took, found = best(lambda: frontier(many), tries=1)
    print(f"    the whole frontier, {len(found):,} corners: {took:.2f} s")
    deep = phased(50, 100)
    # The whole network flow would have 950,000 variables: HiGHS gets one of 19,000.
    compare(
        "50 classes x 100 phases x 64 widths, restarts", deep,
        reference_classes=phased(5, 20, seed=1), reference_name="5 classes x 20 phases as a network flow",
    )  # fmt: skip
    took, found = best(lambda: frontier(deep[:5]), tries=1)
    print(f"    the whole frontier of 5 of them, {len(found):,} corners: {took:.2f} s")
    six = pollux()
    if six:
        compare(
            "6 measured applications",
            six,
            reference_classes=six,
            reference_name="the same as a linear programme",
        )
    else:
        print(f"6 measured applications: not at {DATA}; set SLACKTIDE_DATA")


if __name__ == "__main__":
    main()
