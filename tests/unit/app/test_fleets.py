"""Fleets on a market: which jobs and which time are simulated, and allocators at one common spend."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.app.fleets.simulate import (
    ON_A_MARKET,
    budget_usd,
    change_usd,
    fleet_scene,
    simulate_fleet,
    usual_policies,
)
from slacktide.app.fleets.simulate_request import FleetArrivals, arrivals_of
from slacktide.app.markets.market import MarketSpec
from slacktide.budget.allowance import Allowance
from slacktide.core.errors import InputError
from slacktide.results.fleet import FleetComparison, Measured
from slacktide.simulation.fleet.tuning import best_at, settings_of

from .parts_of_fleets import AS_IT_IS, PAST, question, simulated


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> FleetComparison:
    return simulated(tmp_path_factory.mktemp("fleet"))


def arrivals(folder: Path, **asked: object) -> FleetArrivals:
    asking = question(folder, **asked)  # type: ignore[arg-type]
    return arrivals_of(asking, asking.open_market())


def test_one_period_is_simulated_and_later_jobs_are_left_out(tmp_path: Path) -> None:
    got = arrivals(tmp_path)
    assert (len(got.jobs), got.left_out, got.hours) == (5, 1, 744)
    assert got.allowance == Allowance(600, 730, "calendar", datetime(2025, 1, 1, tzinfo=UTC))
    assert question(tmp_path).jobs_from == "recorded in past.csv"


def test_a_time_may_be_asked_for_in_hours_or_in_periods(tmp_path: Path) -> None:
    assert len(arrivals(tmp_path, hours=3.0).jobs) == 3
    assert arrivals(tmp_path, periods=2.0).hours == 2 * 744
    assert len(arrivals(tmp_path, periods=2.0).jobs) == 6
    with pytest.raises(InputError, match="only one of --hours and --periods"):
        arrivals(tmp_path, hours=1.0, periods=1.0)
    with pytest.raises(InputError, match="--hours must be > 0, got 0"):
        arrivals(tmp_path, hours=0.0)
    with pytest.raises(InputError, match=r"must come in the time simulated, got none in 0.1 hours"):
        arrivals(tmp_path, hours=0.1)


def test_a_table_shorter_than_a_period_is_simulated_as_it_is(tmp_path: Path) -> None:
    short = PAST.replace("900,bert,4,,,\n", "")
    assert arrivals(tmp_path, past=short).hours == pytest.approx(4.5 * 6 / 5)


def test_jobs_are_drawn_from_the_classes_over_one_period(tmp_path: Path) -> None:
    drawn = arrivals(tmp_path, past=None, seed=3)
    assert question(tmp_path, past=None, seed=3).jobs_from == "poisson arrivals and fixed sizes, seed 3"
    assert len(drawn.jobs) == pytest.approx(14 * 31, rel=0.2)
    assert {(job.kind, job.work_gpu_hours) for job in drawn.jobs} == {("bert", 3), ("release", 6)}
    assert drawn.jobs[-1].submitted_hours < drawn.hours == 744
    assert len(arrivals(tmp_path, past=None, count=7).jobs) == 7
    scene = fleet_scene(drawn, question(tmp_path).file, question(tmp_path).open_market())
    assert {member.due_hours for member in scene.members} == {8, np.inf}


def test_dates_find_their_slot_of_the_market_and_their_month(tmp_path: Path) -> None:
    table = "submitted,class\n2025-01-02T03:00Z,bert\n"
    got = arrivals(tmp_path, past=table)
    assert (got.start, got.jobs[0].submitted_hours) == (24, 3)
    assert got.allowance.start == datetime(2025, 1, 2, tzinfo=UTC)
    assert arrivals(tmp_path, past=table.replace("2025", "2031")).start == 0
    assert arrivals(tmp_path, past=table, start=5).start == 5
    with pytest.raises(InputError, match=r"--start must be in 0\.\.47, the slots of the market, got 48"):
        arrivals(tmp_path, past=table, start=48)


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--count must not be given with --jobs"):
        arrivals(tmp_path, count=5)
    with pytest.raises(InputError, match="got a fleet file without any; name past jobs with --jobs"):
        arrivals(tmp_path, fleet="budget: 5 usd/day\nmarket: synthetic:h100?days=2\n", past=None)
    with pytest.raises(InputError, match="at most 200000 jobs must be drawn"):
        arrivals(tmp_path, past=None, count=300_000)
    with pytest.raises(InputError, match="--budget: a budget must be an average"):
        arrivals(tmp_path, budget="5")
    with pytest.raises(InputError, match="must be money per period, such as 20000 usd/month, got '5 gpus'"):
        arrivals(tmp_path, budget="5 gpus")
    with pytest.raises(InputError, match="must decide about spot and money, got 'fixed-width'"):
        simulate_fleet(question(tmp_path, hours=3.0, policies=("fixed-width",)))


def test_another_budget_and_one_pool_may_be_asked_for(tmp_path: Path) -> None:
    asked = question(tmp_path, budget="70 usd/week", market=MarketSpec(pool="h100-1", slot_hours=1.0))
    assert (asked.allowance.usd, asked.allowance.renewal) == (70, "fixed")
    assert [pool.name for pool in asked.open_market().pools] == ["h100-1"]


def test_a_market_that_is_too_short_begins_anew(found: FleetComparison, tmp_path: Path) -> None:
    assert not found.month.again
    asked = question(tmp_path, periods=2.0)
    market = asked.open_market()
    assert fleet_scene(arrivals_of(asked, market), asked.file, market).again


def test_the_first_that_is_not_tuned_says_what_is_spent(found: FleetComparison) -> None:
    first, tuned = found.rows
    assert (found.common_of, found.common_usd) == (first.policy, first.measured.spent_usd)
    assert first.settings == ()
    assert tuned.tried == 24
    assert 1 <= len(tuned.settings) <= 2
    assert tuned.measured.mean_hours <= first.measured.mean_hours + 1e-9
    assert (first.over_bound, tuned.over_bound) == (None, 1.25)


def test_jobs_have_what_the_table_says_of_them(found: FleetComparison) -> None:
    assert found.deadlines == 2
    names = [facts.name for facts in found.month.jobs]
    assert names == ["bert-1", "release-2", "bert-3", "bert-4", "bert-5"]
    assert (found.month.jobs[0].owner, found.month.jobs[3].value_usd) == ("ada", 50)
    np.testing.assert_array_equal(found.story.deadline_hours, [np.inf, 9, np.inf, 9, np.inf])
    assert found.story.held is not None


def test_the_load_is_told_against_what_the_classes_promise(found: FleetComparison) -> None:
    month = found.month
    assert month.promised_gpus == pytest.approx(2.0)
    assert month.brought_gpus == pytest.approx(24 / 744)
    assert month.load_ratio == pytest.approx(12 / 744)


def test_where_all_are_tuned_the_budget_is_spent(tmp_path: Path) -> None:
    found = simulate_fleet(question(tmp_path, hours=6.0, budget="40 usd/day", policies=("patient-spot",)))
    assert found.common_of == ""
    assert found.common_usd == pytest.approx(10.0)
    assert found.less is not None
    assert found.more is not None
    assert (found.less.budget_usd, found.more.budget_usd) == (38, 42)


def test_known_allocators_are_compared_the_fleets_own_first() -> None:
    known = [name for name in ON_A_MARKET if name in allocators]
    assert "patient-spot" in known
    assert usual_policies() == known
    assert usual_policies("patient-spot")[0] == "patient-spot"
    assert len(usual_policies("patient-spot")) == len(known)
    assert usual_policies(AS_IT_IS) == [AS_IT_IS, *known]


def test_settings_are_parameters_that_the_allocator_has() -> None:
    assert len(settings_of("patient-spot")) == 24
    assert settings_of("shadow-prices") == []
    for name in ON_A_MARKET:
        for setting in settings_of(name) if name in allocators else []:
            allocators.make({name: setting})


def run_of(mean: float, usd: float, late: int = 0) -> Measured:
    return Measured(mean, 2 * mean, 5, late, 0, 0, usd, 0.5)


def test_the_best_settings_at_a_spend_are_found_in_hindsight() -> None:
    runs = [run_of(8, 100), run_of(4, 200), run_of(6, 150), run_of(3, 400), run_of(1, 120, late=1)]
    between = best_at(runs, 300)
    assert (between.low, between.high, between.share) == (1, 3, 0.5)
    assert between.of(runs).mean_hours == 3.5
    assert between.of(runs).spent_usd == 300
    assert best_at(runs, 50).of(runs) == runs[0]
    assert best_at(runs, 900).of(runs) == runs[3]


def test_a_change_of_budget_is_round_and_telling() -> None:
    assert [change_usd(usd) for usd in (20_000, 9_000, 600, 200_000)] == [1000, 1000, 30, 10_000]


def test_money_of_a_time_is_that_of_its_periods() -> None:
    month = Allowance(744, 730, "calendar", datetime(2025, 1, 1, tzinfo=UTC))
    assert budget_usd(month, 744) == pytest.approx(744)
    assert budget_usd(month, 372) == pytest.approx(372)
    assert budget_usd(Allowance(240, 24), 36) == pytest.approx(360)
    assert budget_usd(Allowance(240, 24, "rolling"), 36) == pytest.approx(360)
