"""Selection from end to end: replays are the back-tests they stand for, streams learn, auto resolves."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.core.types import Allocation, Job, Reason
from slacktide.market.base import Market
from slacktide.market.source import open_market
from slacktide.policies.ahap import Ahap
from slacktide.policies.selection.auto_policy import arms_of, resolve_policy
from slacktide.policies.selection.document import to_json
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.policy_set import AUTO, AUTO_SET, fresh, name_of
from slacktide.policies.selection.rate import Adaptive, Anytime, FixedRate, LearningRate
from slacktide.policies.selection.state_file import LearnedStateFile, save
from slacktide.policies.stochastic_horizon import StochasticHorizon
from slacktide.policies.uniform_progress import UniformProgress
from slacktide.policies.view import View
from slacktide.simulation import plain
from slacktide.simulation.learn_on_past import Task, bounds_usd, random_tasks, replay, select
from slacktide.simulation.plain import guarded
from slacktide_papers.deadline.policy_set import PAPER_SET, make_arms
from tests import build

HARD = Job(work_gpu_hours=30, deadline_hours=10, widths=(1, 2, 3, 4), restart_hours=0.1, checkpoint_hours=0.2)
SOFT = dataclasses.replace(HARD, value_usd=150.0, worthless_after_hours=14.0)
SIMPLE = ("uniform-progress", "maximal-spot", "on-demand")
FEW = (*SIMPLE, {"ahap": {"window": 3, "commitment": 2, "price_threshold": 0.5}}, "ahanp")


class Idle:
    """A user's own policy, which cannot be compiled: waits for better times."""

    def decide(self, view: View) -> Allocation:
        return Allocation(reason=Reason("wait"))


@pytest.fixture(scope="module")
def market() -> Market:
    return open_market("synthetic:h100?days=8&slot=30m&seed=2")


@pytest.mark.parametrize("job", [HARD, SOFT], ids=["hard", "soft"])
def test_a_replay_is_what_each_policy_would_have_earned(job: Job, market: Market) -> None:
    policies = make_arms([*FEW, Idle()])
    found = replay(job, market.pools[0], 77, policies)
    for row, policy in enumerate(policies.values()):
        run = plain.run(job, market.pools[0], guarded(policy, job), start=77)
        assert found.utility_usd[row] == pytest.approx(run.utility_usd, rel=1e-9)


def test_shares_lie_between_the_least_and_the_most_a_job_can_bring(market: Market) -> None:
    least, most = bounds_usd(SOFT, market.pools[0], 40)
    dearest = market.pools[0].on_demand_usd_per_gpu_hour[40 : 40 + 28].max()
    assert least == pytest.approx(-dearest * 4 * 14.0)
    assert most == 150.0
    found = replay(SOFT, market.pools[0], 40, make_arms(SIMPLE))
    assert found.shares == pytest.approx((found.utility_usd - least) / (most - least))


def test_a_missed_hard_deadline_earns_nothing(market: Market) -> None:
    poor = dataclasses.replace(HARD, max_cost_usd=5.0)
    found = replay(poor, market.pools[0], 0, make_arms(SIMPLE))
    assert found.shares.tolist() == [0.0] * 3


def test_free_gpus_for_a_worthless_result_teach_nothing() -> None:
    zeros = np.zeros(40)
    pool = build.pool(zeros, zeros, 4, name="free")
    assert replay(HARD, pool, 0, make_arms(SIMPLE)).shares.tolist() == [1.0] * 3


def test_a_replay_sees_only_forecasts_of_the_time(market: Market) -> None:
    """What the market does after the job is over changes no replay."""
    pool = market.pools[0]
    end = 50 + 20
    later = np.array(pool.spot_gpus)
    later[end:] = 0
    other = dataclasses.replace(pool, spot_gpus=later)
    policies = make_arms(FEW)
    both = [replay(HARD, place, 50, policies).utility_usd.tolist() for place in (pool, other)]
    assert both[0] == both[1]


@pytest.mark.parametrize("rate", [FixedRate(60), Anytime(), Adaptive()], ids=["fixed", "anytime", "adaptive"])
def test_a_stream_learns_within_its_bound(market: Market, rate: LearningRate) -> None:
    policies = make_arms(FEW)
    hedge = Hedge(tuple(policies), rate=rate)
    records = select(random_tasks(HARD, market, 60), policies, hedge)
    assert len(records) == hedge.ended == 60
    assert all(record.regret <= record.bound + 1e-9 for record in records)
    assert all(record.utility_usd <= record.best_utility_usd for record in records)
    assert records[-1].leader == hedge.leader
    assert hedge.weights[hedge.arms.index("on-demand")] < 0.05


def test_a_stream_on_disk_equals_one_in_memory(market: Market, tmp_path: Path) -> None:
    policies = make_arms(SIMPLE)
    memory = Hedge(tuple(policies))
    saved = LearnedStateFile(tmp_path / "learn.json", lambda: Hedge(tuple(policies)))
    tasks = random_tasks(HARD, market, 12)
    assert select(tasks, policies, memory, seed=4) == select(tasks, policies, saved, seed=4)
    assert saved.path.read_text() == to_json(memory)


def test_an_interrupted_stream_leaves_nothing_open(market: Market, tmp_path: Path) -> None:
    class Broken:
        def decide(self, view: View) -> Allocation:
            raise KeyboardInterrupt

    policies = make_arms([*SIMPLE, Broken()])
    saved = LearnedStateFile(tmp_path / "learn.json", lambda: Hedge(tuple(policies)))
    with pytest.raises(KeyboardInterrupt):
        select(random_tasks(HARD, market, 5), policies, saved)
    assert (saved.read().open, saved.read().ended) == ({}, 0)


def test_a_stream_must_be_run_with_the_learners_arms(market: Market) -> None:
    with pytest.raises(InputError, match="must be the learner's arms"):
        select([Task(HARD, market.pools[0], 0)], make_arms(SIMPLE), Hedge(["x"]))


def test_random_tasks_fit_the_market_and_repeat(market: Market) -> None:
    two = Market((market.pools[0], dataclasses.replace(market.pools[0], name="second")))
    tasks = random_tasks(HARD, two, 50, seed=9)
    assert tasks == random_tasks(HARD, two, 50, seed=9)
    assert {task.pool.name for task in tasks} == {"h100-1", "second"}
    assert {task.pool.name for task in random_tasks(HARD, two, 9, pool="second")} == {"second"}
    for task in tasks:
        plain.check_start(*task)
    with pytest.raises(InputError, match="jobs must be >= 1"):
        random_tasks(HARD, two, 0)


def test_arms_may_be_specs_and_policies() -> None:
    policies = make_arms(["uniform-progress", UniformProgress(gang=True), Idle(), {"ahap": {"window": 5}}])
    assert list(policies) == ["uniform-progress", "uniform-progress(gang=True)", "idle", "ahap(window=5)"]
    with pytest.raises(InputError, match="given once"):
        make_arms(["on-demand", "on-demand"])


def test_both_pools_can_be_made() -> None:
    for pool in (AUTO_SET, PAPER_SET):
        assert list(arms_of(fresh(pool))) == [name_of(spec) for spec in pool]


def test_other_specs_resolve_to_themselves(tmp_path: Path) -> None:
    assert resolve_policy({"uniform-progress": {"gang": True}}) == UniformProgress(gang=True)
    own = Idle()
    assert resolve_policy(own) is own


def test_auto_is_the_favourite_until_something_is_learned(tmp_path: Path) -> None:
    state = tmp_path / "learn.json"
    assert {resolve_policy(AUTO, state=state, key=key) for key in "abcdefgh"} == {StochasticHorizon()}


def test_auto_is_drawn_by_what_was_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hedge = fresh()
    favoured = name_of(AUTO_SET[4])
    for number in range(400):
        hedge.begin(str(number))
        hedge.end(str(number), {arm: 0.5 + 0.1 * (arm == favoured) for arm in hedge.arms})
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path))
    save(hedge, tmp_path / "learn.json")
    assert resolve_policy(AUTO, key="my-job") == Ahap(3, 1, 0.5)


def test_a_draw_repeats_for_a_name_and_differs_between_names(tmp_path: Path) -> None:
    hedge = fresh()
    hedge.begin("x")
    hedge.end("x", [0.5] * len(hedge.arms))
    save(hedge, tmp_path / "learn.json")

    def drawn(key: str) -> object:
        return resolve_policy(AUTO, state=tmp_path / "learn.json", key=key)

    assert drawn("a") == drawn("a")
    assert len({drawn(str(number)) for number in range(40)}) > 3


def test_a_learned_policy_that_is_not_installed_is_named(tmp_path: Path) -> None:
    hedge = Hedge(["long-gone(x=1)"])
    save(hedge, tmp_path / "learn.json")
    with pytest.raises(InputError, match=r"must be installed.*long-gone.*--reset"):
        resolve_policy(AUTO, state=tmp_path / "learn.json")
    with pytest.raises(InputError, match=r"must be installed.*long-gone"):
        arms_of(hedge)


@pytest.mark.parametrize("rate", [FixedRate(80), Adaptive()], ids=["fixed", "adaptive"])
def test_regret_on_real_markets_keeps_its_bound(real_data: Path, rate: LearningRate) -> None:
    market = open_market(str(real_data / "markets" / "gcp-h100-2025.csv.gz"), slot_hours=0.5)
    policies = make_arms(FEW)
    hedge = Hedge(tuple(policies), rate=rate)
    records = select(random_tasks(SOFT, market, 80, seed=5), policies, hedge)
    assert all(record.regret <= record.bound + 1e-9 for record in records)
    assert hedge.regret().expected <= rate.worst_regret(len(policies), 80)
