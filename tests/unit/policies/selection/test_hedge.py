"""Hedge by hand: weights, draws, jobs that overlap, and what it refuses."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.rate import Adaptive, Anytime, FixedRate, LearningRate, made, written

ARMS = ("a", "b", "c")


def taught(*jobs: tuple[float, ...], **given: object) -> Hedge:
    hedge = Hedge(ARMS, **given)  # type: ignore[arg-type]
    for number, utilities in enumerate(jobs):
        hedge.begin(str(number))
        hedge.end(str(number), utilities)
    return hedge


def test_it_begins_with_the_prior_and_its_favourite() -> None:
    assert Hedge(ARMS).weights == pytest.approx([1 / 3] * 3)
    hedge = Hedge(ARMS, prior={"a": 1, "b": 2, "c": 1})
    assert hedge.weights == pytest.approx([0.25, 0.5, 0.25])
    assert hedge.leader == "b"


def test_fixed_rate_is_the_multiplicative_update() -> None:
    eta = math.sqrt(8 * math.log(3) / 2)
    weights = np.full(3, 1 / 3)
    for utilities in ((1.0, 0.5, 0.0), (0.25, 0.5, 1.0)):
        weights = weights * np.exp(eta * np.array(utilities))
    found = taught((1.0, 0.5, 0.0), (0.25, 0.5, 1.0), rate=FixedRate(2)).weights
    assert found == pytest.approx(weights / weights.sum(), rel=1e-12)


def test_anytime_rate_is_that_of_the_job_to_be_drawn() -> None:
    hedge = taught((1, 0, 0), (1, 0, 0), (1, 0, 0), rate=Anytime())
    assert hedge.eta == pytest.approx(math.sqrt(8 * math.log(3) / 4))
    assert hedge.weights[0] / hedge.weights[1] == pytest.approx(math.exp(3 * hedge.eta))


def test_adaptive_rate_falls_only_as_drawing_costs() -> None:
    same, wild = taught(*[(0.5, 0.5, 0.5)] * 9), taught(*[(0, 1, 0), (1, 0, 0), (0, 0, 1)] * 9)
    assert same.eta == pytest.approx(Hedge(ARMS).eta)
    assert wild.eta < 0.1 * same.eta


def test_a_hopeless_arm_does_not_slow_the_adaptive_rate_down() -> None:
    close = taught(*[(0.5, 0.51, 0.5)] * 99)
    beside = taught(*[(0.5, 0.51, 0.0)] * 99)
    assert close.leader == beside.leader == "b"
    assert beside.weights[1] > 0.95


def test_adaptive_learns_small_differences_sooner_than_anytime() -> None:
    jobs = [(0.5, 0.51, 0.505)] * 100
    assert taught(*jobs, rate=Adaptive()).weights[1] > 0.9
    assert taught(*jobs, rate=Anytime()).weights[1] < 0.4


def test_draws_follow_the_weights_and_the_key_alone() -> None:
    hedge = Hedge(ARMS, prior={"a": 6, "b": 3, "c": 1})
    drawn = Counter(hedge.draw(f"job-{number}") for number in range(4000))
    assert [drawn[arm] / 4000 for arm in ARMS] == pytest.approx([0.6, 0.3, 0.1], abs=0.03)
    assert [hedge.draw("x") for _ in range(3)] == [hedge.draw("x")] * 3
    assert len({hedge.draw("x", seed=seed) for seed in range(40)}) > 1


@pytest.mark.parametrize("rate", [FixedRate(4), Anytime()])
def test_any_order_of_ends_gives_the_same_weights_to_the_last_bit(rate: LearningRate) -> None:
    rng = np.random.default_rng(1)
    jobs = {str(number): rng.random(3) for number in range(4)}
    found = set()
    for order in itertools.permutations(jobs):
        hedge = Hedge(ARMS, rate=rate)
        for job in jobs:
            hedge.begin(job)
        for job in order:
            hedge.end(job, jobs[job])
        found.add((tuple(hedge.weights), tuple(hedge.utility), hedge.eta))
    assert len(found) == 1


def test_begin_may_be_repeated_while_a_job_is_open() -> None:
    hedge = Hedge(ARMS)
    first = hedge.begin("x")
    hedge.begin("y")
    hedge.end("y", (1, 0, 0))
    assert hedge.begin("x") == first
    assert list(hedge.open) == ["x"]


def test_utilities_may_be_named() -> None:
    hedge = Hedge(ARMS)
    hedge.begin("x")
    hedge.end("x", {"c": 1.0, "b": 0.5, "a": 0.0})
    assert hedge.utility.tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("utilities", "words"),
    [
        ((1, 0), "one per arm"),
        ((1, 0, 2), "scaled to 0..1, got 2.0 for 'c'"),
        ((1, 0, math.nan), "got nan"),
        ({"a": 1.0, "b": 1.0}, "none for 'c'"),
    ],
)
def test_wrong_utilities_are_refused_and_teach_nothing(utilities: tuple[float, ...], words: str) -> None:
    hedge = Hedge(ARMS)
    hedge.begin("x")
    with pytest.raises(InputError, match=words):
        hedge.end("x", utilities)
    assert hedge.ended == 0
    assert "x" in hedge.open


def test_a_job_ends_once() -> None:
    hedge = taught((1, 0, 0))
    with pytest.raises(InputError, match="'0', which has ended already"):
        hedge.end("0", (1, 0, 0))
    with pytest.raises(InputError, match="'never', which has not begun"):
        hedge.end("never", (1, 0, 0))
    with pytest.raises(InputError, match="must begin once"):
        hedge.begin("0")


def test_a_dropped_job_teaches_nothing() -> None:
    hedge = Hedge(ARMS)
    hedge.begin("x")
    hedge.drop("x")
    assert (hedge.open, hedge.ended) == ({}, 0)
    with pytest.raises(InputError, match="not begun"):
        hedge.drop("x")


@pytest.mark.parametrize(
    ("arms", "prior", "words"),
    [
        ((), None, "at least one"),
        (("a", "a"), None, "each given once"),
        (("a", "b"), {"a": 1.0}, "difference in .'b'."),
        (("a", "b"), {"a": 1.0, "b": 0.0}, "must be > 0"),
    ],
)
def test_impossible_pools_are_refused(
    arms: tuple[str, ...], prior: dict[str, float] | None, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        Hedge(arms, prior=prior)


def test_one_arm_is_trusted_and_regrets_nothing() -> None:
    hedge = Hedge(["only"])
    hedge.begin("x")
    hedge.end("x", [0.3])
    assert hedge.weights.tolist() == [1.0]
    assert (hedge.regret().expected, hedge.regret().bound) == (0.0, 0.0)


def test_regret_counts_what_was_expected_and_what_was_drawn() -> None:
    hedge = Hedge(ARMS)
    drawn = hedge.begin("x")
    hedge.end("x", {"a": 1.0, "b": 0.0, "c": 0.5} | {drawn: 0.0})
    regret = hedge.regret()
    assert regret.expected == pytest.approx(hedge.utility.max() - hedge.utility.mean())
    assert regret.realised == hedge.utility.max()


def test_waiting_for_feedback_is_counted_in_the_bound() -> None:
    prompt, late = Hedge(ARMS), Hedge(ARMS)
    for number in range(6):
        late.begin(str(number))
    for number in range(6):
        prompt.begin(str(number))
        for hedge in (prompt, late):
            hedge.end(str(number), (1, 0, 0))
    assert prompt.tally.delay == 0.0
    assert late.regret().expected == pytest.approx(4.0)
    assert late.regret().expected <= late.regret().bound
    assert late.weights.tolist() == pytest.approx(prompt.weights.tolist())


def test_changes_of_the_leader_are_remembered() -> None:
    hedge = taught((0, 1, 0), (1, 0, 0), (1, 0, 0))
    assert [(jobs, arm) for jobs, arm in hedge.leaders] == [(0, "a"), (1, "b"), (2, "a")]


def test_the_trail_is_thinned_and_never_long() -> None:
    hedge = taught(*[(0.1, 0.2, 0.3)] * 1700)
    points = hedge.trail.points
    assert len(points) <= 401
    assert {b.jobs - a.jobs for a, b in itertools.pairwise(points)} == {hedge.trail.stride}
    assert points[-1].jobs > 1690


def test_rates_are_written_and_read() -> None:
    for rate in (FixedRate(9), Anytime(), Adaptive()):
        assert made(written(rate)) == rate
    with pytest.raises(InputError, match="did you mean 'fixed'"):
        made({"fixt": {}})
    with pytest.raises(InputError, match="jobs must be >= 1"):
        FixedRate(0)
