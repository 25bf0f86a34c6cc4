"""Tables of past jobs of a fleet on a market: every column, every form of time, every mistake."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from slacktide.budget.classes import JobTemplate, Member
from slacktide.core.errors import FileError, InputError
from slacktide.core.types import Job
from slacktide.files.fleet.recorded_jobs import FleetJobs, read_fleet_jobs

CLASSES = (
    JobTemplate(Job(name="bert", work_gpu_hours=4, widths=(1, 2)), 1.0, weight=3.0, patience_hours=8.0),
    JobTemplate(Job(name="vit", work_gpu_hours=2, widths=(1, 2)), 1.0, weight=3.0, patience_hours=8.0),
)
PAST = Path(__file__).parents[3] / "examples" / "team-month" / "past.csv"


def read(
    tmp_path: Path, text: str, classes: tuple[JobTemplate, ...] = CLASSES, sizes: str = "fixed"
) -> FleetJobs:
    path = tmp_path / "past.csv"
    path.write_text(text, encoding="utf-8")
    return read_fleet_jobs(path, classes, sizes=sizes)


def test_the_documented_columns(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "submit_hours,class,work_gpu_hours,deadline_hours,value_usd,priority,patience_hours,name,owner\n"
        "2.5,vit,3,,,,,,\n1,bert,5,12,600,2,0.5,first,ada\n3,vit,1,none,none,,none,,\n",
    )
    first, second, third = found.jobs
    assert found.began is None
    bert, vit = (template.job for template in CLASSES)
    assert first == Member(1, bert, 5, 12, 600, 2, 0.5, "first", "bert", "ada")
    assert second == Member(2.5, vit, 3, None, None, 3, 8, "", "vit", "")
    assert third == Member(3, vit, 1, math.inf, 0, 3, math.inf, "", "vit", "")


@pytest.mark.parametrize(
    "table",
    [
        "submit_utc,class\n2025-10-04T06:00:00Z,bert\n2025-10-05T08:30:00+02:00,vit\n",
        "submitted,class\n2025-10-04 06:00,bert\n2025-10-05 06:30,vit\n",
        "submit_hours,class\n2025-10-04T06:00Z,bert\n2025-10-05T06:30Z,vit\n",
        "submit_s,application\n1759557600,bert\n1759645800,vit\n",
    ],
)
def test_dates_are_counted_from_the_midnight_before_the_first(tmp_path: Path, table: str) -> None:
    found = read(tmp_path, table)
    assert found.began == datetime(2025, 10, 4, tzinfo=UTC)
    assert [job.submitted_hours for job in found.jobs] == pytest.approx([6.0, 30.5])


def test_work_is_read_from_durations_or_drawn(tmp_path: Path) -> None:
    found = read(tmp_path, "submit_s,class,duration_s,num_gpus\n3600,bert,3600,2\n")
    assert (found.jobs[0].submitted_hours, found.jobs[0].work_gpu_hours) == (1, 2)
    table = "submit_hours,class\n" + "1,bert\n" * 40
    assert {job.work_gpu_hours for job in read(tmp_path, table).jobs} == {4}
    assert len({job.work_gpu_hours for job in read(tmp_path, table, sizes="lognormal").jobs}) == 40


def test_one_class_need_not_be_named(tmp_path: Path) -> None:
    assert read(tmp_path, "submit_hours\n1\n", CLASSES[:1]).jobs[0].kind == "bert"


def test_the_example_is_a_month() -> None:
    kinds = [JobTemplate(Job(name=name, work_gpu_hours=1, widths=(1,)), 1) for name in
             ("finetune", "sweep", "release", "evaluation")]  # fmt: skip
    jobs = read_fleet_jobs(PAST, kinds, sizes="fixed").jobs
    assert 700 < jobs[-1].submitted_hours < 744
    assert {job.deadline_hours for job in jobs} == {None, 8, 14}


BROKEN = {
    "no time": ("class\nbert\n", 1, "one column must say when jobs were submitted"),
    "two times": ("submit_hours,submit_s,class\n1,2,bert\n", 1, "got submit_hours and submit_s"),
    "no class": ("submit_hours\n1\n", 1, "a column 'class' or 'application' must say"),
    "column twice": ("submit_hours,class,class\n1,bert,bert\n", 1, "a column must come once, got 'class'"),
    "unknown class": ("submit_hours,class\n1,brt\n", 2, "did you mean 'bert'?"),
    "time": ("submit_hours,class\nsoon,bert\n", 2, "must be a number or a time such as 2030-05-01T18:00:00Z"),
    "negative": ("submit_hours,class\n-1,bert\n", 2, "column 'submit_hours' must be >= 0, got '-1'"),
    "not a number": ("submit_hours,class\nnan,bert\n", 2, "must be >= 0, got 'nan'"),
    "mixed": (
        "submit_hours,class\n1,bert\n2025-10-04T06:00Z,vit\n",
        3,
        "must be dates or numbers in all rows",
    ),
    "work": ("submit_hours,class,work_gpu_hours\n1,bert,0\n", 2, "'work_gpu_hours' must be > 0, got 0"),
    "deadline": ("submit_hours,class,deadline_hours\n1,bert,0\n", 2, "column 'deadline_hours' must be in"),
    "deadline word": ("submit_hours,class,deadline_hours\n1,bert,now\n", 2, "must be a number, got 'now'"),
    "value": ("submit_hours,class,value_usd\n1,bert,-5\n", 2, "column 'value_usd' must be in 0..1e+12"),
    "priority": ("submit_hours,class,priority\n1,bert,none\n", 2, "'priority' must be a number, got 'none'"),
    "name twice": ("submit_hours,class,name\n1,bert,a\n2,bert,b\n3,vit,a\n", 4, "got 'a' again after line 2"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_mistake_is_answered_with_its_line(case: str, tmp_path: Path) -> None:
    text, line, words = BROKEN[case]
    with pytest.raises(FileError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value)
    assert caught.value.line == line


def test_a_table_must_have_jobs_of_classes_within_a_century(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="must have at least one, got none"):
        read(tmp_path, "submit_hours,class\n")
    with pytest.raises(FileError, match="must last at most"):
        read(tmp_path, "submit_utc,class\n1900-01-01,bert\n2025-01-01,bert\n")
    with pytest.raises(InputError, match="got a fleet file without classes"):
        read(tmp_path, "submit_hours\n1\n", ())
