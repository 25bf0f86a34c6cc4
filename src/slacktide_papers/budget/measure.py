"""One point: a policy on a stream, compared with the bound for that stream."""

from __future__ import annotations

from collections.abc import Iterable

from slacktide.allocators.streams.fixed_width import FixedWidth
from slacktide.budget.widths import ClassPlan, FleetPlan, optimal_widths
from slacktide.results.stream import StreamRun
from slacktide.simulation.fleet.run import simulate
from slacktide_papers.budget.cases import Case
from slacktide_papers.budget.families import Family, Try
from slacktide_papers.budget.rows import Check, Point, Width


def measure(case: Case, experiment: str, family: Family) -> list[Point]:
    """Run a kind of policy at all its settings; of each group the point nearest the bound is kept."""
    return [best_of(case, experiment, family.series, group) for group in family.groups]


def best_of(case: Case, experiment: str, series: str, group: Iterable[Try]) -> Point:
    """Run a group of tries and keep the point nearest the bound."""
    return min((run_one(case, experiment, series, one) for one in group), key=lambda point: point.over_bound)


def run_one(case: Case, experiment: str, series: str, one: Try) -> Point:
    """Run one policy at one setting."""
    run = simulate(case.stream, case.fleet, one.policy)
    bound, bill = case.bound_hours(run.average_gpus), run.bill
    return Point(
        experiment=experiment,
        panel=case.name,
        machines=case.machines.name,
        series=series,
        knob=one.knob,
        asked_gpus=one.asked_gpus,
        average_gpus=run.average_gpus,
        load_multiple=run.average_gpus / case.load_gpus,
        mean_hours=run.mean_response_hours,
        p95_hours=run.responses.p95_hours,
        bound_hours=bound,
        over_bound=run.mean_response_hours / bound,
        restart_share=bill.share(bill.restart_gpu_hours),
        idle_share=bill.share(bill.idle_gpu_hours),
        fragmentation_share=bill.share(bill.fragmentation_gpu_hours),
        resizes=run.resizes,
        peak_gpus=run.peak_gpus,
        jobs=run.responses.jobs,
    )


def widths_along(case: Case, budgets: list[float]) -> list[Width]:
    """Return the optimum of each class along the budget, among real and among whole widths."""
    found = []
    for budget in budgets:
        real, whole = (optimal_widths(case.classes, budget, integer=integer) for integer in (False, True))
        found += [
            Width(
                case.name, budget, one.name, _mean_width(narrow), _mean_width(wide),
                real.mean_response_hours, whole.mean_response_hours,
            )
            for one, narrow, wide in zip(case.classes, real.classes, whole.classes, strict=True)
        ]  # fmt: skip
    return found


def _mean_width(plan: ClassPlan) -> float:
    return sum(path.share * path.widths[0] for path in plan.paths)


def check(case: Case, budget_gpus: float) -> Check:
    """Compare the formula with a simulation of the widths that it gives."""
    plan = optimal_widths(case.classes, budget_gpus)
    return checked_run(case, plan, simulate(case.stream, case.fleet, FixedWidth(budget_gpus)))


def checked_run(case: Case, plan: FleetPlan, run: StreamRun) -> Check:
    """Write a plan and a run of it side by side."""
    return Check(
        panel=case.name,
        budget_gpus=plan.budget_gpus,
        formula_hours=plan.mean_response_hours,
        simulated_hours=run.mean_response_hours,
        error_hours=float(run.response_hours.std()) / len(run.stream) ** 0.5,
        formula_gpus=plan.average_gpus,
        simulated_gpus=run.average_gpus,
        over_bound=run.mean_response_hours / case.bound_hours(run.average_gpus),
        jobs=len(run.stream),
    )
