"""AHAP: its memory, its mean of plans, its repairs, and what a forecast is worth to it."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.checks import check_policy
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote, Sighting
from slacktide.core.types import Allocation, Job, JobState
from slacktide.market.source import open_market
from slacktide.market.tape import Past, PoolView
from slacktide.physics.progress import terms
from slacktide.policies.ahap import Ahap, feasible, mean_wish
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.uniform_progress import UniformProgress
from slacktide.policies.view import Policy, View
from slacktide.simulation import batch, plain
from slacktide.simulation.playback import Setting
from slacktide_papers.forecasters.noisy_truth import NoisyTruth
from tests.parts_of_effort import examples

JOB = Job(work_gpu_hours=40.0, deadline_hours=20.0, widths=(1, 2, 3, 4), restart_hours=0.1)
CHEAP, NONE = Quote(0.5, 2.0, 4), Quote(0.5, 2.0, 0)


def decide(
    policy: Policy,
    quote: Quote,
    forecast: tuple[Quote, ...] = (),
    *,
    slot: int = 0,
    done: float = 0.0,
    memory: tuple[float, ...] = (),
) -> Allocation:
    """Ask a policy about a job that holds nothing."""
    state = JobState(progress_gpu_hours=done, checkpointed_gpu_hours=done)
    view = View(
        job=JOB,
        slot=slot,
        slot_hours=1.0,
        now_hours=float(slot),
        next_hours=slot + 1.0,
        pools=(PoolView("here", quote),),
        state=state,
        memory=memory,
        known=Told(forecast),
    )
    return policy.decide(view)


class Told:
    """Knows a forecast and nothing of the past."""

    def __init__(self, quotes: tuple[Quote, ...]) -> None:
        self._quotes = quotes

    def past(self, pool: int) -> Past:
        raise NotImplementedError

    def sightings(self, pool: int) -> tuple[Sighting, ...]:
        return ()

    def forecast(self, pool: int) -> tuple[Quote, ...]:
        return self._quotes


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"window": 0}, "window must be >= 1"),
        ({"window": 2, "commitment": 3}, "commitment must be in 1..window"),
        ({"commitment": 0}, "commitment must be in 1..window"),
        ({"price_threshold": 0.0}, r"price_threshold must be in \(0, 1\]"),
        ({"price_threshold": 1.1}, r"price_threshold must be in \(0, 1\]"),
    ],
)
def test_parameters_that_cannot_be_meant_are_refused(parameters: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Ahap(**parameters)  # type: ignore[arg-type]


def test_cheap_spot_is_banked_and_the_reason_says_so() -> None:
    wanted = decide(Ahap(), CHEAP, (CHEAP,) * 3)
    assert (wanted.spot_gpus, wanted.on_demand_gpus) == (4, 0)
    assert wanted.reason.rule == "bank-cheap-spot"
    assert wanted.reason.signals["reserve_usd_per_gpu_hour"] == pytest.approx(1.2)


def test_a_forecast_of_spot_saves_on_demand() -> None:
    assert decide(Ahap(), NONE, (CHEAP,) * 3).gpus == 0
    assert decide(Ahap(), NONE, (NONE,) * 3, slot=3, done=4.0).on_demand_gpus > 0


def test_a_short_forecast_is_held_to_the_end_of_the_window() -> None:
    assert decide(Ahap(), NONE, (CHEAP,))[:2] == decide(Ahap(), NONE, (CHEAP,) * 3)[:2]
    assert decide(Ahap(), CHEAP)[:2] == decide(Ahap(), CHEAP, (CHEAP,) * 3)[:2]


def test_reasons_tell_catching_up_from_out_of_reach() -> None:
    policy = Ahap(window=3, commitment=1)
    assert decide(policy, NONE, (NONE,) * 3, slot=5, done=9.0).reason.rule == "catch-up"
    assert decide(policy, NONE, (NONE,) * 3, slot=18, done=2.0).reason.rule == "line-out-of-reach"
    assert decide(policy, NONE, (NONE,) * 3, slot=5, done=30.0).reason.rule == "wait-for-cheap-spot"


def test_the_decision_is_the_mean_of_the_plans_kept() -> None:
    policy = Ahap(window=2, commitment=2)
    before = decide(policy, NONE, (CHEAP,))
    alone, together = (
        decide(policy, NONE, (NONE,), slot=1),
        decide(policy, NONE, (NONE,), slot=1, memory=before.memory),
    )
    planned = (alone.reason.signals["planned_spot_gpus"], alone.reason.signals["planned_on_demand_gpus"])
    assert planned[0] == 0
    assert together.reason.signals["mean_spot_gpus"] == 2.0
    assert together.reason.signals["mean_on_demand_gpus"] == np.floor(planned[1] / 2 + 0.5)
    assert together.reason.rule == "made-feasible"
    assert together.spot_gpus == 0


def test_means_are_rounded_half_up_and_count_only_plans_that_exist() -> None:
    plans = np.full((3, 3, 2), -1.0)
    plans[0] = [[2, 1], [0, 0], [0, 0]]
    assert mean_wish(plans) == (2, 1)
    plans[1] = [[9, 9], [3, 0], [9, 9]]
    assert mean_wish(plans) == (3, 1)


def test_memory_of_other_parameters_is_ignored() -> None:
    other = decide(Ahap(window=5, commitment=5), CHEAP, (CHEAP,) * 4).memory
    assert decide(Ahap(), NONE, (NONE,) * 3, slot=1, memory=other) == decide(
        Ahap(), NONE, (NONE,) * 3, slot=1
    )


def test_missing_spot_becomes_on_demand_only_behind_the_line() -> None:
    bare = terms(JOB)
    assert feasible(bare, Quote(0.5, 2.0, 1), 3, 0, behind=True) == (1, 2)
    assert feasible(bare, Quote(0.5, 2.0, 1), 3, 0, behind=False) == (1, 0)


def test_a_width_that_is_not_allowed_is_widened_behind_the_line_and_cut_ahead_of_it() -> None:
    bare = terms(Job(work_gpu_hours=8.0, deadline_hours=9.0, widths=(2, 4)))
    assert feasible(bare, CHEAP, 3, 0, behind=True) == (3, 1)
    assert feasible(bare, CHEAP, 3, 0, behind=False) == (2, 0)


def test_a_plan_is_only_followed_while_the_commitment_lasts() -> None:
    """With a commitment of one, memory has no say."""
    policy = Ahap(window=3, commitment=1)
    memory = decide(policy, CHEAP, (CHEAP,) * 2).memory
    assert decide(policy, NONE, (NONE,) * 2, slot=1, memory=memory) == decide(
        policy, NONE, (NONE,) * 2, slot=1
    )


@pytest.mark.parametrize(
    "policy",
    [Ahap(1, 1, 0.3), Ahap(3, 3, 0.9), Ahap(5, 1, 0.6), DeadlineGuard(Ahap(5, 4, 0.4))],
    ids=str,
)
def test_other_parameters_keep_the_contract_too(policy: Policy) -> None:
    check_policy(policy, examples=examples(8), seed=3)


def test_knowing_the_next_slots_beats_uniform_progress() -> None:
    pool = open_market("synthetic:h100?days=30&slot=30m").pools[0]
    job = Job(work_gpu_hours=80.0, deadline_hours=12.5, widths=tuple(range(1, 9)), restart_hours=0.05)
    starts = list(range(0, len(pool) - 25, 9))
    knowing = Setting(forecaster=NoisyTruth(level=0.0))
    ahap = batch.run_compiled(job, pool, DeadlineGuard(Ahap(5, 1)), starts, setting=knowing)
    up = batch.run_compiled(job, pool, DeadlineGuard(UniformProgress()), starts)
    assert all(run.on_time for run in ahap)
    assert sum(run.cost_usd for run in ahap) < 0.99 * sum(run.cost_usd for run in up)
    one = plain.run(job, pool, DeadlineGuard(Ahap(5, 1)), start=starts[3], setting=knowing)
    assert one.cost_usd == ahap[3].cost_usd
