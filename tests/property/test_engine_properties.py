"""What the engine pays is what the back-test pays, whenever it looks; bill, audit and a third way agree.

And what it leaves in the journal tells the same from any snapshot on.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from campaigns.lives.alone import Driven, lanes, looks, requests
from campaigns.lives.owed import owed
from slacktide.engine.bills.bill import audit
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import Event
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import keep, present_form, read_world
from slacktide.market.base import Market
from slacktide.physics.ledger import bill
from slacktide.simulation import plain
from slacktide.simulation.policy_runs import setting_for
from tests.parts_of_effort import examples


@given(lane=lanes(), moments=looks())
@settings(deadline=None, max_examples=examples(150))
def test_an_engine_that_looks_at_any_moments_is_the_back_test(lane: JobContext, moments: list[float]) -> None:
    setting = setting_for(Market((lane.pool,)), lane.pool, None)
    told = plain.run(lane.job, lane.pool, lane.policy, start=0, setting=setting)
    driven = Driven(lane, moments)
    track, paid = driven.track, bill(driven.stretches)
    assert track.ended is not None
    assert track.ended.finish_hours == pytest.approx(told.finish_hours, abs=1e-8)
    assert track.progress.state.exhausted == told.slots[-1].after.exhausted
    assert paid.cost_usd == pytest.approx(told.cost_usd, abs=1e-6)
    assert track.money.bill == paid
    assert paid.spot_gpu_hours == pytest.approx(told.spot_gpu_hours, abs=1e-6)
    assert track.holding.preemptions == told.preemptions
    checked = audit(track, lane, driven.store.read())
    assert checked.clean, checked
    assert checked.cost_usd == pytest.approx(told.cost_usd, abs=1e-6)


@given(lane=lanes(), moments=looks(), asked=requests)
@settings(deadline=None, max_examples=examples(150))
def test_bill_audit_and_recount_agree(
    lane: JobContext, moments: list[float], asked: dict[int, Event]
) -> None:
    driven = Driven(lane, moments, asked)
    track, stretches = driven.track, driven.stretches
    assert track.ended is not None
    checked = audit(track, lane, driven.store.read())
    assert checked.clean, checked
    assert track.progress.state.cost_usd == pytest.approx(track.money.bill.cost_usd, abs=1e-9)
    assert checked.cost_usd == pytest.approx(track.money.bill.cost_usd, abs=1e-9)
    counted = owed(stretches, {"job": lane})
    assert (counted["job"].usd if counted else 0.0) == pytest.approx(track.money.bill.cost_usd, abs=1e-9)
    if lane.job.max_cost_usd is not None:
        assert track.money.bill.cost_usd <= lane.job.max_cost_usd + 1e-6


@given(lane=lanes(), moments=looks(), asked=requests)
@settings(deadline=None, max_examples=30)
def test_a_snapshot_at_any_cut_and_the_rest_tell_the_same_world(
    lane: JobContext, moments: list[float], asked: dict[int, Event]
) -> None:
    driven = Driven(lane, moments, asked)
    world = JournalState()
    for record in driven.store.read():
        world.apply(record)
        keep(driven.store, world)
        found = driven.store.latest(present_form())
        assert found is not None
        assert found.seq == record.seq
        assert repr(read_world(driven.store)) == repr(driven.engine.world)  # by repr, because 0.0 equals -0.0
