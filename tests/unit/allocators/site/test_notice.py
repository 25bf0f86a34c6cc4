"""What a warning tells: the first border at which spot that is held goes, and nothing else."""

from __future__ import annotations

import pytest

from slacktide.allocators.site.spot import Claim, Spot
from slacktide.core.types import Allocation, Job, JobState, Reason
from slacktide.market.base import Market, Pool
from slacktide.policies.view import View, look
from slacktide.simulation import plain
from slacktide.simulation.plain import run_over_pools
from slacktide.simulation.playback import Playback, Setting, TriedMoment
from slacktide.simulation.pool_options import PoolOptions
from tests import build

GPUS = (4, 4, 4, 2, 4, 0, 3)


def pool(notice_hours: float, name: str = "zone") -> Pool:
    return build.pool(1.0, 4.0, GPUS, name=name, notice_hours=notice_hours)


def playback(*pools: Pool) -> Playback:
    return Playback(pools[0], 0, Setting(neighbours=tuple(pools[1:])))


def test_spot_that_is_held_is_warned_as_far_ahead_as_the_market_says() -> None:
    market = playback(pool(1.0))
    assert [market.notice_hours(slot, 0, 4) for slot in range(6)] == [None, 1.0, 0.5, 1.0, 0.5, 0.5]
    assert [market.notice_hours(slot, 0, 2) for slot in range(5)] == [None, None, None, 1.0, 0.5]
    assert market.notice_hours(6, 0, 3) == 0.5, "after its series a pool offers no spot"


def test_who_holds_nothing_and_who_is_told_too_late_is_not_warned() -> None:
    assert playback(pool(1.0)).notice_hours(2, 0, 0) is None
    assert playback(pool(0.4)).notice_hours(2, 0, 4) is None, "shorter than a slot"
    assert playback(pool(0.0)).notice_hours(2, 0, 4) is None


def test_only_the_pool_of_the_job_warns() -> None:
    market = playback(pool(1.0), pool(1.0, "other"))
    for own in (0, 1):
        moment = market.at(2, own, 4)
        assert [view.notice_hours for view in moment] == [0.5 if at == own else None for at in (0, 1)]
        assert [view.notice_hours for view in moment.sharing({"zone": 1}, {})][own] == 0.5
        tried = TriedMoment(moment, [[], []])
        assert tried[own].notice_hours == 0.5
    view = look(Job(work_gpu_hours=1, deadline_hours=3), market.at(2, 0, 4), JobState(), 2, 0.5)
    assert view.notice_hours == 0.5


class Heard:
    """Holds all spot, and writes down of what it was warned."""

    def __init__(self) -> None:
        self.notices: list[float | None] = []

    def decide(self, view: View) -> Allocation:
        self.notices.append(view.notice_hours)
        return Allocation(min(view.quote.spot_gpus, 4), 0, reason=Reason("all"))


@pytest.mark.parametrize("roams", [False, True])
def test_a_back_test_warns(roams: bool) -> None:
    job, heard = Job(work_gpu_hours=50, deadline_hours=3.5, widths=(1, 2, 3, 4)), Heard()
    if roams:
        run_over_pools(PoolOptions.of(job, "", Market((pool(0.5), pool(0.0, "other")))), heard)
    else:
        plain.run(job, pool(0.5), heard)
    assert heard.notices == [None, None, 0.5, None, 0.5, None, None]


def test_whose_spot_goes_first_is_warned_first() -> None:
    claims = [Claim("old", "zone", 2, 0.0), Claim("new", "zone", 3, 1.0), Claim("same", "zone", 1, 1.0)]
    spot = Spot([*claims, Claim("elsewhere", "other", 9, 0.0)])
    assert [spot.safe_gpus(job) for job in ("old", "new", "same", "elsewhere", "nobody")] == [2, 5, 6, 9, 0]
    for offered in range(7):
        left = spot.copy()
        left.lose("zone", offered, ["old", "new", "same"])
        for claim in claims:
            assert (left.held(claim.job) == claim.spot_gpus) == (offered >= spot.safe_gpus(claim.job))
