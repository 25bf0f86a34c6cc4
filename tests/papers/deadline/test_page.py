"""A reproduction as files: names are escaped, sentences read from the rows, folders of others left alone."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from slacktide.core.errors import InputError
from slacktide_papers.deadline import rows
from slacktide_papers.deadline.findings import finding
from slacktide_papers.deadline.gains import gains
from slacktide_papers.deadline.page import as_json, write_reproduction
from slacktide_papers.deadline.places import job_of
from slacktide_papers.deadline.rows import Chosen, Point, Reproduction, Step
from slacktide_papers.deadline.words import headline, percent
from slacktide_papers.reproduction import MARKER, check_folder
from tests import build

HOSTILE = "<b>$x^2$\x1b[31m"
SERIES = (*rows.BASELINES, rows.AHANP, rows.AHAP_ARIMA, rows.AHAP_NOISY, rows.HORIZON)


def points(experiment: str) -> list[Point]:
    return [
        Point(experiment, HOSTILE, x, f"{x:g}", name, 10.0 * turn, 100.0, turn / 10, 0.01, 1.0, 1.0, 4)
        for turn, name in enumerate(SERIES, start=1)
        for x in (0.0, 1.0)
    ]


@pytest.fixture(scope="module")
def made() -> Reproduction:
    pool = build.pool(1.0, 4.0, 8, slots=9, name="p")
    found = [
        point
        for name in (rows.TIGHTNESS, rows.VOLATILITY, rows.NOISE, rows.PARAMETERS)
        for point in points(name)
    ]
    steps = [
        Step("s", rate, jobs, 1.0, 2.0, 0.5, "a", 0.5, 0.1, 2.0, 1.0)
        for rate in rows.SELECTIONS
        for jobs in (1, 2)
    ]
    ends = [
        Chosen(
            "s", rate, 2, 3, 60.0, 60.0, "a", 80.0, "a", 80.0, 50.0, "a", 0.5, 0.6, 1.0, 2.0, 10.0, 40.0, 50.0
        )
        for rate in rows.SELECTIONS
    ]  # fmt: skip
    every = tuple(gains(found, ends))
    return Reproduction(
        0, True, job_of(pool, 14.0), tuple(found), tuple(steps), tuple(ends), every, (HOSTILE,)
    )


def test_names_from_files_are_escaped_everywhere(made: Reproduction, tmp_path: Path) -> None:
    files = write_reproduction(made, tmp_path / "out")
    page = files[0].read_text(encoding="utf-8")
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "\x1b" not in page


def test_headline_names_the_paper_and_every_baseline(made: Reproduction) -> None:
    said = " ".join(headline(made))
    assert "54.8 %" in said
    assert "+66.7 % above uniform-progress" in said
    assert all(name in said for name in rows.BASELINES)


def test_findings_read_the_rows(made: Reproduction) -> None:
    (contest,) = finding(rows.TIGHTNESS, made)
    assert "stochastic-horizon earns the most, 70.0 %" in contest
    (scenario,) = finding("selection", made)
    assert "75.0 % of the best fixed policy" in scenario


def test_json_has_no_number_that_is_none(made: Reproduction) -> None:
    gain = made.gains[0]._replace(largest=math.nan)
    assert (
        as_json(Reproduction(0, True, made.job, (), (), (), (*made.gains, gain), ()))["gains"][-1]["largest"]
        is None
    )


@pytest.mark.parametrize(
    ("share", "text"), [(0.1234, "+12.3 %"), (-0.05, "−5.0 %"), (12.0, "+1,200.0 %"), (math.nan, "–")]
)
def test_percent(share: float, text: str) -> None:
    assert percent(share) == text


def test_folders_of_others_are_refused(tmp_path: Path) -> None:
    check_folder(tmp_path, force=False)
    check_folder(tmp_path / "new", force=False)
    (tmp_path / "mine").write_text("dear")
    with pytest.raises(InputError, match="--force"):
        check_folder(tmp_path, force=False)
    check_folder(tmp_path, force=True)
    (tmp_path / MARKER).write_text("{}")
    check_folder(tmp_path, force=False)
    with pytest.raises(InputError, match="must be a folder"):
        check_folder(tmp_path / "mine", force=True)
