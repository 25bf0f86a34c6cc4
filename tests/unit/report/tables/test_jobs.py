"""The list of jobs has one word for where each stands, and times as people say them."""

from __future__ import annotations

import dataclasses

import pytest

from slacktide.report.text.tables.jobs import text
from slacktide.results.status import JobStatus

RUNNING = JobStatus(
    name="lora", policy="auto", status="running", health="on-time", hours=60.01755, spot_gpus=2,
    on_demand_gpus=0, progress_gpu_hours=20.0, cost_usd=12.5, preemptions=1,
    submitted_utc="2026-01-01T00:00:00Z", work_gpu_hours=40.0, deadline_hours=72.0009,
    progress_estimated=False, blocked=None,
)  # fmt: skip


def test_times_are_rounded() -> None:
    assert "2d12h of 3d  2 spot" in text([RUNNING])
    assert "59m of 3d" in text([dataclasses.replace(RUNNING, hours=0.991)])


@pytest.mark.parametrize(
    ("status", "health", "word"),
    [
        ("running", "on-time", "running"),
        ("running", "at-risk", "at-risk"),
        ("recovering", "late", "late"),
        ("released", "late", "released"),
        ("budget_exhausted", "at-risk", "out-of-money"),
        ("deadline_missed", "late", "late"),
        ("cancelled", "on-time", "cancelled"),
    ],
)
def test_a_state_is_one_word(status: str, health: str, word: str) -> None:
    heading, row = text([dataclasses.replace(RUNNING, status=status, health=health)]).split("\n")
    assert heading.split()[:3] == ["job", "state", "done"]
    assert row.split()[:3] == ["lora", word, "50"]
