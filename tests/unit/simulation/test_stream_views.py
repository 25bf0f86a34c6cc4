"""What an allocator is shown of a stream row by row, and what it may answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from slacktide.allocators.view import Decision, FleetView, Wanted
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, draw_stream
from slacktide.checks import check_allocator
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Allocation, Job, JobState, Phase, Reason
from slacktide.policies.view import View
from slacktide.simulation.fleet.run import run_events, simulate
from slacktide_papers.baselines.fifo import Fifo

UNIT = JobClass(Job(name="unit", work_gpu_hours=1.0, widths=(1, 2, 4)), arrivals_per_hour=1.0)
PHASED = JobClass(
    Job(name="phased", phases=(Phase(1.0), Phase(3.0, Amdahl(0.5))), restart_hours=0.25, widths=(1, 2)),
    arrivals_per_hour=1.0,
)
FLEET = Fleet((UNIT, PHASED))
STREAM = Stream(np.array([0.0, 0.5, 1.0]), np.array([0, 1, 0]), np.array([2.0, 2.0, 1.0]))


@dataclass(frozen=True, slots=True)
class ByArrival:
    """Share some GPUs out in the order of arrival, each job as wide as it may be; name only who changes."""

    gpus: int

    def decide(self, view: FleetView) -> dict[str, Allocation]:
        free, wanted = self.gpus, dict[str, Allocation]()
        for row in view.rows():
            width = row.allowed_width(free)
            free -= width
            if width != row.state.gpus:
                wanted[row.id] = Allocation(on_demand_gpus=width, reason=Reason("by-arrival"))
        return wanted


def test_an_allocator_on_rows_runs_and_keeps_the_contract() -> None:
    check_allocator(ByArrival(64), examples=8)
    run = simulate(STREAM, Fleet((UNIT, PHASED)), ByArrival(4))
    # The first has all four and is done at 0.5; the second then takes two, and the third the other two.
    assert run.response_hours.tolist() == [0.5, 0.25 + 1.0 + 6.0 / Amdahl(0.5)(2), 0.5]
    assert run.peak_gpus == 4


def test_rows_and_columns_lead_to_the_same_run() -> None:
    one = JobClass(Job(name="one", work_gpu_hours=1.0, widths=(2,)), arrivals_per_hour=2.0)
    stream, fleet = draw_stream((one,), 200, seed=3), Fleet((one,), budget_gpus=4.0)
    rows, columns = run_events(stream, fleet, ByArrival(4)), run_events(stream, fleet, Fifo(4, gpus=2))
    assert np.array_equal(rows.response_hours, columns.response_hours)


@dataclass
class Reader:
    """Gives every job one GPU and keeps the rows that it was shown."""

    rows: ClassVar[list[list[View]]]
    needs_sizes: bool = False

    def decide(self, view: FleetView) -> Decision:
        self.rows.append(list(view.rows()))
        return Wanted(np.ones(len(view.jobs.ids), dtype=np.int64))


@pytest.mark.parametrize("needs_sizes", [False, True])
def test_a_row_is_a_view_of_its_job(needs_sizes: bool) -> None:
    Reader.rows = []
    run_events(STREAM, FLEET, Reader(needs_sizes))
    first, second, _ = Reader.rows[2]
    assert [first.id, second.id] == ["job-0", "job-1"]
    assert (first.now_hours, second.now_hours, second.next_hours) == (1.0, 0.5, math.inf)
    assert first.state == JobState(0, 1, progress_gpu_hours=1.0, checkpointed_gpu_hours=1.0)
    assert second.state.progress_gpu_hours == 0.25
    assert Reader.rows[1][1].state.gpus == 0
    assert second.job.work_gpu_hours == (8.0 if needs_sizes else 4.0)
    assert second.job.parts[1] == Phase(6.0 if needs_sizes else 3.0, Amdahl(0.5))
    assert second.job.widths == (1, 2)
    assert second.pools == ()


@dataclass(frozen=True)
class Says:
    """Answers the same as long as somebody is present."""

    decision: Decision

    def decide(self, view: FleetView) -> Decision:
        return self.decision if len(view.jobs.ids) else {}


@pytest.mark.parametrize(
    ("decision", "words"),
    [
        ({"job-0": Allocation(spot_gpus=1)}, "spot_gpus must be 0 .* got 1"),
        (Wanted(np.array([1]), spot_gpus=np.array([2])), "spot_gpus must be 0 .* got 2"),
        ({"job-0": Allocation(on_demand_gpus=1, pool="b")}, "pool must be 'cluster', .* got 'b'"),
        ({"job-7": Allocation(on_demand_gpus=1)}, "name jobs that are present, .* got 'job-7'"),
        ({"0": Allocation(on_demand_gpus=1)}, "name jobs that are present, .* got '0'"),
        ({"job-0": Allocation(on_demand_gpus=3)}, "widths that class 'unit' may have, got 3"),
        (Wanted(np.array([1, 1])), "a width to each of 1 jobs, got 2"),
    ],
    ids=["spot", "spot column", "pool", "absent", "unnamed", "width", "length"],
)
def test_an_answer_that_a_stream_cannot_follow_is_refused(decision: Decision, words: str) -> None:
    with pytest.raises(InputError, match=words):
        run_events(STREAM, FLEET, Says(decision))


def test_a_job_may_name_the_cluster_and_spot_of_nobody() -> None:
    one = Stream(np.array([0.0]), np.array([0]), np.array([1.0]))
    for decision in (
        {"job-0": Allocation(on_demand_gpus=2, pool="cluster")},
        Wanted(np.array([2]), spot_gpus=np.array([0])),
    ):
        assert run_events(one, FLEET, Says(decision)).response_hours.tolist() == [0.5]
