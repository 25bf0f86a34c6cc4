"""The policies that Kong et al. 2025 choose from; `slacktide learn --pool-of paper` learns over them."""

from __future__ import annotations

from slacktide.core.own_class import Spec
from slacktide.policies.selection.policy_set import ahanp, ahap

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
