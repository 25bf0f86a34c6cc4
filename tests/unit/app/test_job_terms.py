"""What a job's file promises: how its deadline is meant, and whether its work is known."""

from __future__ import annotations

import pytest

from slacktide.app.jobs.job_terms import JobTerms, terms_of

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
