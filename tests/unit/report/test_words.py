"""One word for where a job stands."""

from __future__ import annotations

import pytest

from slacktide.report import words


@pytest.mark.parametrize(
    ("status", "health", "word"),
    [
        ("running", "on-time", "running"),
        ("running", "measuring", "measuring"),
        ("running", "at-risk", "at-risk"),
        ("pending", "measuring", "pending"),
        ("starting", "measuring", "starting"),
        ("recovering", "late", "late"),
        ("succeeded", "late", "succeeded"),
    ],
)
def test_the_outlook_is_said_where_it_is_worse(status: str, health: str, word: str) -> None:
    assert words.state(status, health) == word
