"""What a plan says of its assumptions is true and reads as people speak."""

from __future__ import annotations

import dataclasses

from slacktide.files.job import parse_job
from slacktide.market.source import open_market
from slacktide.policies.base import policies
from slacktide.simulation.plan.assumptions import recent_starts
from slacktide.simulation.plan.futures import learned_from
from slacktide.simulation.plan.look_ahead import look_ahead
from slacktide.simulation.plan.planned_job import PlannedJob, PlanStart

JOB = parse_job(
    "resources: {accelerators: H100:1..2}\nwork: 2 gpu-hours\ndeadline: 8h\n", path="job.yaml"
).job


def test_starts_are_never_worth_more_than_there_are() -> None:
    assert recent_starts(24, 320.0, JOB) == (
        "the 24 recent starts lie in the last 13.3 days, far enough apart to hardly overlap"
    )
    assert recent_starts(24, 80.0, JOB).endswith("and overlap: they are worth about 10 independent ones")
    assert recent_starts(3, 9.0, JOB).endswith("they are worth about one independent one")


def test_pools_that_are_not_there_are_not_counted() -> None:
    (pool,) = open_market("synthetic:h100?days=2&slot=1h&seed=1").pools
    other = dataclasses.replace(pool, name="other")
    assert learned_from(pool, ()) == (
        "futures go on as pool 'h100-1' did up to 2025-01-03 00:00 UTC: 2 days of its own history"
    )
    assert "'h100-1' and 1 other pool did up to" in learned_from(pool, [other])
    assert learned_from(pool, [other, other]).endswith("4 days of the others'")


def test_a_plan_says_in_how_many_futures_the_job_depends_on_on_demand() -> None:
    market = open_market("synthetic:h100?days=10&slot=1h&seed=1")
    begin = PlanStart.at(market, "h100-1", 200)

    def shortage(policy: str) -> str:
        said = look_ahead(PlannedJob.in_pool(JOB, begin), [policies.make(policy)]).assumptions
        return next(one for one in said if one.startswith("on-demand GPUs are always available"))

    assert "in 100% of the simulated futures the job needs some, and may be late" in shortage("on-demand")
    assert "in 100%" not in shortage("maximal-spot")
