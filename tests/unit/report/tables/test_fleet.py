"""A simulated fleet as text, JSON, CSV, picture and page."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from slacktide.budget.allowance import Allowance
from slacktide.core.types import Reason, Refusal
from slacktide.report.figures.fleet import plot_fleet
from slacktide.report.pages.fleet import page as html_page
from slacktide.report.text.tables import fleet as fleet_words
from slacktide.report.text.tables.fleet import got, page, policies, worst
from slacktide.report.text.tables.grid import as_text
from slacktide.report.wire.fleet import as_json, jobs_csv, policies_csv
from slacktide.results.fleet import Budgeted, FleetComparison, by_class, money_at, outcomes, spent_until
from tests.unit.app.parts_of_fleets import simulated

JSON_PAGE = Path(__file__).parents[4] / "docs" / "reference" / "json.md"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> FleetComparison:
    return simulated(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def told(found: FleetComparison) -> FleetComparison:
    """The same as if its allocator had a price, a reserve, reasons and a job that it refused."""
    story = found.story
    moments = story.moments._replace(
        reserved_usd=np.full(len(story.moments.hours), 25.0),
        usd_per_job_hour=np.full(len(story.moments.hours), 8.5),
    )
    finish = story.finish_hours.copy()
    finish[1] = math.inf
    refused = {1: Refusal("it may need 412 usd; 300 are left", deadline_hours=14, budget_usd=712, gpus=8)}
    reasons = [(1.0, 0, Reason("waits")), (2.0, 0, Reason("spot is won again", {"hours_left": 2.0}))]
    changed = replace(story, moments=moments, refused=refused, finish_hours=finish, reasons=reasons)
    return replace(found, story=changed)


def text(comparison: FleetComparison) -> str:
    console = Console(width=400, record=True, file=io.StringIO())
    for thing in page(comparison, "team.yaml"):
        console.print(thing)
    return console.export_text()


def test_the_page_says_what_was_run_and_what_it_came_to(found: FleetComparison) -> None:
    out = text(found)
    for words in (
        "team.yaml: 5 jobs over 31d, recorded in past.csv; 2 with a deadline, 3 best effort",
        "budget $600.00 per calendar month (UTC); market synthetic:h100",
        "these jobs bring 0.02x the load the file promises",
        "At one common spend of", "what patient-spot(width=2) spends", "2 of 2", "1.25x",
        "The month under patient-spot(width=2):", "8 Jan 18:00", "projected",
        "$30.00 more a month would change nothing", "(measured by running the same jobs",
        "bert", "release", "in time,", "before it was due", "GPU-hours, ",
        "the best of 24 settings in hindsight", "left out: 1 job that came after 31d",
    ):  # fmt: skip
        assert words in out, words


def test_the_table_of_policies_comes_first(found: FleetComparison) -> None:
    out = text(found)
    assert out.index("mean") < out.index("straight") < out.index("class ")
    assert "over the lower bound" in as_text(policies(found))
    without = replace(found, rows=tuple(replace(row, over_bound=None) for row in found.rows))
    assert "over the lower bound" not in as_text(policies(without))


def test_prices_reserves_refusals_and_reasons_are_told(told: FleetComparison) -> None:
    out = text(told)
    for words in (
        "an hour of",
        "$8.50",
        "it may need 412 usd; 300 are left; it could be",
        "a deadline of 14h or a budget of $712.00 or up to 8 GPUs",
        "spot is won again (2h left)",
    ):
        assert words in out, words
    assert money_at(told.month, told.story, 0.005).reserved_usd == 25
    first = outcomes(told.month, told.story)
    assert [one.outcome for one in first] == ["done", "refused", "done", "in time", "done"]
    assert (first[3].value_usd, first[1].value_usd) == (50, 0)
    assert worst(first)[0].name == "release-2"
    assert got(first[1]._replace(spot_gpu_hours=0.0, on_demand_gpu_hours=0.0)) == "nothing"


def test_money_adds_up(found: FleetComparison) -> None:
    end = money_at(found.month, found.story, 1.0)
    assert end.spent_usd == pytest.approx(found.story.spent_usd)
    assert end.spent_usd + end.reserved_usd + end.free_usd == pytest.approx(600)
    half = money_at(found.month, found.story, 0.5)
    assert half.line_usd == 300
    assert half.projected_usd == pytest.approx(2 * half.spent_usd)
    assert found.story.held is not None
    assert 0 < spent_until(found.story.held, 2.0) < found.story.spent_usd


def test_classes_add_up(found: FleetComparison) -> None:
    rows = by_class(outcomes(found.month, found.story))
    assert [(row.name, row.jobs, row.deadlines, row.met) for row in rows] == [
        ("bert", 4, 1, 1),
        ("release", 1, 1, 1),
    ]
    assert sum(row.cost_usd for row in rows) == pytest.approx(found.story.spent_usd)


def test_a_budget_says_when_there_is_money_again() -> None:
    say = fleet_words.budget_words
    assert say(Allowance(20_000, 730, "calendar")) == "$20,000.00 per calendar month (UTC)"
    assert say(Allowance(20_000, 730, "rolling")) == "$20,000.00 in any 30d10h (month, rolling)"
    assert say(Allowance(900, 36)) == "$900.00 per 1d12h, counted from the beginning"


def test_a_time_is_told_by_its_periods(found: FleetComparison) -> None:
    month = found.month
    assert (fleet_words.simulated_time(month), fleet_words.first_period(month)) == ("One month", "month")
    longer = replace(month, hours=1488.0)
    assert (fleet_words.simulated_time(longer), fleet_words.first_period(longer)) == ("62d", "first month")


def test_more_money_and_less_are_told_in_hours(found: FleetComparison) -> None:
    first = found.rows[0].measured
    hours = first.mean_hours
    changed = replace(
        found,
        more=Budgeted(1600, first._replace(mean_hours=hours - 0.5)),
        less=Budgeted(500, first._replace(mean_hours=hours + 1, refused=2)),
    )
    more, less, how = fleet_words.change_lines(changed)
    assert more.startswith(
        "$1,000.00 more a month would save 1.5 hours of waiting over all jobs: mean response"
    )
    assert less.startswith("$100.00 less a month would cost 3.0 hours of waiting")
    assert less.endswith("; 2 jobs more refused")
    assert how.endswith("at $500.00 and $1,600.00 a month)")
    nobody = replace(found, rows=(replace(found.rows[0], measured=first._replace(mean_hours=math.nan)),))
    assert "there are none" in fleet_words.change_lines(nobody)[0]


def test_what_is_odd_is_noted(found: FleetComparison) -> None:
    row = found.rows[0]
    bad = row.measured._replace(late=2, unfinished=1, spent_usd=2 * found.common_usd)
    odd = replace(
        found,
        rows=(replace(row, measured=bad, run=replace(row.run, most_spent_share=1.5)),),
        month=replace(found.month, again=True, left_out=3, hours=100.0),
    )
    notes = " ".join(fleet_words.notes(odd))
    for words in ("missed 2 hard deadlines", "left 1 job without a deadline undone", "starts again",
                  "not at the common spend", "spent up to 150 %", "3 jobs that came after 4d4h",
                  "cover 13 % of a period"):  # fmt: skip
        assert words in notes, words


def keys(document: Any) -> set[str]:
    """Return all keys of a document, those of what it holds included."""
    if isinstance(document, dict):
        return {*document, *(key for value in document.values() for key in keys(value))}
    return {key for value in document for key in keys(value)} if isinstance(document, list) else set()


def test_json_has_the_documented_keys(told: FleetComparison) -> None:
    document = as_json(told, "team.yaml")
    json.dumps(document, allow_nan=False)
    text = JSON_PAGE.read_text(encoding="utf-8").split("### A fleet on a market")[1].split("\n## ")[0]
    for key in keys(document):
        assert f"`{key}`" in text, key
    assert (document["jobs"], document["budget_usd"], document["renewed"]) == (5, 600, "calendar")
    assert [row["policy"] for row in document["policies"]] == ["patient-spot(width=2)", "patient-spot"]
    assert document["job_rows"][1]["outcome"] == "refused"
    assert document["job_rows"][0]["deadline_hours"] is None


def test_tables_for_programs(found: FleetComparison) -> None:
    rows = list(csv.DictReader(io.StringIO(policies_csv(found))))
    assert [row["policy"] for row in rows] == ["patient-spot(width=2)", "patient-spot"]
    jobs = list(csv.DictReader(io.StringIO(jobs_csv(found))))
    assert (len(jobs), jobs[0]["job"], jobs[0]["owner"], jobs[0]["deadline_hours"]) == (
        5,
        "bert-1",
        "ada",
        "",
    )


def test_a_picture_and_a_page(found: FleetComparison, told: FleetComparison, tmp_path: Path) -> None:
    plot_fleet(told, tmp_path / "month.png")
    assert (tmp_path / "month.png").read_bytes().startswith(b"\x89PNG")
    rolling = replace(told.month, allowance=Allowance(600, 24, "rolling"))
    plot_fleet(replace(told, month=rolling), tmp_path / "rolling.svg")
    html = html_page(found, "team.yaml")
    for words in ("<svg", "Policies at one common spend", "What each job got and why", "bert-5"):
        assert words in html, words
