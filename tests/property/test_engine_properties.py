"""What the engine pays is what the back-test pays, whenever it looks; bill, audit and a third way agree.

And what it leaves in the journal tells the same from any snapshot on.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from campaigns.lives.alone import Driven, contexts, looks, requests
from campaigns.lives.owed import owed
from slacktide.engine.bills.audit import audit
from slacktide.engine.job.job_context import JobContext
from slacktide.journal.events import Event
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import keep, present_form, read_state
from slacktide.market.base import Market
from slacktide.physics.ledger import bill
from slacktide.simulation import plain
from slacktide.simulation.playback import Setting
from tests.parts_of_effort import examples


@given(context=contexts(), moments=looks())
@settings(deadline=None, max_examples=examples(150))
def test_an_engine_that_looks_at_any_moments_is_the_back_test(
    context: JobContext, moments: list[float]
) -> None:
    setting = Setting.on(Market((context.pool,)), context.pool)
    told = plain.run(context.job, context.pool, context.policy, start=0, setting=setting)
    driven = Driven(context, moments)
    record, paid = driven.record, bill(driven.stretches)
    assert record.ended is not None
    assert record.ended.finish_hours == pytest.approx(told.finish_hours, abs=1e-8)
    assert record.progress.state.exhausted == told.slots[-1].after.exhausted
    assert paid.cost_usd == pytest.approx(told.cost_usd, abs=1e-6)
    assert record.money.bill == paid
    assert paid.spot_gpu_hours == pytest.approx(told.spot_gpu_hours, abs=1e-6)
    assert record.holding.preemptions == told.preemptions
    checked = audit(record, context, driven.store.read())
    assert checked.clean, checked
    assert checked.cost_usd == pytest.approx(told.cost_usd, abs=1e-6)


@given(context=contexts(), moments=looks(), asked=requests)
@settings(deadline=None, max_examples=examples(150))
def test_bill_audit_and_recount_agree(
    context: JobContext, moments: list[float], asked: dict[int, Event]
) -> None:
    driven = Driven(context, moments, asked)
    record, stretches = driven.record, driven.stretches
    assert record.ended is not None
    checked = audit(record, context, driven.store.read())
    assert checked.clean, checked
    assert record.progress.state.cost_usd == pytest.approx(record.money.bill.cost_usd, abs=1e-9)
    assert checked.cost_usd == pytest.approx(record.money.bill.cost_usd, abs=1e-9)
    counted = owed(stretches, {"job": context})
    assert (counted["job"].usd if counted else 0.0) == pytest.approx(record.money.bill.cost_usd, abs=1e-9)
    if context.job.max_cost_usd is not None:
        assert record.money.bill.cost_usd <= context.job.max_cost_usd + 1e-6


@given(context=contexts(), moments=looks(), asked=requests)
@settings(deadline=None, max_examples=30)
def test_a_snapshot_at_any_cut_and_the_rest_tell_the_same_world(
    context: JobContext, moments: list[float], asked: dict[int, Event]
) -> None:
    driven = Driven(context, moments, asked)
    state = JournalState()
    for record in driven.store.read():
        state.apply(record)
        keep(driven.store, state)
        found = driven.store.latest(present_form())
        assert found is not None
        assert found.seq == record.seq
        assert repr(read_state(driven.store)) == repr(driven.engine.state)  # by repr, because 0.0 equals -0.0
