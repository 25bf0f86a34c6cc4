"""The stream simulator in its forms: compiled = plain source; all at once = event by event."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.allocators.view import AnyAllocator, needs_market
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, draw_stream, realised_classes
from slacktide.budget.width_plan import one_widths
from slacktide.budget.widths import least_budget_gpus, optimal_widths
from slacktide.core.register import Spec
from slacktide.core.speedup import Amdahl, Linear, Power, Table
from slacktide.core.types import Job, Phase
from slacktide.results.stream import StreamRun
from slacktide.simulation.fleet.run import RunOptions, run_events, simulate

CLASSES = (
    JobClass(Job(name="amdahl", work_gpu_hours=2.0, speedup=Amdahl(0.9)), arrivals_per_hour=5.0),
    JobClass(
        Job(
            name="phases",
            phases=(Phase(0.5, Power(0.5)), Phase(2.0, Linear(0.9, 0.1)), Phase(1.0, Amdahl(0.5))),
            restart_hours=0.05,
            widths=tuple(range(1, 17)),
        ),
        arrivals_per_hour=3.0,
    ),
    JobClass(
        Job(
            name="table",
            work_gpu_hours=3.0,
            speedup=Table.of({1: 1.0, 2: 1.8, 4: 3.0, 8: 4.5}),
            widths=(1, 2, 4, 8),
            restart_hours=0.02,
        ),
        arrivals_per_hour=4.0,
    ),
)
POLICIES: dict[str, Spec] = {
    **{name: name for name in allocators if not needs_market(allocators.make(name))},
    "fifo, small": {"fifo": {"cluster_gpus": 45, "gpus": 2}},
    "srpt, small": {"srpt": {"cluster_gpus": 45, "gpus": 2}},
    "equi, small": {"equi": {"cluster_gpus": 45}},
    "band in rounds": {"efficiency-band": {"round_hours": 0.2}},
}


def make(spec: Spec) -> AnyAllocator:
    return allocators.make(spec)


def same(one: StreamRun, other: StreamRun, tolerance: float = 0.0) -> None:
    """Check that two runs are the same but for rounding."""
    np.testing.assert_allclose(one.response_hours, other.response_hours, rtol=tolerance, atol=tolerance)
    for left, right in ((one.bill, other.bill),):
        for name in ("gpu_hours", "busy_gpu_hours", "restart_gpu_hours", "idle_gpu_hours"):
            assert getattr(left, name) == pytest.approx(getattr(right, name), rel=tolerance, abs=tolerance)
    assert (one.peak_gpus, one.resizes) == (other.peak_gpus, other.resizes)
    assert one.end_hours == pytest.approx(other.end_hours, rel=tolerance)


@pytest.mark.parametrize("spec", POLICIES.values(), ids=POLICIES)
def test_the_compiled_run_is_the_plain_one(spec: Spec) -> None:
    stream = draw_stream(CLASSES, 150, seed=3)
    fleet = Fleet(CLASSES, 60.0, node_gpus=4, provisioning_hours=0.1, idle_grace_hours=0.2)
    same(
        run_events(stream, fleet, make(spec)),
        run_events(stream, fleet, make(spec), RunOptions(plain=True)),
        1e-12,
    )


@pytest.mark.parametrize("arrivals", ["poisson", "bursty"])
@pytest.mark.parametrize("spec", ["fixed-width", {"one-width": {"gpus": 3}}], ids=["fixed", "one"])
def test_all_at_once_is_event_by_event(spec: Spec, arrivals: str) -> None:
    stream = draw_stream(CLASSES, 3000, arrivals=arrivals, sizes="lognormal", seed=4)
    fleet = Fleet(CLASSES, 61.7)
    same(simulate(stream, fleet, spec), run_events(stream, fleet, make(spec)), 1e-9)


def test_one_width_simulated_is_its_formula() -> None:
    """Over the very jobs that came, to the last digits: response and GPUs, starts included."""
    stream = draw_stream(CLASSES, 3000, arrivals="bursty", sizes="pareto", seed=5)
    came = tuple(one for one in realised_classes(CLASSES, stream) if one is not None)
    formula = one_widths(came)
    for at, gpus in ((0, 1), (3, 4), (11, 12)):
        run = simulate(stream, Fleet(CLASSES), {"one-width": {"gpus": gpus}})
        assert formula.widths[at] == gpus
        assert run.mean_response_hours == pytest.approx(formula.mean_response_hours[at], rel=1e-12)
        assert run.average_gpus == pytest.approx(formula.average_gpus[at], rel=1e-12)
        assert run.bill.restart_gpu_hours > 0


def test_fixed_widths_simulated_are_their_formula() -> None:
    """Where all jobs of a class are alike, but for the one job by which a mix may be off."""
    stream = draw_stream(CLASSES, 3000, arrivals="bursty", sizes="fixed", seed=5)
    came = tuple(one for one in realised_classes(CLASSES, stream) if one is not None)
    least = least_budget_gpus(came)
    for budget in (1.1 * least, 1.6 * least, 4.0 * least):
        plan = optimal_widths(came, budget)
        run = simulate(stream, Fleet(came, budget), "fixed-width")
        assert run.mean_response_hours == pytest.approx(plan.mean_response_hours, rel=1e-3)
        assert run.average_gpus == pytest.approx(plan.average_gpus, rel=1e-3)


def test_who_leaves_as_another_comes_makes_room() -> None:
    one = JobClass(Job(name="one", work_gpu_hours=1.0, widths=(1,)), arrivals_per_hour=1.0)
    stream = Stream(np.arange(5.0), np.zeros(5, dtype=np.int64), np.ones(5))
    fleet = Fleet((one,))
    runs = [simulate(stream, fleet, "one-width"), run_events(stream, fleet, make("one-width"))]
    assert [run.peak_gpus for run in runs] == [1, 1]
