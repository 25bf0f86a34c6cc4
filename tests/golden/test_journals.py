"""Older journals are read as ever: `slacktide jobs`, `cost` and `events` print the same, byte for byte.

The journals stand for those that users have: `journals/README.md` says what is in each and how it was made.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.cli import run

FOLDER = Path(__file__).parent / "journals"
JOBS = {
    "finished": ("finished",),
    "unfinished": ("unfinished",),
    "stream": ("one", "two", "three"),
    "cancelled": ("cancelled",),
    "whole-slots": ("whole-slots",),
    "whole-slots-unclean": ("whole-slots-unclean",),
}
"""The jobs of each journal."""
WRONG_BILLS = ("whole-slots-unclean",)
"""Jobs whose bill an audit finds wrong."""


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Ask a copy of a journal something, so that the journal itself stays as it is."""

    def answer(journal: str, *words: str) -> tuple[int, str]:
        copy = shutil.copy(FOLDER / f"{journal}.db", tmp_path)
        code = run([*words, "--journal", str(copy), "-o", "json"])
        return code, capsys.readouterr().out

    return answer


@pytest.mark.parametrize("journal", JOBS)
def test_jobs_are_listed_as_ever(
    journal: str, ask: Callable[..., tuple[int, str]], golden: Callable[[Path, str], None]
) -> None:
    code, out = ask(journal, "jobs")
    assert code == 0
    golden(FOLDER / "printed" / f"{journal}-jobs.json", out)


@pytest.mark.parametrize(("journal", "job"), [(name, job) for name, jobs in JOBS.items() for job in jobs])
def test_bills_are_as_ever(
    journal: str, job: str, ask: Callable[..., tuple[int, str]], golden: Callable[[Path, str], None]
) -> None:
    code, out = ask(journal, "cost", job)
    assert code == (1 if job in WRONG_BILLS else 0)
    name = journal if job == journal else f"{journal}-{job}"
    golden(FOLDER / "printed" / f"{name}-cost.json", out)


@pytest.mark.parametrize("journal", JOBS)
def test_events_are_told_as_ever(
    journal: str, ask: Callable[..., tuple[int, str]], golden: Callable[[Path, str], None]
) -> None:
    code, out = ask(journal, "events")
    assert code == 0
    golden(FOLDER / "printed" / f"{journal}-events.jsonl", out)
    for job in JOBS[journal]:
        code, told = ask(journal, "events", job)
        assert (code, told) == (
            0,
            "".join(line for line in out.splitlines(True) if f'"job": "{job}"' in line),
        )
