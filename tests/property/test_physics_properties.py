"""Laws of the physics and the guard that hold for any job, market and wish (Hypothesis)."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.checks.cases import Case, random_case
from slacktide.core.types import Allocation, JobState, Reason
from slacktide.physics import progress as physics
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.view import Policy, View
from slacktide.simulation import plain


@st.composite
def any_case(draw: st.DrawFn, hard: bool | None = None) -> Case:
    """A random job and market, grown from a drawn seed."""
    return random_case(np.random.default_rng(draw(st.integers(0, 2**32))), hard=hard)


class Scripted:
    """Asks for whatever the script says, allowed or not."""

    def __init__(self, script: list[tuple[int, int]]) -> None:
        self.script = script

    def decide(self, view: View) -> Allocation:
        spot, on_demand = self.script[view.slot % len(self.script)]
        return Allocation(spot, on_demand, reason=Reason("script"))


scripts = st.lists(st.tuples(st.integers(-1, 10), st.integers(-1, 10)), min_size=1, max_size=12).map(Scripted)


@given(any_case(), scripts)
def test_slots_add_up_to_the_run(case: Case, policy: Policy) -> None:
    run = plain.run(case.job, case.pool, policy)
    assert math.isclose(run.cost_usd, sum(slot.cost_usd for slot in run.slots), abs_tol=1e-9)
    gained = sum(
        slot.lived.stretch.productive_hours * case.job.speedup(slot.lived.stretch.gpus) for slot in run.slots
    )
    assert math.isclose(gained - run.lost_gpu_hours, case.job.work_gpu_hours, rel_tol=1e-6)


@given(any_case(), scripts)
def test_nothing_impossible_is_held(case: Case, policy: Policy) -> None:
    for record in plain.run(case.job, case.pool, policy).slots:
        happened = record.lived.stretch
        assert 0 <= happened.spot_gpus <= record.quote.spot_gpus
        assert happened.on_demand_gpus >= 0
        assert happened.spot_gpus + happened.on_demand_gpus in (0, *case.job.widths)
        assert 0 <= happened.pause_hours + happened.productive_hours <= case.pool.slot_hours + 1e-9
        assert record.after.checkpointed_gpu_hours <= record.after.progress_gpu_hours + 1e-9
        assert 0 <= record.after.pause_hours <= case.job.restart_hours


@given(any_case(), scripts)
def test_checkpoints_only_help(case: Case, policy: Policy) -> None:
    free = dataclasses.replace(case.job, checkpoint_hours=0.0)
    with_losses, without = plain.run(case.job, case.pool, policy), plain.run(free, case.pool, policy)
    assert without.finish_hours <= with_losses.finish_hours + 1e-9


@given(any_case(), scripts, st.floats(0.1, 0.9))
def test_greatest_cost_is_never_passed(case: Case, policy: Policy, share: float) -> None:
    unlimited = plain.run(case.job, case.pool, policy)
    if unlimited.cost_usd <= 0:
        return
    limit = share * unlimited.cost_usd
    run = plain.run(dataclasses.replace(case.job, max_cost_usd=limit), case.pool, policy)
    assert run.cost_usd <= limit + 1e-9
    assert not run.on_time
    assert run.slots[-1].after.exhausted


@given(any_case(hard=True), scripts)
@settings(max_examples=300)
def test_guarded_policy_is_never_late_where_on_demand_is_in_time(case: Case, policy: Policy) -> None:
    terms = physics.terms(case.job)
    alone = physics.on_demand_finish(terms, JobState(), 0.0, terms.fastest)
    for inner in (policy, policies.make("maximal-spot"), policies.make("uniform-progress")):
        run = plain.run(case.job, case.pool, DeadlineGuard(inner))
        assert run.on_time or not case.job.on_time(alone)


@given(any_case())
def test_maximal_spot_needs_no_guard(case: Case) -> None:
    bare = policies.make("maximal-spot")
    one, other = (plain.run(case.job, case.pool, policy) for policy in (bare, DeadlineGuard(bare)))
    assert one.cost_usd == other.cost_usd
