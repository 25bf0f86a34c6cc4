"""What the runs of each policy come to."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.results.comparison import PolicySummary
from slacktide.results.run import CLAIRVOYANT, Run
from slacktide.results.runs import Runs, column


def summaries(parts: Sequence[Sequence[Run]], names: Sequence[str]) -> list[PolicySummary]:
    """Sum up the runs of each of these policies; each part is of one policy in one pool."""
    best = sum(
        usd for part in parts if policy_of(part) == CLAIRVOYANT for usd in column(part, "cost_usd").tolist()
    )
    return [summarise(name, [part for part in parts if policy_of(part) == name], best) for name in names]


def policy_of(part: Sequence[Run]) -> str:
    """Return whose runs these are."""
    return part.policy if isinstance(part, Runs) else part[0].policy


def summarise(name: str, mine: Sequence[Sequence[Run]], yardstick: float) -> PolicySummary:
    """Sum up the runs of one policy, beside what the clairvoyant paid in all."""

    def allpolicy_of(figure: str) -> Floats:
        return np.concatenate([column(part, figure) for part in mine])

    costs = allpolicy_of("cost_usd")
    paid = sum(costs.tolist())
    over = paid / yardstick if yardstick > 0 else (1.0 if paid <= 0 else math.inf)
    p10, p50, p90 = np.percentile(costs, (10, 50, 90))
    return PolicySummary(
        policy=name,
        mean_cost_usd=paid / len(costs),
        mean_utility_usd=float(np.mean(allpolicy_of("utility_usd"))),
        on_time_share=float(np.mean(allpolicy_of("on_time"))),
        cost_over_clairvoyant=over,
        p10_cost_usd=float(p10),
        p50_cost_usd=float(p50),
        p90_cost_usd=float(p90),
        mean_finish_hours=float(np.mean(allpolicy_of("finish_hours"))),
        mean_spot_gpu_hours=float(np.mean(allpolicy_of("spot_gpu_hours"))),
        mean_on_demand_gpu_hours=float(np.mean(allpolicy_of("on_demand_gpu_hours"))),
        mean_preemptions=float(np.mean(allpolicy_of("preemptions"))),
        mean_moves=float(np.mean(allpolicy_of("moves"))),
        mean_move_usd=float(np.mean(allpolicy_of("move_usd"))),
    )
