"""Runs as columns are the runs one by one."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.core.types import Job
from slacktide.results.run import AllRuns, Runs, column

JOB = Job(
    work_gpu_hours=10, deadline_hours=8, widths=(1, 2), value_usd=50.0, worthless_after_hours=12.0
)  # fmt: skip
TABLE = np.array([[10.0, 7.0, 5.0, 1.0, 2.0, 0.5, 14.0], [20.0, 10.0, 3.0, 4.0, 0.0, 0.0, 20.0]])


def runs(policy: str = "p") -> Runs:
    return Runs(JOB, policy, "pool", [3, 9], TABLE)


@pytest.mark.parametrize(
    "name",
    [
        "cost_usd",
        "finish_hours",
        "utility_usd",
        "on_time",
        "spot_gpu_hours",
        "on_demand_gpu_hours",
        "preemptions",
    ],
)
def test_columns_say_what_each_run_says(name: str) -> None:
    assert column(runs(), name).tolist() == column(list(runs()), name).tolist()


def test_a_run_is_made_when_it_is_read() -> None:
    early, late = runs()
    assert (early.start_slot, early.on_time, early.utility_usd) == (3, True, 40.0)
    assert (late.start_slot, late.on_time, late.utility_usd) == (9, False, 5.0)
    assert runs()[1:][0] == late == runs()[-1]


def test_parts_stand_behind_one_another() -> None:
    every = AllRuns([runs("a"), [], runs("b")])
    assert len(every) == 4
    assert [run.policy for run in every] == ["a", "a", "b", "b"]
    assert every[-1] == every[3]
    with pytest.raises(IndexError):
        every[4]
