"""Every registered stream policy against every check of the contract."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from slacktide.arrays import Ints
from slacktide.budget.fleet import Fleet
from slacktide.budget.policy.base import AnyStreamPolicy, Arrived, FleetView, StreamEvent, stream_policies
from slacktide.checks import STREAM_POLICY_CHECKS, CheckFailed, check_stream_policy, stream_cases
from slacktide.checks.stream_policy import StreamPolicyCheck

EVERY: dict[str, AnyStreamPolicy] = {
    **{name: stream_policies.make(name) for name in stream_policies},
    "fifo of eight": stream_policies.make({"fifo": {"cluster_gpus": 8, "gpus": 3}}),
    "srpt of eight": stream_policies.make({"srpt": {"cluster_gpus": 8, "gpus": 2}}),
    "equi of eight": stream_policies.make({"equi": {"cluster_gpus": 8}}),
    "band in rounds": stream_policies.make(
        {"efficiency-band": {"efficiency": 0.9, "band_share": 0.02, "round_hours": 0.3}}
    ),
}


@pytest.mark.parametrize("check", STREAM_POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("policy", EVERY.values(), ids=EVERY)
def test_stream_policy_keeps_the_contract(policy: AnyStreamPolicy, check: StreamPolicyCheck) -> None:
    rng = np.random.default_rng(7)
    for case in stream_cases(7, 20):
        check(policy, case, rng)


def test_every_policy_says_what_it_does() -> None:
    for name in stream_policies:
        assert stream_policies.summary(name).endswith(".")


class Greedy:
    """Gives a width that not every class may have."""

    def decide(self, view: FleetView) -> Ints:
        return np.full(len(view.ids), 3)


class Crowded:
    """Shares out a cluster twice."""

    def rent_gpus(self, view: FleetView) -> int:
        return 8

    def decide(self, view: FleetView) -> Ints:
        widths: Ints = view.fleet.stages.narrower[view.stage, -1]
        return widths


class Moody:
    """Decides differently the second time."""

    asked = 0

    def decide(self, view: FleetView) -> Ints:
        type(self).asked += 1
        column = -1 if self.asked % 2 else min(4, view.fleet.stages.narrower.shape[1] - 1)
        widths: Ints = view.fleet.stages.narrower[view.stage, column]
        return widths


class Sizes:
    """Knows sizes without declaring it: the run's own stream gives them away."""

    def decide(self, view: FleetView) -> Ints:
        frame = sys._getframe()
        while "self" not in frame.f_locals or not hasattr(frame.f_locals["self"], "stream"):
            assert frame.f_back is not None
            frame = frame.f_back
        large = frame.f_locals["self"].stream.size[view.ids] > 1.0
        stages = view.fleet.stages
        return np.where(large, view.allowed(1000), stages.least[view.stage])


class Stubborn:
    """Lets everybody wait."""

    def decide(self, view: FleetView) -> Ints:
        return view.allowed(0)


class Silent:
    """Learns, and cannot write down what it knows."""

    wake_hours = np.inf

    def begin(self, fleet: Fleet) -> Silent:
        return type(self)()

    def __init__(self) -> None:
        self.arrivals = 0

    def learn(self, event: StreamEvent) -> None:
        self.arrivals += isinstance(event, Arrived)

    def decide(self, view: FleetView) -> Ints:
        return view.allowed(2 if self.arrivals > 6 else 1)


class Forgetful(Silent):
    """Writes down nothing of what it decides by."""

    def remember(self) -> Mapping[str, Any]:
        return {}

    def recall(self, memory: Mapping[str, Any]) -> None:
        pass


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Greedy(), "a width must be 0 or in"),
        (Crowded(), "add up to at most"),
        (Moody(), "same decisions"),
        (Sizes(), "sizes of unfinished jobs"),
        (Stubborn(), "wait for ever"),
        (Silent(), "must have remember and recall"),
        (Forgetful(), "must go on from what it wrote down"),
    ],
    ids=["greedy", "crowded", "moody", "sizes", "stubborn", "silent", "forgetful"],
)
def test_checks_catch_a_policy_that_breaks_the_contract(policy: AnyStreamPolicy, words: str) -> None:
    with pytest.raises(CheckFailed, match=words):
        check_stream_policy(policy)
