"""What was back-tested over pools is what runs: the engine on replay takes the same moves and cents."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from slacktide.backends.replay import Replay
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.types import Job, PoolChoice
from slacktide.engine.bills.audit import audit
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Decided, Lived, Preempted, Sight, Submitted
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market, with_notice
from slacktide.market.formats.table import write_table
from slacktide.market.live.feed import Feed
from slacktide.market.source import open_market
from slacktide.policies.pools.roaming_horizon import RoamingHorizon
from slacktide.policies.view import Policy
from slacktide.results.run import Run
from slacktide.simulation import plain
from slacktide.simulation.plain import guarded
from slacktide.simulation.pool_options import PoolOptions
from slacktide_papers.baselines.eager_failover import EagerFailover
from slacktide_papers.baselines.sky_nomad import SkyNomad
from tests import build

JOBS = {
    "hard": Job(
        work_gpu_hours=9, deadline_hours=13, widths=(1,), restart_hours=0.2, checkpoint_hours=0.3,
        checkpoint_gb=50,
    ),
    "tight, whole slots": Job(
        work_gpu_hours=36, deadline_hours=10.5, widths=(4,), restart_hours=0.7, billing="slot",
        checkpoint_gb=200,
    ),
    "soft": Job(
        work_gpu_hours=18, deadline_hours=5, widths=(2, 4), restart_hours=0.1, value_usd=90,
        worthless_after_hours=9, checkpoint_gb=20,
    ),
    "poor": Job(work_gpu_hours=30, deadline_hours=10, widths=(4,), max_cost_usd=20, checkpoint_gb=50),
    "late": Job(
        work_gpu_hours=30, deadline_hours=6, widths=(4,), restart_hours=0.3, checkpoint_gb=50,
        worthless_after_hours=40, value_usd=1,
    ),
    "of another speed": Job(
        work_gpu_hours=20, deadline_hours=9, widths=(1, 2, 4), restart_hours=0.2, checkpoint_gb=50,
        checkpoint_hours=0.5, pools=(PoolChoice("H100", "", (2, 4), 1.0), PoolChoice("", "", (1, 4), 0.8)),
    ),
}  # fmt: skip
POLICIES: dict[str, Policy] = {
    "roaming-horizon": RoamingHorizon(),
    "failover": EagerFailover(),
    "skynomad": SkyNomad(),
}
START = 20


def market(seed: int) -> Market:
    found = open_market(f"synthetic:volatile?seed={seed}&days=3&slot=30m&pools=3")
    gpus = ("H100", "A100", "")
    pools = [dataclasses.replace(one, gpu=gpu) for one, gpu in zip(found.pools, gpus, strict=True)]
    return dataclasses.replace(found, pools=tuple(pools))


def with_stock_outs(where: Market, seed: int) -> Market:
    """Return a market in whose pools on-demand GPUs come and go by the hours."""
    rng = np.random.default_rng(seed)
    stocks = [rng.choice([0, 0, 1, 3, UNLIMITED_GPUS], len(pool)) for pool in where.pools]
    pools = [
        dataclasses.replace(pool, on_demand_gpus=np.repeat(stock, 4)[: len(pool)])
        for pool, stock in zip(where.pools, stocks, strict=True)
    ]
    return dataclasses.replace(where, pools=tuple(pools))


def context_over(job: Job, where: Market, policy: Policy, sight: Sight = "feed") -> JobContext:
    ground = PoolOptions.of(job, "", where)
    return make_context(job, where, ground.pools[0], policy, START, pools=ground, sight=sight)


def submission(context: JobContext) -> Submitted:
    return build.submitted(
        policy=json.dumps("x"),
        pool=context.home.name,
        slot_hours=context.slot_hours,
        start_slot=context.start_slot,
        pools=context.pool_names,
        sight=context.sight,
    )


def run_engine(context: JobContext, steps_a_slot: int = 1) -> tuple[MemoryStore, Engine]:
    store = MemoryStore()
    engine = Engine(store, Replay(), open_job=lambda _: context)
    engine.submit(submission(context))
    tick = 0
    while engine.state.active:
        engine.step(tick * context.slot_hours / steps_a_slot)
        tick += 1
    return store, engine


def told(job: Job, where: Market, policy: Policy, sight: Sight = "feed") -> Run:
    return plain.run_over_pools(
        PoolOptions.of(job, "", where), guarded(policy, job), start=START, sight=sight
    )


@pytest.mark.parametrize("stock_outs", [False, True])
@pytest.mark.parametrize("sight", ["feed", "tried"])
@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("kind", sorted(JOBS))
def test_engine_on_replay_is_the_back_test(kind: str, policy: str, sight: Sight, stock_outs: bool) -> None:
    job = JOBS[kind]
    for seed in (3, 4, 5):
        where = with_stock_outs(market(seed), seed) if stock_outs else market(seed)
        context = context_over(job, where, POLICIES[policy], sight)
        expected = told(job, where, POLICIES[policy], sight)
        store, engine = run_engine(context)
        events = [record.event for record in store.read()]
        decided = [event for event in events if isinstance(event, Decided)]
        lived = [event for event in events if isinstance(event, Lived)]
        assert len(decided) == len(lived) == len(expected.slots)
        for mine, paid, theirs in zip(decided, lived, expected.slots, strict=True):
            assert mine.state == theirs.before
            assert (mine.wanted_spot_gpus, mine.wanted_on_demand_gpus) == theirs.wanted[:2]
            assert mine.why == theirs.wanted.reason.rule
            assert mine.instead == theirs.wanted.instead
            stretch = theirs.lived.stretch
            assert (mine.spot_gpus, mine.on_demand_gpus) == (stretch.spot_gpus, stretch.on_demand_gpus)
            if stretch.gpus:
                assert (mine.pool, mine.quote) == (stretch.pool, stretch.quote)
                assert (paid.priced.stretch.pool, paid.priced.stretch.quote) == (stretch.pool, stretch.quote)
            assert paid.state == theirs.after
            assert paid.priced.charge == theirs.lived.charge
        job_record = engine.state.jobs["job"]
        assert job_record.progress.state.cost_usd == expected.cost_usd
        assert sum(isinstance(event, Preempted) for event in events) == expected.preemptions
        assert job_record.ended is not None
        assert job_record.ended.finish_hours == expected.finish_hours
        checked = audit(job_record, context, store.read())
        assert checked.clean, checked
        assert checked.cost_usd == pytest.approx(expected.cost_usd, abs=1e-9)


@pytest.mark.parametrize("sight", ["feed", "tried"])
@pytest.mark.parametrize("kind", ["hard", "soft", "of another speed"])
def test_on_a_market_that_warns_the_engine_is_the_back_test(kind: str, sight: Sight) -> None:
    job, warned = JOBS[kind], 0
    for seed in (3, 4, 5):
        where = with_notice(market(seed), 1.0)
        expected = told(job, where, RoamingHorizon(), sight)
        store, engine = run_engine(context_over(job, where, RoamingHorizon(), sight))
        decided = [record.event for record in store.read() if isinstance(record.event, Decided)]
        assert len(decided) == len(expected.slots)
        for mine, theirs in zip(decided, expected.slots, strict=True):
            assert (mine.state, mine.why) == (theirs.before, theirs.wanted.reason.rule)
            assert (mine.instead, mine.memory) == (theirs.wanted.instead, theirs.wanted.memory)
            assert mine.signals == theirs.wanted.reason.signals
            warned += "notice_hours" in mine.signals
        assert engine.state.jobs["job"].progress.state.cost_usd == expected.cost_usd
    assert warned > 0


def test_jobs_of_this_test_move_and_pay_for_it() -> None:
    fees, moves = [], []
    for seed in (3, 4, 5):
        for job in JOBS.values():
            _, engine = run_engine(context_over(job, market(seed), RoamingHorizon()))
            record = engine.state.jobs["job"]
            fees.append(record.money.bill.move_usd)
            moves.append(record.holding.moves)
    assert sum(fees) > 0.0
    assert sum(moves) > len(moves) // 2


@pytest.mark.parametrize("kind", sorted(JOBS))
@pytest.mark.parametrize("sight", ["feed", "tried"])
def test_stepping_more_often_changes_nothing(kind: str, sight: Sight) -> None:
    context = context_over(JOBS[kind], market(3), EagerFailover(), sight)
    often, rarely = run_engine(context, 4), run_engine(context)
    first, second = (
        [
            (one.slot, one.pool, one.spot_gpus, one.on_demand_gpus)
            for one in (record.event for record in store.read())
            if isinstance(one, Decided)
        ]
        for store, _ in (often, rarely)
    )
    assert first == second
    costs = [engine.state.jobs["job"].progress.state.cost_usd for _, engine in (often, rarely)]
    assert costs[0] == pytest.approx(costs[1], abs=1e-9)


@pytest.mark.parametrize("sight", ["feed", "tried"])
def test_the_state_is_a_fold_over_the_journal(sight: Sight) -> None:
    store, engine = run_engine(context_over(JOBS["hard"], market(4), EagerFailover(), sight))
    again = JournalState()
    for record in store.read():
        again.apply(record)
    assert dataclasses.asdict(again) == dataclasses.asdict(engine.state)
    assert bool(engine.state.jobs["job"].holding.sightings) == (sight == "tried")


@pytest.mark.parametrize("sight", ["feed", "tried"])
@pytest.mark.parametrize("policy", ["failover", "roaming-horizon"])
def test_a_feed_that_grows_is_decided_about_as_if_it_had_been_recorded(
    policy: str, sight: Sight, tmp_path: Path
) -> None:
    where, job = market(8), JOBS["hard"]
    recorded, _ = run_engine(context_over(job, where, POLICIES[policy], sight))
    write_table(where, tmp_path / "whole.csv")
    head, *rows = (tmp_path / "whole.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    at = head.split(",").index("time_utc")
    rows.sort(key=lambda row: row.split(",")[at])
    feed, begun = tmp_path / "feed.csv", 3 * (START + 1)
    feed.write_text(head + "".join(rows[:begun]), encoding="utf-8")
    live = Feed(f"feed:{feed}")
    ground = PoolOptions.of(job, "", live.market)
    context = make_context(
        job, live.market, ground.pools[0], POLICIES[policy], START, feed=live, pools=ground, sight=sight
    )
    store = MemoryStore()
    engine = Engine(store, Replay(), open_job=lambda _: context)
    engine.submit(submission(context))
    slot = 0
    while engine.state.active:
        engine.step(slot * context.slot_hours)
        with feed.open("a", encoding="utf-8") as file:
            file.write("".join(rows[begun + 3 * slot : begun + 3 * slot + 3]))
        slot += 1
    first, second = (
        [one for one in (record.event for record in told.read()) if isinstance(one, Decided | Lived)]
        for told in (store, recorded)
    )
    assert first == second
    pools = {one.pool for one in first if isinstance(one, Decided) and one.spot_gpus}
    assert policy != "failover" or len(pools) > 1, "it moves"
