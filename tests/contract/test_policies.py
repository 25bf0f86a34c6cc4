"""Every registered policy against every check of the contract."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from slacktide.checks import POLICY_CHECKS, CheckFailed, cases, check_policy
from slacktide.checks.policy import PolicyCheck
from slacktide.core.types import Allocation, Reason
from slacktide.market.base import Pool
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import DeadlineGuard
from slacktide.policies.uniform_progress import UniformProgress
from slacktide.policies.view import Policy, View
from tests.parts_of_effort import examples

EVERY = {
    **{name: policies.make(name) for name in policies},
    "uniform-progress, gang": UniformProgress(gang=True),
    "guarded gang": DeadlineGuard(UniformProgress(gang=True)),
    "guarded maximal-spot": DeadlineGuard(policies.make("maximal-spot")),
}
CASES = examples(60)
FEWER_CASES = {"ahap": examples(20), "stochastic-horizon": examples(30), "roaming-horizon": examples(20)}
"""Where a plain decision takes long. Other parameters of AHAP are checked in tests/unit/policy, its windows
against another solver in tests/parity; in one pool `roaming-horizon` is `stochastic-horizon`."""


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", EVERY)
def test_policy_keeps_the_contract(name: str, check: PolicyCheck) -> None:
    policy, rng = EVERY[name], np.random.default_rng(7)
    for case in cases(7, FEWER_CASES.get(name, CASES)):
        check(policy, case, rng)


class Greedy:
    """Asks for more than is offered."""

    def decide(self, view: View) -> Allocation:
        return Allocation(view.quote.spot_gpus + 1, 0, reason=Reason("greedy"))


class Mute:
    """Does not say why."""

    def decide(self, view: View) -> Allocation:
        return Allocation()


class Moody:
    """Decides differently when asked twice."""

    def __init__(self) -> None:
        self.asked = 0

    def decide(self, view: View) -> Allocation:
        self.asked += 1
        width = view.allowed_width(view.quote.spot_gpus)
        return Allocation(width if self.asked % 2 else 0, reason=Reason("moody"))


class Seer:
    """Reaches for the future into the simulator that asks: its view leads to none."""

    def decide(self, view: View) -> Allocation:
        frame = inspect.currentframe()
        while frame is not None and not isinstance(frame.f_locals.get("pool"), Pool):
            frame = frame.f_back
        tomorrow = frame.f_locals["pool"].quote(len(view.past())) if frame is not None else view.quote
        calm = tomorrow.spot_gpus >= view.quote.spot_gpus
        return Allocation(
            view.allowed_width(view.quote.spot_gpus) if calm else 0, reason=Reason("knows", {"calm": calm})
        )


@pytest.mark.parametrize(
    ("policy", "words"),
    [(Greedy(), "offered"), (Mute(), "reason"), (Moody(), "same view"), (Seer(), "future")],
    ids=["greedy", "mute", "moody", "seer"],
)
def test_checks_catch_a_policy_that_breaks_the_contract(policy: Policy, words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        check_policy(policy)


def test_check_catches_a_guard_that_does_not_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slacktide.policies.deadline_guard.guard", lambda sight, choice: choice)
    with pytest.raises(CheckFailed, match="on time"):
        check_policy(DeadlineGuard(UniformProgress()))
