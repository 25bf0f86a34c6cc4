"""The budget reproduction as files: names are escaped, verdicts are read from the rows."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from slacktide_papers.budget import rows
from slacktide_papers.budget.epoch_words import LINES, epoch_findings, epoch_grid
from slacktide_papers.budget.equal import contests, costs, ratios
from slacktide_papers.budget.findings import finding, headline
from slacktide_papers.budget.page import as_json, write_budget_reproduction
from slacktide_papers.budget.rows import BudgetReproduction, Check, Contest, Point, Width

HOSTILE = "<b>$x^2$\x1b[31m"
EXPERIMENTS = (rows.PAPER, rows.MIXES, rows.AUTOSCALING, rows.MACHINES)
FACTORS = {
    rows.FIXED: 1.0,
    rows.OTHER_RATES: 1.0,
    rows.BAND: 1.7,
    rows.SLOW_BAND: 1.2,
    rows.EQUI: 3.0,
    rows.ONLINE: 1.25,
}


PARTS = (1.9, 1.6, 1.4, 1.25, 1.1, 1.3, 1.02, 1.12, 2.5)
"""The ratios of the lines of the last experiment."""


def points(experiment: str, machines: str) -> list[Point]:
    return [
        Point(
            experiment, HOSTILE, machines, series, "k", gpus * 0.9 if "fixed-width" in series else math.nan,
            gpus, gpus / 10, factor * 10 / gpus, factor * 30 / gpus, 10 / gpus, factor,
            0.0, 0.0, 0.0, 0, 9, 5,
        )
        for series, factor in FACTORS.items()
        for gpus in (12.0, 18.0, 31.0)
    ]  # fmt: skip


def epoch_contests() -> list[Contest]:
    """The figures of a claim whose parts are easy to tell: by line, the same on two drawn streams."""
    return [
        Contest(f"{rows.DRAWN} {draw}", machines.name, series, rows.FIXED, 5, 1.0, ratio, 3.0, 1.0)
        for (_, series, machines), ratio in zip(LINES, PARTS, strict=True)
        for draw in (1, 2)
    ]


@pytest.fixture(scope="module")
def made() -> BudgetReproduction:
    found = [
        point
        for experiment in EXPERIMENTS
        for machines in ("ideal machines", "nodes of 4")
        for point in points(experiment, machines)
    ]
    compared = ratios(found)
    return BudgetReproduction(
        seed=0,
        quick=True,
        machines="nodes of 4",
        points=tuple(found),
        widths=tuple(Width(HOSTILE, b, "c", b, b, 1 / b, 1 / b) for b in (1.0, 2.0)),
        checks=(Check(HOSTILE, 2.0, 1.0, 1.1, 0.1, 2.0, 2.1, 1.002, 50),),
        ratios=tuple(compared),
        contests=tuple(contests(compared)),
        costs=tuple(costs(found)),
        epochs=tuple(epoch_contests()),
        notes=(HOSTILE,),
    )


def test_names_from_files_are_escaped_everywhere(made: BudgetReproduction, tmp_path: Path) -> None:
    files = write_budget_reproduction(made, tmp_path / "out")
    page = files[0].read_text(encoding="utf-8")
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "\x1b" not in page


def test_headline_reads_the_rows(made: BudgetReproduction) -> None:
    said = " ".join(headline(made))
    assert "at most 1.0 standard errors" in said
    assert "0.2 % above the formula" in said
    assert "No policy is below the frontier" in said
    assert "every minute: jobs take 1.70× as long" in said
    assert "1.70×" in said.split("as claimed", maxsplit=1)[0]
    assert "every 10 min: jobs take 1.20× as long" in said
    assert "less than claimed" in said
    assert "takes 1.25× as long as fixed-width at the same bill" in said
    assert "every minute takes 1.36× as long as online-width" in said


def test_a_run_below_the_frontier_is_shouted_about(made: BudgetReproduction) -> None:
    low = made.points[-1]._replace(over_bound=0.9)
    said = " ".join(headline(dataclasses.replace(made, points=(*made.points, low))))
    assert "1 of 145 runs lie below the frontier, the lowest by 10.0 %" in said
    assert "No policy is below" not in said


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.1, "less than claimed"), (1.8, "as claimed"), (2.5, "more than claimed")]
)
def test_verdicts(made: BudgetReproduction, factor: float, verdict: str) -> None:
    changed = tuple(one._replace(median=factor) for one in made.contests)
    lines = headline(dataclasses.replace(made, contests=changed))
    said = [line for line in lines if "every minute: jobs take" in line]
    assert said
    assert all(line.endswith(f"{verdict}.") for line in said)


def test_findings_name_ratios_and_missed_budgets(made: BudgetReproduction) -> None:
    said = " ".join(finding(rows.AUTOSCALING, made))
    assert "fixed cluster, EQUI 3.00× (3.00×–3.00×)" in said
    assert "another stream's rates 11.1 % to 11.1 %" in said
    assert "every minute takes 1.00× as long as with ideal machines and 1.70×" in " ".join(
        finding(rows.MACHINES, made)
    )


def test_json_has_no_number_that_is_none(made: BudgetReproduction) -> None:
    gone = made.contests[0]._replace(median=math.nan)
    document = as_json(dataclasses.replace(made, contests=(*made.contests, gone)))
    assert document["contests"][-1]["median"] is None
    json.dumps(document, allow_nan=False)


def test_parts_of_the_claim_are_told_apart(made: BudgetReproduction) -> None:
    said = " ".join(epoch_findings(made.epochs))
    assert "as published takes 1.90× as long" in said
    assert "is claimed: as claimed." in said
    assert "of the 0.90 that it takes longer, 0.60 (67 %) is restarts" in said
    assert "0.20 (22 %) is beginning on one GPU" in said
    assert "0.10 (11 %) is left" in said
    assert "too, where it believed in 30 s, 1.40×" in said
    assert "phases are worth 0.02" in said
    assert "one speedup per application is worth 0.10" in said
    assert "recorded" not in said
    assert said in " ".join(headline(made))
    assert finding(rows.EPOCHS, made) == epoch_findings(made.epochs)


def test_recorded_streams_have_a_column_of_their_own(made: BudgetReproduction) -> None:
    assert [column.heading for column in epoch_grid(made.epochs).columns][1:] == [
        "85 drawn jobs: median",
        "range",
    ]
    other = [one._replace(panel="pollux-1", median=2 * one.median) for one in made.epochs]
    table = epoch_grid([*made.epochs, *other[:2]])
    assert table.rows[0][1:] == ("1.90×", "1.90×–1.90×", "3.80×", "3.80×–3.80×")
    assert table.rows[1][3:] == ("", "")
