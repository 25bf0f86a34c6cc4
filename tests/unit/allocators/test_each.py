"""Policies lifted to an allocator: asked in order of slack, each with what those before it leave."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from slacktide.allocators.each import each, slack_hours
from slacktide.allocators.site.spot import Claim, Spot
from slacktide.allocators.view import FleetView, JobColumns
from slacktide.core.errors import InputError
from slacktide.core.quotes import Quote
from slacktide.core.types import Allocation, Job, JobState
from slacktide.market.tape import PoolView, offer
from slacktide.policies.base import LATE
from slacktide.policies.view import View
from slacktide.simulation import plain
from tests import build

QUOTE = Quote(1.0, 4.0, 8)


@dataclass
class Jobs:
    """Jobs in one pool, as a run shows them."""

    deadlines: dict[str, float]
    states: dict[str, JobState] = field(default_factory=dict)
    now_hours: float = 0.0

    def name(self, place: int) -> str:
        return list(self.deadlines)[place]

    def view(self, place: int, spot: Spot) -> View:
        name = self.name(place)
        return View(
            job=Job(work_gpu_hours=4.0, deadline_hours=self.deadlines[name], widths=(1, 2, 4, 6), name=name),
            id=name,
            state=self.states.get(name, JobState()),
            now_hours=self.now_hours,
            next_hours=self.now_hours + 0.5,
            slot=0,
            slot_hours=0.5,
            pools=(PoolView("here", offer(QUOTE, spot.by_others(name).get("here", 0))),),
        )

    def fleet_view(self) -> FleetView:
        count = len(self.deadlines)
        ids, none, hours = np.arange(count), np.zeros(count, dtype=np.int64), np.zeros(count)
        claims = [Claim(name, "here", state.spot_gpus, 0.0) for name, state in self.states.items()]
        return FleetView(
            now_hours=self.now_hours,
            fleet=None,
            jobs=JobColumns(ids, ids, none, none, hours, none, none, hours, hours, None),
            due=range(count),
            ready_gpus=0,
            rented_gpus=0,
            spent_gpu_hours=0.0,
            spot=Spot(claims),
            shown=self,
        )


@dataclass
class Greedy:
    """Wants this many spot GPUs, and notes what it was offered."""

    gpus: int = 6
    offered: dict[str, int] = field(default_factory=dict)

    def decide(self, view: View) -> Allocation:
        self.offered[view.id] = view.quote.spot_gpus
        return Allocation(self.gpus)


def test_who_has_least_slack_is_asked_first_and_others_are_offered_what_is_left() -> None:
    policy, jobs = Greedy(), Jobs({"later": 30.0, "soon": 10.0, "last": 40.0})
    assert list(each(policy).decide(jobs.fleet_view())) == ["soon", "later", "last"]
    assert policy.offered == {"soon": 8, "later": 2, "last": 0}


def test_spot_that_is_held_is_not_taken_for_another_and_spot_that_is_given_up_is_free_for_the_next() -> None:
    held = {"later": JobState(spot_gpus=4), "soon": JobState(spot_gpus=4)}
    keeps = Greedy()
    each(keeps).decide(Jobs({"later": 30.0, "soon": 10.0}, held).fleet_view())
    assert keeps.offered == {"soon": 4, "later": 4}
    gives_up = Greedy(gpus=1)
    each(gives_up).decide(Jobs({"later": 30.0, "soon": 10.0}, held).fleet_view())
    assert gives_up.offered == {"soon": 4, "later": 7}


def test_a_decision_leaves_the_account_that_it_was_shown_alone() -> None:
    view = Jobs({"one": 10.0}).fleet_view()
    each(Greedy()).decide(view)
    assert view.spot.held("one") == 0


def test_past_its_deadline_no_policy_is_asked() -> None:
    policy, jobs = Greedy(), Jobs({"late": 10.0, "early": 40.0}, now_hours=11.0)
    wanted = each(policy).decide(jobs.fleet_view())
    assert wanted["late"] == Allocation(0, 6, reason=LATE)
    assert list(policy.offered) == ["early"]


def test_slack_is_the_time_a_job_could_stand_still() -> None:
    jobs = Jobs({"one": 10.0, "none": np.inf}, now_hours=1.0)
    assert slack_hours(jobs.view(0, Spot())) == pytest.approx(10.0 - 1.0 - 4.0 / 6)
    assert slack_hours(jobs.view(1, Spot())) == np.inf


def test_rows_are_the_views_of_all_jobs() -> None:
    assert [row.id for row in Jobs({"a": 10.0, "b": 20.0}).fleet_view().rows()] == ["a", "b"]


def test_widths_of_jobs_without_a_fleet_are_in_their_rows() -> None:
    with pytest.raises(InputError, match="got jobs of none; read their rows"):
        Jobs({"a": 10.0}).fleet_view().allowed(4)


def test_a_back_test_refuses_a_wish_for_another_pool() -> None:
    class Elsewhere:
        def decide(self, view: View) -> Allocation:
            return Allocation(0, 1, pool="elsewhere")

    pool = build.pool(1.0, 4.0, 4, slots=40)
    with pytest.raises(InputError, match="must stay in the job's pool, 'here', got 'elsewhere'"):
        plain.run(Job(work_gpu_hours=4.0, deadline_hours=10.0, widths=(1, 2)), pool, Elsewhere())
