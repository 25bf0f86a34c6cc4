"""The policies that Kong et al. 2025 choose from; `slacktide learn --pool-of paper` learns over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slacktide.core.errors import InputError, shown
from slacktide.core.own_class import Spec
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import label
from slacktide.policies.selection.policy_set import ahanp, ahap, name_of
from slacktide.policies.view import Policy

THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Spot price thresholds of the paper, as shares of the on-demand price."""

PAPER_SET: tuple[Spec, ...] = (
    *(
        ahap(window, commitment, threshold)
        for window in range(1, 6)
        for commitment in range(1, window + 1)
        for threshold in THRESHOLDS
    ),
    *(ahanp(threshold) for threshold in THRESHOLDS),
)
"""Its 112 policies: 105 AHAP (15 pairs of window and commitment) and 7 AHANP."""


def make_arms(pool: Iterable[Spec | Policy]) -> dict[str, Policy]:
    """Make the policies of a pool and name them; users' own policies and specs may be mixed."""
    named: dict[str, Policy] = {}
    for one in pool:
        written = isinstance(one, str | Mapping)
        policy = policies.make(one)
        name = name_of(one) if written else label(policy)  # type: ignore[arg-type]
        if name in named:
            raise InputError(f"each arm must be given once, got {shown(name)} twice")
        named[name] = policy
    return named
