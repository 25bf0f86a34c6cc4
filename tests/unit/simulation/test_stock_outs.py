"""Stock-outs of on demand: growth is cut to what is there, what is held stays, rescue goes to where it is."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.backends.replay import Replay
from slacktide.core.quotes import UNLIMITED_GPUS, Quote
from slacktide.core.types import Allocation, Job, Wish
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import make_context
from slacktide.journal.events import Decided
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market, Pool
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.on_demand import OnDemand
from slacktide.policies.view import View
from slacktide.report.text.tables.market import stock_words
from slacktide.results.run import Run
from slacktide.simulation import plain
from slacktide.simulation.compare import compare
from slacktide.simulation.plain import guarded
from slacktide.simulation.plan.look_ahead import look_ahead
from slacktide.simulation.plan.planned_job import PlannedJob, PlanStart
from slacktide.simulation.pool_options import PoolOptions
from tests import build

SLOTS = 60
JOB = Job(work_gpu_hours=40, deadline_hours=12, widths=(1, 2, 4))


def pool(stock: list[int] | None, name: str = "a", usd: float = 4.0, spot: int = 0) -> Pool:
    """Return a pool whose stock is this, the last number until its end."""
    series = None if stock is None else np.array((stock + stock[-1:] * SLOTS)[:SLOTS])
    flat = np.full(SLOTS, usd)
    return Pool(name, 1.0, flat / 4, flat, np.full(SLOTS, spot), on_demand_gpus=series)


def held(run: Run) -> list[int]:
    return [slot.on_demand_gpus for slot in run.slots]


def test_growth_is_cut_to_a_width_that_is_there_and_what_is_held_stays() -> None:
    run = plain.run(JOB, pool([0, 3, 0, 0, 1, 4, 0]), OnDemand())
    assert held(run)[:8] == [0, 2, 2, 2, 2, 4, 4, 4]
    assert run.slots[3].quote.on_demand_gpus == 0


def test_a_policy_is_shown_what_it_holds_as_there() -> None:
    shown: list[int] = []

    @dataclass(frozen=True)
    class Looks:
        def decide(self, view: View) -> Allocation:
            shown.append(view.quote.on_demand_gpus)
            return Allocation(0, 2)

    plain.run(JOB, pool([4, 0, 1, 3]), Looks())
    assert shown[:4] == [4, 2, 2, 3]
    assert Quote(1.0, 2.0, 3).keeping(5) == Quote(1.0, 2.0, 3)


def test_after_the_record_on_demand_is_there_so_that_every_job_ends() -> None:
    run = plain.run(replace(JOB, deadline_hours=60), pool([0]), OnDemand())
    assert run.finish_hours == pytest.approx(70.0)
    assert not run.on_time


def test_the_guard_takes_spot_for_what_is_out_of_stock() -> None:
    guard = DeadlineGuard(policies.make("uniform-progress"))
    job = Job(work_gpu_hours=16, deadline_hours=4, widths=(1, 2, 4))
    run = plain.run(job, pool([1], spot=3), guard)
    assert (run.slots[0].spot_gpus, run.slots[0].on_demand_gpus) == (3, 1)
    assert run.on_time


def ground(*pools: Pool, job: Job = JOB) -> PoolOptions:
    return PoolOptions.of(job, "", Market(pools))


@dataclass(frozen=True)
class Wants:
    """Wants one row of wishes in every slot."""

    wishes: tuple[Wish, ...]

    def decide(self, view: View) -> Allocation:
        first, *rest = self.wishes
        return Allocation(*first, instead=tuple(rest))


def places(run: Run, slots: int) -> list[tuple[str, int, int]]:
    stretches = [slot.lived.stretch for slot in run.slots[:slots]]
    return [(one.pool, one.spot_gpus, one.on_demand_gpus) for one in stretches]


def test_a_wish_that_lacks_on_demand_gpus_gives_way_to_the_next() -> None:
    wishes = (Wish(2, 2, "a"), Wish(0, 4, "b"))
    run = plain.run_over_pools(
        ground(pool([1, 4], "a", spot=4), pool([4], "b")), Wants(wishes), sight="tried"
    )
    assert places(run, 2) == [("b", 0, 4), ("a", 2, 2)]


def test_of_the_last_wish_there_is_what_can_be_had() -> None:
    wishes = (Wish(0, 4, "a"), Wish(0, 4, "b"))
    run = plain.run_over_pools(ground(pool([1], "a"), pool([3, 0], "b")), Wants(wishes))
    assert places(run, 3) == [("b", 0, 2)] * 3


def test_rescue_goes_to_the_pool_that_has_stock_though_another_is_cheaper() -> None:
    job = Job(work_gpu_hours=16, deadline_hours=4, widths=(1, 2, 4))
    waits = DeadlineGuard(Wants((Wish(),)))
    run = plain.run_over_pools(
        ground(pool([0], "a", 1.0), pool([3], "b", 2.0), pool([8], "c", 9.0), job=job), waits
    )
    assert places(run, 1) == [("c", 0, 4)]
    assert run.on_time
    nowhere = plain.run_over_pools(ground(pool([0], "a", 1.0), pool([2], "b", 2.0), job=job), waits)
    assert places(nowhere, 2) == [("b", 0, 2)] * 2
    nothing = plain.run_over_pools(ground(pool([0, 0, 4], "a", 1.0), pool([0], "b"), job=job), waits)
    assert [gpus for _, _, gpus in places(nothing, 3)] == [0, 0, 4]


def test_wishes_for_more_than_there_is_on_demand_are_kept_when_nothing_is_in_time() -> None:
    job = Job(work_gpu_hours=16, deadline_hours=4, widths=(1, 2, 4))
    takes_spot = DeadlineGuard(Wants((Wish(4, 0, "b"), Wish())))
    run = plain.run_over_pools(ground(pool([1], "a"), pool([1], "b", spot=4), job=job), takes_spot)
    assert places(run, 1) == [("b", 4, 0)]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    policy=st.sampled_from(["on-demand", "uniform-progress", "maximal-spot", "eager-failover"]),
    after=st.sampled_from(["finish-fast", "finish-cheaply"]),
)
def test_a_stock_that_no_job_exhausts_changes_nothing(seed: int, policy: str, after: str) -> None:
    rng = np.random.default_rng(seed)
    bare = [replace(pool(None, name), spot_gpus=rng.integers(0, 5, SLOTS)) for name in "ab"]
    full = [replace(one, on_demand_gpus=rng.integers(4, 9, SLOTS)) for one in bare]
    job = Job(
        work_gpu_hours=20, deadline_hours=float(rng.integers(4, 12)), widths=(1, 2, 4), restart_hours=0.2,
        after_deadline=after,  # type: ignore[arg-type]
    )  # fmt: skip
    acting = guarded(policies.make(policy), job)
    results = []
    for pools in (bare, full):
        stays = plain.run(job, pools[0], acting)
        roams = plain.run_over_pools(ground(*pools, job=job), acting)
        results.append([[slot.after for slot in run.slots] for run in (stays, roams)])
    assert results[0] == results[1]


def test_jobs_of_one_site_share_a_stock() -> None:
    where = Market((pool([6]),))
    contexts = {name: make_context(JOB, where, where.pools[0], OnDemand(), 0) for name in ("one", "two")}
    store = MemoryStore()
    engine = Engine(store, Replay(), open_job=lambda submitted: contexts[submitted.job])
    for name, context in contexts.items():
        engine.submit(
            build.submitted(name, policy=json.dumps("x"), slot_hours=context.slot_hours, pool="a")
        )  # fmt: skip
    for hours in (0.0, 1.0, 2.0):
        engine.step(hours)
        decided = [record.event for record in store.read() if isinstance(record.event, Decided)]
        assert sorted(event.on_demand_gpus for event in decided[-2:]) == [2, 4]
    while engine.state.active:
        engine.step(hours)
        hours += 1.0
    assert {event.on_demand_gpus for event in decided if event.job == "two"} <= {2, 4}


def test_back_tests_plans_and_tables_say_how_often_on_demand_ran_out() -> None:
    short = pool([0] * 15 + [4] * 30 + [3], spot=2)
    found = compare(JOB, short, ["on-demand"], starts=[0, 20])
    (said,) = found.assumptions
    assert said.startswith("On-demand GPUs were out of stock (fewer than 4 50.0% of the time in 'a')")
    assert compare(JOB, pool(None, spot=2), ["on-demand"], starts=[0]).assumptions == ()
    assert stock_words([short, pool(None, "b")]) == [
        "a: on-demand GPUs were there 75.0% of the time, 2.8 on average while they were limited."
    ]


@pytest.mark.parametrize(
    ("stock", "words"),
    [
        ([0] * 12 + [UNLIMITED_GPUS], "before the start there were fewer than 4"),
        ([9] * 50 + [1], "before the start they never ran out"),
        (None, "does not record when they ran out"),
    ],
)
def test_a_plan_says_how_often_on_demand_ran_out(stock: list[int] | None, words: str) -> None:
    begin = PlanStart.at(Market((pool(stock, spot=2),)), "a", 40)
    plan = look_ahead(PlannedJob.in_pool(JOB, begin), [policies.make("uniform-progress")])
    assert any(words in sentence for sentence in plan.assumptions)
