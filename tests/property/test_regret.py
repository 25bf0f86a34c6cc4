"""The promise of Hedge: on no sequence of jobs, in no order, is the regret beyond its bound."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.core.arrays import Floats
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.rate import Adaptive, Anytime, FixedRate, LearningRate

ROUNDING = 1e-6
"""Utilities are kept to 2**-32, so that a thousand of them may be off by this much."""

Adversary = Callable[[Hedge, int, np.random.Generator], Floats]
"""Chooses utilities with the learner before its eyes, weights and all."""


def at_random(hedge: Hedge, number: int, rng: np.random.Generator) -> Floats:
    return rng.random(len(hedge.arms))


def coins(hedge: Hedge, number: int, rng: np.random.Generator) -> Floats:
    """Fair coins: nobody is better, and the best in hindsight is so by luck. The bound's hardest case."""
    return rng.integers(0, 2, len(hedge.arms)).astype(np.float64)


def alternating(hedge: Hedge, number: int, rng: np.random.Generator) -> Floats:
    """Always the other half is right; following the leader would lose every time."""
    return ((np.arange(len(hedge.arms)) + number) % 2).astype(np.float64)


def against_the_leader(hedge: Hedge, number: int, rng: np.random.Generator) -> Floats:
    """Punish whoever is trusted the most."""
    earned = np.ones(len(hedge.arms))
    earned[np.argmax(hedge.weights)] = 0.0
    return earned


def against_the_weights(hedge: Hedge, number: int, rng: np.random.Generator) -> Floats:
    """Reward the less trusted half."""
    order = np.argsort(hedge.weights, kind="stable")
    earned = np.zeros(len(hedge.arms))
    earned[order[: max(1, len(order) // 2)]] = 1.0
    return earned


def switching(hedge: Hedge, number: int, rng: np.random.Generator) -> Floats:
    """The best arm changes every fifty jobs."""
    earned = np.full(len(hedge.arms), 0.2)
    earned[number // 50 % len(hedge.arms)] = 0.9
    return earned


def one_is_right(hedge: Hedge, number: int, rng: np.random.Generator) -> Floats:
    earned = np.zeros(len(hedge.arms))
    earned[-1] = 1.0
    return earned


def nearly_equal(hedge: Hedge, number: int, rng: np.random.Generator) -> Floats:
    """As real policies are: close together, with one a little better."""
    earned = 0.7 + 0.02 * rng.random(len(hedge.arms))
    earned[0] += 0.01
    return np.asarray(earned)


ADVERSARIES: tuple[Adversary, ...] = (
    at_random,
    coins,
    alternating,
    against_the_leader,
    against_the_weights,
    switching,
    one_is_right,
    nearly_equal,
)


def play(hedge: Hedge, adversary: Adversary, jobs: int, *, seed: int = 0) -> Hedge:
    rng = np.random.default_rng(seed)
    for number in range(jobs):
        utilities = adversary(hedge, number, rng)
        hedge.begin(str(number))
        hedge.end(str(number), utilities)
    return hedge


def learner(arms: int, rate: LearningRate) -> Hedge:
    return Hedge([f"arm-{number}" for number in range(arms)], rate=rate)


@pytest.mark.parametrize("arms", [2, 3, 20, 112])
@pytest.mark.parametrize("jobs", [1, 10, 300])
@pytest.mark.parametrize("adversary", ADVERSARIES, ids=lambda one: one.__name__)
def test_known_number_of_jobs_keeps_the_classic_bound(adversary: Adversary, jobs: int, arms: int) -> None:
    regret = play(learner(arms, FixedRate(jobs)), adversary, jobs).regret()
    assert regret.expected <= math.sqrt(jobs * math.log(arms) / 2) + ROUNDING
    assert regret.expected <= regret.bound + ROUNDING
    assert regret.bound <= math.sqrt(jobs * math.log(arms) / 2) + ROUNDING


@pytest.mark.parametrize("rate", [Anytime(), Adaptive()], ids=["anytime", "adaptive"])
@pytest.mark.parametrize("arms", [2, 112])
@pytest.mark.parametrize("adversary", ADVERSARIES, ids=lambda one: one.__name__)
def test_unknown_number_of_jobs_keeps_its_bound_after_every_job(
    adversary: Adversary, arms: int, rate: LearningRate
) -> None:
    hedge, rng = learner(arms, rate), np.random.default_rng(3)
    for number in range(300):
        utilities = adversary(hedge, number, rng)
        hedge.begin(str(number))
        hedge.end(str(number), utilities)
        regret = hedge.regret()
        assert regret.expected <= regret.bound + ROUNDING
        assert regret.bound <= rate.worst_regret(arms, number + 1) + ROUNDING


def test_the_worst_regrets_are_those_documented() -> None:
    half = math.sqrt(300 * math.log(112) / 2)
    assert FixedRate(300).worst_regret(112, 300) == pytest.approx(half)
    assert Anytime().worst_regret(112, 300) == pytest.approx(1.5 * half)
    assert Adaptive().worst_regret(112, 300) == pytest.approx(math.sqrt(2) * half + 2.1)


def test_the_bound_is_not_idle() -> None:
    """Fair coins bring the regret near the bound, so a weaker learner would break it."""
    shares = []
    for seed in range(20):
        regret = play(learner(112, FixedRate(300)), coins, 300, seed=seed).regret()
        shares.append(regret.expected / math.sqrt(300 * math.log(112) / 2))
    assert 0.6 < np.mean(shares) <= max(shares) < 1.0


def test_following_the_leader_would_break_the_bound() -> None:
    """A learner far too fast is caught by the very sequence that the right one survives."""

    class Hasty(FixedRate):
        def eta(self, arms: int, ended: int, gap: float) -> float:
            return 1e6

    regret = play(learner(4, Hasty(300)), against_the_leader, 300).regret()
    assert regret.expected > 2 * math.sqrt(300 * math.log(4) / 2)


rows = st.integers(2, 6).flatmap(
    lambda arms: st.lists(st.lists(st.floats(0, 1), min_size=arms, max_size=arms), min_size=1, max_size=40)
)
rates = st.sampled_from([Anytime(), Adaptive(), None])


def chosen(rate: LearningRate | None, table: list[list[float]]) -> LearningRate:
    return FixedRate(len(table)) if rate is None else rate


@given(rows, rates)
def test_any_utilities_keep_the_bound(table: list[list[float]], rate: LearningRate | None) -> None:
    hedge = learner(len(table[0]), chosen(rate, table))
    play(hedge, lambda _, number, __: np.array(table[number]), len(table))
    regret = hedge.regret()
    assert regret.expected <= regret.bound + ROUNDING
    assert regret.bound <= hedge.rate.worst_regret(len(hedge.arms), len(table)) + ROUNDING
    assert hedge.weights.sum() == pytest.approx(1.0)


@given(rows, st.lists(st.floats(0.01, 1), min_size=6, max_size=6), rates)
def test_any_prior_keeps_the_bound(
    table: list[list[float]], shares: list[float], rate: LearningRate | None
) -> None:
    arms = [f"arm-{number}" for number in range(len(table[0]))]
    hedge = Hedge(arms, prior=dict(zip(arms, shares, strict=False)), rate=chosen(rate, table))
    play(hedge, lambda _, number, __: np.array(table[number]), len(table))
    assert hedge.regret().expected <= hedge.regret().bound + ROUNDING


def mingled(count: int, rng: np.random.Generator) -> Iterator[tuple[str, int]]:
    """Yield begins in order and ends in any order, each after its begin."""
    open_: list[int] = []
    begun = 0
    while begun < count or open_:
        if begun < count and (not open_ or rng.random() < 0.5):
            yield "begin", begun
            open_.append(begun)
            begun += 1
        else:
            yield "end", open_.pop(int(rng.integers(len(open_))))


@settings(deadline=None)
@given(rows, st.integers(0, 2**32 - 1), rates)
def test_late_and_disordered_feedback_keeps_the_bound_and_the_weights(
    table: list[list[float]], seed: int, rate: LearningRate | None
) -> None:
    prompt = learner(len(table[0]), chosen(rate, table))
    play(prompt, lambda _, number, __: np.array(table[number]), len(table))
    late = learner(len(table[0]), chosen(rate, table))
    for what, number in mingled(len(table), np.random.default_rng(seed)):
        if what == "begin":
            late.begin(str(number))
        else:
            late.end(str(number), table[number])
    assert late.regret().expected <= late.regret().bound + ROUNDING
    if not isinstance(rate, Adaptive):  # whose rate depends on the order, by definition
        assert late.weights.tolist() == prompt.weights.tolist()
    assert late.utility.tolist() == prompt.utility.tolist()


@pytest.mark.parametrize(
    "rate", [FixedRate(200), Anytime(), Adaptive()], ids=["fixed", "anytime", "adaptive"]
)
@pytest.mark.parametrize("behind", [1, 5, 50, 200])
def test_an_adversary_cannot_use_the_delay_beyond_its_price(behind: int, rate: LearningRate) -> None:
    """Jobs are drawn `behind` ahead of their feedback, and the adversary punishes what was drawn."""
    hedge, open_ = learner(8, rate), []
    for number in range(200 + behind):
        if number < 200:
            hedge.begin(str(number))
            open_.append(str(number))
        if number >= behind and open_:
            job = open_.pop(0)
            weights = hedge.open[job].weights
            hedge.end(job, 1.0 - (weights == weights.max()))
        assert hedge.regret().expected <= hedge.regret().bound + ROUNDING
    assert hedge.ended == 200


def test_draws_earn_what_is_expected_of_them() -> None:
    """Realised and expected regret differ by luck alone: by about √K, not by K."""
    gaps = []
    for seed in range(30):
        hedge, rng = learner(5, Adaptive()), np.random.default_rng(seed)
        for number in range(200):
            hedge.begin(str(number), seed=seed)
            hedge.end(str(number), rng.random(5))
        gaps.append(hedge.regret().realised - hedge.regret().expected)
    assert abs(np.mean(gaps)) < 2.5
    assert max(map(abs, gaps)) < 20
