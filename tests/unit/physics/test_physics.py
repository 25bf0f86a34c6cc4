"""What a stretch does to work, worked out by hand; money stands beside it where it ends a stretch."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from slacktide.core.quotes import Quote
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Billing, Job, JobState
from slacktide.physics import ledger
from slacktide.physics import progress as physics
from slacktide.physics.tariff import Meter, Tariff

SPOT_2 = Quote(1.0, 4.0, 2)


class Case(NamedTuple):
    """A job, how it pays, and the most it may cost."""

    terms: physics.Terms
    tariff: Tariff
    max_cost_usd: float


def case(
    *,
    slot: float = 1.0,
    restart: float = 0.0,
    shrink: float | None = None,
    checkpoint: float = 0.0,
    widths: tuple[int, ...] = (1, 2, 3, 4),
    work: float = 100.0,
    max_cost: float = math.inf,
    billing: Billing = "second",
    move_hours: float = 0.0,
) -> Case:
    job = Job(
        work_gpu_hours=work,
        deadline_hours=50.0,
        widths=widths,
        restart_hours=restart,
        shrink_hours=shrink,
        checkpoint_hours=checkpoint,
    )
    return Case(
        physics.terms(job, move_hours=np.full(2, move_hours)), Tariff(billing == "slot", slot), max_cost
    )


def live(
    case: Case, state: JobState, slot: int, spot: int, on_demand: int, pool: int = 0
) -> tuple[JobState, physics.Passed]:
    """Live through one slot of a market that offers two spot GPUs."""
    hours = case.tariff.slot_hours
    lived = ledger.live(
        case.terms, case.tariff, case.max_cost_usd, state, Meter(), slot, slot * hours, hours, SPOT_2, pool,
        spot, on_demand,
    )  # fmt: skip
    return lived.state, lived.passed


def terms(**words: object) -> physics.Terms:
    return case(**words).terms  # type: ignore[arg-type]


def test_first_start_serves_its_restart_and_pays_for_it() -> None:
    state, passed = live(case(restart=0.25), JobState(), 0, 2, 1, 0)
    assert state.progress_gpu_hours == pytest.approx(3 * 0.75)
    assert state.cost_usd == pytest.approx(2 * 1.0 + 1 * 4.0)
    assert (passed.pause_hours, passed.productive_hours, passed.hours) == (0.25, 0.75, 1.0)
    assert state.pause_hours == 0.0


def test_restart_longer_than_a_slot_carries_over() -> None:
    t = case(restart=2.5)
    state = JobState()
    progress = []
    for slot in range(4):
        state, _ = live(t, state, slot, 2, 0, 0)
        progress.append(state.progress_gpu_hours)
    assert progress == [0.0, 0.0, pytest.approx(1.0), pytest.approx(3.0)]
    assert state.cost_usd == pytest.approx(4 * 2.0)


def test_growing_during_a_restart_begins_it_again() -> None:
    t = case(restart=2.0)
    state, _ = live(t, JobState(), 0, 1, 0, 0)
    assert state.pause_hours == 1.0
    state, _ = live(t, state, 1, 2, 0, 0)
    assert state.pause_hours == 1.0
    assert state.progress_gpu_hours == 0.0


def test_shrinking_pauses_for_the_longer_of_what_is_left_and_its_own_pause() -> None:
    t = case(restart=2.0, shrink=0.5)
    running = JobState(spot_gpus=2, on_demand_gpus=1)
    assert physics.pause_after(t.terms, running, 2, 0, 0) == 0.5
    assert physics.pause_after(t.terms, running._replace(pause_hours=1.5), 2, 0, 0) == 1.5
    assert physics.pause_after(t.terms, running, 2, 1, 0) == 0.0
    assert physics.pause_after(t.terms, running, 0, 0, 0) == 0.0


def test_on_demand_in_place_of_spot_is_an_added_worker() -> None:
    t = case(restart=0.5, shrink=0.1)
    assert physics.pause_after(t.terms, JobState(spot_gpus=2), 1, 1, 0) == 0.5


def test_forced_loss_takes_back_the_work_since_the_checkpoint() -> None:
    t = case(checkpoint=0.4, shrink=0.0)
    state, _ = live(t, JobState(), 0, 2, 1, 0)
    assert state.progress_gpu_hours == pytest.approx(3.0)
    assert state.checkpointed_gpu_hours == pytest.approx(3 * 0.8)
    left = physics.lose(t.terms, state, 1)
    assert (left.spot_gpus, left.on_demand_gpus) == (1, 1)
    assert left.progress_gpu_hours == pytest.approx(2.4)
    assert left.since_checkpoint_hours == 0.0


def test_checkpoints_count_productive_hours_over_slots() -> None:
    t = case(checkpoint=1.5)
    state = JobState()
    safe = []
    for slot in range(4):
        state, _ = live(t, state, slot, 2, 0, 0)
        safe.append(state.checkpointed_gpu_hours)
    assert safe == [pytest.approx(0.0), pytest.approx(3.0), pytest.approx(6.0), pytest.approx(6.0)]


def test_planned_change_checkpoints_first() -> None:
    t = case(checkpoint=5.0)
    state, _ = live(t, JobState(), 0, 2, 0, 0)
    assert state.checkpointed_gpu_hours == 0.0
    state, _ = live(t, state, 1, 1, 0, 0)
    assert state.checkpointed_gpu_hours == pytest.approx(2.0)
    state, _ = live(t, state, 2, 0, 0, 0)
    assert physics.lose(t.terms, state, 0).progress_gpu_hours == pytest.approx(3.0)


def test_without_checkpoint_interval_a_loss_costs_no_work() -> None:
    t = case()
    state, _ = live(t, JobState(), 0, 2, 0, 0)
    assert physics.lose(t.terms, state, 0).progress_gpu_hours == pytest.approx(2.0)


def test_job_pays_only_until_it_finishes() -> None:
    state, passed = live(case(work=1.5, restart=0.1), JobState(), 3, 2, 0, 0)
    assert state.finish_hours == pytest.approx(3 + 0.1 + 0.75)
    assert state.cost_usd == pytest.approx(2 * 0.85)
    assert passed.hours == pytest.approx(0.85)
    assert state.gpus == 0
    assert state.progress_gpu_hours == 1.5


def test_whole_slot_billing_pays_the_slot_in_which_it_finishes() -> None:
    state, _ = live(case(work=1.5, billing="slot"), JobState(), 0, 2, 0, 0)
    assert state.cost_usd == pytest.approx(2.0)
    assert state.finish_hours == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("wish", "widths", "got"),
    [
        ((5, 0), (1, 2, 3, 4), (2, 0)),
        ((2, 9), (1, 2, 3, 4), (2, 2)),
        ((-1, -1), (1, 2, 3, 4), (0, 0)),
        ((1, 2), (1, 2, 4), (1, 1)),
        ((2, 0), (4,), (0, 0)),
        ((2, 1), (2,), (2, 0)),
        ((2, 1), (1,), (1, 0)),
    ],
)
def test_wish_is_cut_to_what_can_be_had(
    wish: tuple[int, int], widths: tuple[int, ...], got: tuple[int, int]
) -> None:
    assert physics.cut(terms(widths=widths), SPOT_2, *wish) == got


def test_job_stops_at_the_moment_its_money_ends() -> None:
    state, passed = live(case(max_cost=1.0, restart=0.1), JobState(), 0, 2, 0, 0)
    assert state.exhausted
    assert state.cost_usd == pytest.approx(1.0)
    assert passed.hours == pytest.approx(0.5)
    assert state.progress_gpu_hours == pytest.approx(2 * 0.4)
    assert state.finish_hours == math.inf
    assert state.ended


def test_job_that_ends_exactly_on_its_money_finishes() -> None:
    state, _ = live(case(work=1.0, max_cost=1.0), JobState(), 0, 2, 0, 0)
    assert not state.exhausted
    assert state.finish_hours == pytest.approx(0.5)


def test_whole_slot_that_cannot_be_paid_is_not_begun() -> None:
    state, _ = live(case(max_cost=1.0, billing="slot"), JobState(), 0, 2, 0, 0)
    assert state.exhausted
    assert state.cost_usd == 0.0
    assert state.progress_gpu_hours == 0.0


def test_moving_to_another_pool_is_a_restart_and_carries_the_checkpoint() -> None:
    t = case(restart=0.2, move_hours=0.3)
    state, _ = live(t, JobState(), 0, 2, 0, 0)
    assert state.cost_usd == pytest.approx(2.0)
    state, passed = live(t, state, 1, 2, 0, 1)
    assert passed.pause_hours == pytest.approx(0.5)
    assert state.cost_usd == pytest.approx(2.0 + 2.0)
    assert state.pool == 1


def test_idle_slot_costs_and_does_nothing() -> None:
    state, passed = live(case(), JobState(progress_gpu_hours=3.0), 0, 0, 0)
    assert state.progress_gpu_hours == 3.0
    assert state.cost_usd == 0.0
    assert (passed.pause_hours, passed.productive_hours) == (0.0, 0.0)


def test_speedup_sets_the_pace() -> None:
    job = Job(work_gpu_hours=9, deadline_hours=9, widths=(1, 2), speedup=Amdahl(0.5))
    state, _ = physics.pass_time(physics.terms(job), JobState(), 0.0, 1.0, 0, 2, 0)
    assert state.progress_gpu_hours == pytest.approx(4 / 3)
