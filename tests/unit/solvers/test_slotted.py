"""Holdings and pauses: every pair once, every pause that can arise, and the moves of the physics."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slacktide.core.types import Job, JobState
from slacktide.physics.progress import pause_after
from slacktide.solvers.slotted import (
    RESTART,
    SHRINK,
    STAY,
    Slotted,
    kind_of_move,
    list_holdings,
    list_pauses,
    pause_ahead,
    slotted,
)
from slacktide.solvers.window.frame import pause_levels

gpus = st.integers(0, 3)
jobs = st.builds(
    lambda restart, share, slot: slotted(
        Job(
            work_gpu_hours=9.0, deadline_hours=20.0, widths=(1, 2, 3, 4, 5, 6), value_usd=9.0,
            restart_hours=restart, shrink_hours=share * restart,
        ),
        slot,
    ),
    restart=st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 1.0, 2.5]),
    share=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    slot=st.sampled_from([0.1, 0.25, 0.5, 1.0]),
)  # fmt: skip


@given(jobs, gpus, gpus, gpus, gpus, st.floats(0.0, 3.0))
def test_moves_cost_what_the_physics_says(
    job: Slotted, held_spot: int, held_on_demand: int, spot: int, on_demand: int, left: float
) -> None:
    if spot + on_demand > 0:
        kind = kind_of_move(held_spot, held_on_demand, spot, on_demand)
        state = JobState(held_spot, held_on_demand, pause_hours=left)
        assert pause_ahead(job, kind, left) == pause_after(job.terms, state, spot, on_demand, state.pool)


@given(jobs)
def test_whatever_is_done_leads_to_a_pause_of_the_list(job: Slotted) -> None:
    found = list_pauses(job)
    assert found.left_hours[0] == found.ahead_hours[0] == 0.0
    for left, hours in enumerate(found.left_hours):
        stay = found.stay[left]
        for kind, ahead in ((STAY, stay), (SHRINK, found.shrink[stay]), (RESTART, found.restart)):
            wanted = pause_ahead(job, kind, float(hours))
            rest = max(0.0, wanted - job.slot_hours)
            np.testing.assert_allclose(found.ahead_hours[ahead], wanted, atol=1e-8)
            np.testing.assert_allclose(found.left_hours[found.after[ahead]], rest, atol=1e-8)


@given(jobs)
def test_a_window_that_begins_without_a_pause_has_the_same_pauses(job: Slotted) -> None:
    hours, _ = pause_levels(job, JobState(), 100)
    levels = np.sort(hours[:-1, STAY])
    np.testing.assert_allclose(levels, list_pauses(job).left_hours, atol=1e-8)


@given(st.sets(st.integers(1, 9)))
def test_every_pair_of_a_total_is_there_once(widths: set[int]) -> None:
    totals = (0, *sorted(widths))
    pairs = list(zip(*(part.tolist() for part in list_holdings(totals)), strict=True))
    assert pairs[0] == (0, 0)
    assert len(set(pairs)) == len(pairs) == sum(total + 1 for total in totals)
    assert {spot + on_demand for spot, on_demand in pairs} == set(totals)
    assert pairs == sorted(pairs, key=lambda pair: (sum(pair), pair))
