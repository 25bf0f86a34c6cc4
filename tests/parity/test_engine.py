"""What was back-tested is what runs: the engine on the replay back end takes the same decisions and cents."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from slacktide.backends.replay import Replay
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job
from slacktide.engine.bills.audit import audit
from slacktide.engine.bills.bill import bill, run_result, yardsticks
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Decided, Lived, Preempted, Submitted
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market, with_notice
from slacktide.market.source import open_market
from slacktide.policies.base import policies
from slacktide.results.run import CLAIRVOYANT, ON_DEMAND_ALONE, result_of
from slacktide.simulation import batch, plain
from slacktide.simulation.batch import run_many
from slacktide.simulation.plain import guarded
from slacktide.simulation.playback import Setting
from tests import build

JOBS = {
    "hard": Job(
        work_gpu_hours=20, deadline_hours=8, widths=(1, 2, 4), speedup=Amdahl(0.95), restart_hours=0.2,
        shrink_hours=0.1, checkpoint_hours=0.3,
    ),
    "soft": Job(
        work_gpu_hours=18, deadline_hours=5, widths=tuple(range(1, 5)), restart_hours=0.1, value_usd=90,
        worthless_after_hours=9,
    ),
    "poor": Job(
        work_gpu_hours=30, deadline_hours=10, widths=(1, 2, 3, 4), restart_hours=0.05, max_cost_usd=20,
    ),
    "whole slots": Job(
        work_gpu_hours=9, deadline_hours=6, widths=(1, 2, 4), restart_hours=0.7, billing="slot",
    ),
}  # fmt: skip


def market(seed: int) -> Market:
    return open_market(f"synthetic:volatile?seed={seed}&days=3&slot=30m&pools=2")


def with_stock_outs(where: Market, seed: int) -> Market:
    """Return a market that has on-demand GPUs for some hours, some of them for others, and then none."""
    rng = np.random.default_rng(seed)
    pools = []
    for pool in where.pools:
        stock = np.repeat(rng.choice([0, 0, 1, 3, 8, UNLIMITED_GPUS], len(pool)), 5)[: len(pool)]
        pools.append(dataclasses.replace(pool, on_demand_gpus=stock))
    return dataclasses.replace(where, pools=tuple(pools))


def submission(job: str, context: JobContext) -> Submitted:
    return build.submitted(
        job, policy=json.dumps("x"), slot_hours=context.slot_hours, start_slot=context.start_slot
    )


def run_engine(context: JobContext) -> tuple[MemoryStore, Engine]:
    store = MemoryStore()
    engine = Engine(store, Replay(), open_job=lambda _: context)
    engine.submit(submission("job", context))
    slot = 0
    while engine.state.active:
        engine.step(slot * context.slot_hours)
        slot += 1
    return store, engine


@pytest.mark.parametrize("stock_outs", [False, True])
@pytest.mark.parametrize("policy", sorted(policies))
@pytest.mark.parametrize("kind", sorted(JOBS))
def test_engine_on_replay_is_the_back_test(policy: str, kind: str, stock_outs: bool) -> None:
    job = JOBS[kind]
    for seed in (3, 4):
        where = with_stock_outs(market(seed), seed) if stock_outs else market(seed)
        pool, start = where.pools[1], 20
        context = make_context(job, where, pool, policies.make(policy), start)
        told = plain.run(job, pool, context.policy, start=start, setting=Setting.on(where, pool))
        store, engine = run_engine(context)
        events = [record.event for record in store.read()]
        decided = [event for event in events if isinstance(event, Decided)]
        lived = [event for event in events if isinstance(event, Lived)]
        assert len(decided) == len(lived) == len(told.slots)
        for mine, paid, theirs in zip(decided, lived, told.slots, strict=True):
            assert mine.state == theirs.before
            assert (mine.wanted_spot_gpus, mine.wanted_on_demand_gpus) == theirs.wanted[:2]
            assert (mine.spot_gpus, mine.on_demand_gpus) == (theirs.spot_gpus, theirs.on_demand_gpus)
            assert mine.why == theirs.wanted.reason.rule
            assert paid.state == theirs.after
            assert paid.priced.charge == theirs.lived.charge
        job_record = engine.state.jobs["job"]
        assert job_record.progress.state.cost_usd == told.cost_usd
        assert sum(isinstance(event, Preempted) for event in events) == told.preemptions
        assert job_record.progress.lost_gpu_hours == pytest.approx(told.lost_gpu_hours)
        assert job_record.ended is not None
        assert job_record.ended.finish_hours == told.finish_hours
        checked = audit(job_record, context, store.read())
        assert checked.clean, checked
        assert checked.cost_usd == pytest.approx(told.cost_usd, abs=1e-9)
        shown, expected = run_result(events, job, pool, ""), result_of(told, job, pool)
        assert shown.decisions == expected.decisions, "what reports read is the same to the last bit"
        assert shown.restarts == expected.restarts
        assert (shown.status, shown.finish_hours) == (expected.status, expected.finish_hours)
        assert shown.bill == expected.bill


@pytest.mark.parametrize("policy", ["on-demand", "uniform-progress", "maximal-spot", "ahap"])
@pytest.mark.parametrize("kind", sorted(JOBS))
def test_a_batch_is_the_back_test_where_on_demand_is_out_of_stock(policy: str, kind: str) -> None:
    job, cut = JOBS[kind], 0
    for seed in (3, 4):
        pool = with_stock_outs(market(seed), seed).pools[1]
        acting, starts = guarded(policies.make(policy), job), [0, 9, 20, 40]
        together = batch.run_compiled(job, pool, acting, starts)
        for start, quick in zip(starts, together, strict=True):
            one = plain.run(job, pool, acting, start=start)
            assert (quick.cost_usd, quick.finish_hours) == (one.cost_usd, one.finish_hours)
            assert quick.on_demand_gpu_hours == pytest.approx(one.on_demand_gpu_hours)
            cut += sum(slot.on_demand_gpus < slot.wanted.on_demand_gpus for slot in one.slots)
    assert cut or policy != "on-demand", "these jobs want more on demand than there is"


@pytest.mark.parametrize("policy", ["stochastic-horizon", "roaming-horizon", "uniform-progress"])
@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_on_a_market_that_warns_the_engine_is_the_back_test(policy: str, kind: str) -> None:
    job, warned = JOBS[kind], 0
    for seed in (3, 4, 5):
        where = with_notice(market(seed), 1.0)
        pool, start = where.pools[1], 20
        context = make_context(job, where, pool, policies.make(policy), start)
        setting = Setting.on(where, pool)
        told = plain.run(job, pool, context.policy, start=start, setting=setting)
        store, engine = run_engine(context)
        decided = [record.event for record in store.read() if isinstance(record.event, Decided)]
        assert len(decided) == len(told.slots)
        for mine, theirs in zip(decided, told.slots, strict=True):
            assert (mine.state, mine.why) == (theirs.before, theirs.wanted.reason.rule)
            assert mine.signals == theirs.wanted.reason.signals
            assert (mine.spot_gpus, mine.on_demand_gpus) == (theirs.spot_gpus, theirs.on_demand_gpus)
            warned += "notice_hours" in mine.signals
        assert engine.state.jobs["job"].progress.state.cost_usd == told.cost_usd
        (many,) = run_many(job, pool, policies.make(policy), [start], name="", setting=setting)
        assert many.cost_usd == told.cost_usd, "what was worked out for a start decides the same"
    assert (warned > 0) == (policy != "uniform-progress"), "only who heeds warnings speaks of them"


@pytest.mark.parametrize("kind", sorted(JOBS))
def test_what_stands_beside_a_run_costs_what_its_bill_says(kind: str) -> None:
    where = market(3)
    context = make_context(JOBS[kind], where, where.pools[0], policies.make("uniform-progress"), 5)
    _, engine = run_engine(context)
    paid = bill(engine.state.jobs["job"], context)
    beside = {run.policy: run.bill.cost_usd for run in yardsticks(context, context.job)}
    assert beside == pytest.approx(
        {ON_DEMAND_ALONE: paid.on_demand_alone_usd, CLAIRVOYANT: paid.clairvoyant_usd}
    )


def test_nothing_stands_beside_a_job_without_a_deadline() -> None:
    where = market(3)
    job = Job(work_gpu_hours=4, widths=(1, 2))
    assert yardsticks(make_context(job, where, where.pools[0], policies.make("on-demand"), 5), job) == []


@pytest.mark.parametrize("kind", sorted(JOBS))
def test_stepping_more_often_changes_nothing(kind: str) -> None:
    where = market(3)
    context = make_context(JOBS[kind], where, where.pools[0], policies.make("uniform-progress"), 5)
    often = MemoryStore()
    engine = Engine(often, Replay(), open_job=lambda _: context)
    engine.submit(submission("job", context))
    tick = 0
    while engine.state.active:
        engine.step(tick * context.slot_hours / 4)
        tick += 1
    rarely, _ = run_engine(context)
    first, second = (
        [r.event for r in store.read() if isinstance(r.event, Decided)] for store in (often, rarely)
    )
    assert [(one.slot, one.spot_gpus, one.on_demand_gpus) for one in first] == [
        (one.slot, one.spot_gpus, one.on_demand_gpus) for one in second
    ]


def test_the_state_is_a_fold_over_the_journal() -> None:
    where = market(4)
    context = make_context(JOBS["hard"], where, where.pools[0], policies.make("maximal-spot"), 0)
    store, engine = run_engine(context)
    again = JournalState()
    for record in store.read():
        again.apply(record)
    assert dataclasses.asdict(again) == dataclasses.asdict(engine.state)
