"""Filters of a list of jobs, and what a job file promises: its kind of deadline, and known work."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest

from slacktide.app.journal.listing import JobFilter, JobTerms, parse_since, terms_of
from slacktide.core.errors import InputError, UnknownNameError
from slacktide.results.status import JobStatus

ONE = JobStatus(
    name="a", policy="p", status="running", health="on-time", hours=1.0, spot_gpus=0, on_demand_gpus=0,
    progress_gpu_hours=0.0, cost_usd=0.0, preemptions=0, submitted_utc="2026-01-05T09:00:00Z",
    work_gpu_hours=1.0, deadline_hours=None, owner="ann", job_class="wide",
)  # fmt: skip
LISTED = [
    ONE,
    dataclasses.replace(ONE, name="b", status="succeeded", owner="bob", submitted_utc="2026-01-06T09:00:00Z"),
    dataclasses.replace(
        ONE, name="c", health="late-expected", job_class="", submitted_utc="2026-01-07T09:00:00Z"
    ),
    dataclasses.replace(ONE, name="d", status="deadline_missed", submitted_utc="2026-01-08T09:00:00Z"),
]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (JobFilter(), "abcd"),
        (JobFilter(states=("active",)), "ac"),
        (JobFilter(states=("succeeded", "running")), "abc"),
        (JobFilter(owner="bob"), "b"),
        (JobFilter(job_class="wide"), "abd"),
        (JobFilter(since=datetime(2026, 1, 7, tzinfo=UTC)), "cd"),
        (JobFilter(late=True), "cd"),
        (JobFilter(most=1), "d"),
        (JobFilter(owner="ann", most=9), "acd"),
    ],
)
def test_jobs_for_which_all_holds_are_kept(wanted: JobFilter, names: str) -> None:
    assert "".join(one.name for one in wanted.kept(LISTED)) == names


def test_a_state_may_be_called_as_lists_show_it() -> None:
    assert JobFilter(states=("out-of-money",)) == JobFilter(states=("budget_exhausted",))


def test_a_state_must_be_one() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'running'"):
        JobFilter(states=("runing",))


def test_a_moment_is_a_date_or_so_long_ago() -> None:
    now = datetime(2026, 1, 8, 12, tzinfo=UTC)
    assert parse_since("2d", now) == datetime(2026, 1, 6, 12, tzinfo=UTC)
    assert parse_since("2026-01-06") == datetime(2026, 1, 6, tzinfo=UTC)
    assert parse_since("2026-01-06T10:00+02:00") == datetime(2026, 1, 6, 8, tzinfo=UTC)
    with pytest.raises(InputError, match="--since must be a duration"):
        parse_since("yesterday")


FILE = 'name: a\nrun: "true"\nresources: {{accelerators: "H100:1..4"}}\nwork: {work}\n{more}\n'


@pytest.mark.parametrize(
    ("work", "more", "kind", "known"),
    [
        ("4 gpu-hours", "deadline: 5h", "hard", True),
        ("4 gpu-hours", "deadline: 5h\nvalue: 9 usd\nworthless_after: 8h", "soft", True),
        ("4 gpu-hours", "deadline: none", "none", True),
        ("unknown", "deadline: 5h", "hard", False),
    ],
)
def test_terms_are_read_from_the_file(work: str, more: str, kind: str, known: bool) -> None:
    found = terms_of(FILE.format(work=work, more=more), "job.yaml")
    assert (found.deadline_kind, found.work_known) == (kind, known)


def test_a_file_that_cannot_be_read_any_more_tells_nothing() -> None:
    assert terms_of("nonsense", "job.yaml") == JobTerms()
