"""Jobs that share a site: none is late that need not be, and no spot is sold twice (T6, T7)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from campaigns.lives.site import POLICIES, SLOT_HOURS, SLOTS, Always, contexts, lived, markets, sites
from slacktide.allocators.site.spot import Claim, Spot
from slacktide.core.types import Job, JobState
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Lived, Preempted
from slacktide.market.base import Market
from slacktide.physics import ledger
from slacktide.physics import progress as physics
from slacktide.policies.base import policies
from tests import build
from tests.parts_of_effort import examples


def check(site: dict[str, JobContext], *, steps_per_slot: int = 1) -> None:
    """See that nobody was late, nothing was sold twice, and every bill is right."""
    store, state = lived(site, steps_per_slot=steps_per_slot)
    for job, context in site.items():
        ended = state.jobs[job].ended
        assert ended is not None, job
        assert ended.status == "succeeded", (job, ended)
        assert context.job.on_time(ended.finish_hours), (job, ended.finish_hours, context.job.deadline_hours)
    stretches = [record.event.priced for record in store.read() if isinstance(record.event, Lived)]
    checked = ledger.audit(stretches, lambda payer: site[payer].tariff)
    assert checked.clean, checked


@given(site=sites(POLICIES, 1, 1))
@settings(deadline=None, max_examples=examples(150))
def test_a_job_handed_in_anywhere_inside_a_slot_is_in_time(site: dict[str, JobContext]) -> None:
    check(site)


@given(site=sites(["stochastic-horizon"], 1, 2))
@settings(deadline=None, max_examples=10)
def test_so_is_one_whose_policy_plans_to_the_deadline(site: dict[str, JobContext]) -> None:
    check(site)


@given(site=sites(POLICIES, 2, 5), steps=st.sampled_from([1, 3]))
@settings(deadline=None, max_examples=examples(150))
def test_jobs_that_share_a_market_are_in_time_and_spot_is_never_oversold(
    site: dict[str, JobContext], steps: int
) -> None:
    check(site, steps_per_slot=steps)


@pytest.mark.parametrize("first", ["tight", "loose"])
@pytest.mark.parametrize("offered", ["when they come", "later"])
def test_who_has_the_least_time_is_asked_first(first: str, offered: str) -> None:
    # In time they would be in any order; asked first, the one in a hurry gets the spot that both want.
    spot_gpus = [4] * SLOTS if offered == "when they come" else [0] * 3 + [4] * (SLOTS - 3)
    market = Market((build.pool(1.0, 4.0, spot_gpus, slot_hours=SLOT_HOURS),))
    site = {
        name: make_context(
            Job(work_gpu_hours=4, deadline_hours=hours, widths=(4,)), market, market.pools[0], Always(4), 0
        )
        for name, hours in (("tight", 6.0), ("loose", 9.0))
    }
    store, _ = lived({name: site[name] for name in sorted(site, reverse=first == "tight")})
    held = [r.event.priced.stretch for r in store.read() if isinstance(r.event, Lived)]
    assert next(one.payer for one in held if one.spot_gpus) == "tight"


@pytest.mark.parametrize("old_hours", [6.0, 9.0])
def test_the_market_takes_the_youngest_spot_by_force_whoever_is_asked_first(old_hours: float) -> None:
    spot_gpus = [4] * 3 + [2] * (SLOTS - 3)
    market = Market((build.pool(1.0, 4.0, spot_gpus, slot_hours=SLOT_HOURS),))
    site = {
        name: make_context(
            Job(work_gpu_hours=5, deadline_hours=hours, widths=(2,), checkpoint_hours=4.0),
            market, market.pools[0], Always(2), slot, began_hours=slot * SLOT_HOURS,
        )
        for name, hours, slot in (("old", old_hours, 0), ("young", 7.5, 1))
    }  # fmt: skip
    store, _ = lived(site)
    lost = [r.event for r in store.read() if isinstance(r.event, Preempted)]
    assert [(one.job, one.slot, one.spot_before, one.spot_left) for one in lost] == [("young", 3, 2, 0)]
    assert lost[0].lost_gpu_hours > 0  # by force, so what was not saved is gone


def test_an_audit_of_all_jobs_finds_spot_that_was_sold_twice() -> None:
    market = Market((build.pool(1.0, 4.0, 4, slots=SLOTS, slot_hours=SLOT_HOURS),))
    job = Job(work_gpu_hours=4, deadline_hours=12, widths=(4,))
    context = make_context(job, market, market.pools[0], policies.make("maximal-spot"), 0)
    alone = [lived({name: context})[0] for name in ("one", "two")]
    both = [r.event.priced for store in alone for r in store.read() if isinstance(r.event, Lived)]
    moved = [one._replace(stretch=one.stretch._replace(payer=str(n))) for n, one in enumerate(both)]
    assert ledger.audit(both[:2], lambda payer: context.tariff).clean
    assert (
        "8 spot GPUs held in here, of 4 offered"
        in ledger.audit(moved, lambda payer: context.tariff).oversold[0]
    )


claims = st.lists(
    st.builds(Claim, st.uuids().map(str), st.sampled_from("ab"), st.integers(0, 6), st.integers(0, 3)),
    max_size=6,
    unique_by=lambda claim: claim.job,
)


@given(held=claims, offered=st.integers(0, 20))
def test_the_youngest_lose_first_and_no_more_than_must(held: list[Claim], offered: int) -> None:
    spot = Spot(held)
    spot.lose("a", offered, [claim.job for claim in held])
    here = [claim for claim in held if claim.pool == "a"]
    left = {claim.job: spot.held(claim.job) for claim in held}
    assert sum(left[claim.job] for claim in here) == min(offered, sum(claim.spot_gpus for claim in here))
    assert all(left[claim.job] == claim.spot_gpus for claim in held if claim.pool == "b")
    for number, older in enumerate(here):
        for later, younger in enumerate(here):
            if (older.added_hours, number) < (younger.added_hours, later) and left[younger.job] > 0:
                assert left[older.job] == older.spot_gpus


@given(context=markets().flatmap(lambda market: contexts(market, ["on-demand"])))
@settings(max_examples=50)
def test_on_demand_from_the_submission_on_would_be_in_time(context: JobContext) -> None:
    begins = physics.latest_start(context.terms, 0.0)
    assert begins >= context.terms.submitted_hours - 1e-9
    assert math.isfinite(physics.on_demand_finish(context.terms, JobState(), begins, context.terms.fastest))
