"""Every ticket is closed with a word for what closed it, so that nobody has to read sentences."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from slacktide.journal.events import Returned
from slacktide.providers.base import Machine, NoCapacity, Refused, Spent, Use

from .test_keeper import SPOT, Bench

ENDED = datetime(2026, 1, 1, 7, tzinfo=UTC)


def closed(bench: Bench) -> Returned:
    facts = [fact for fact in bench.diary.facts if isinstance(fact, Returned)]
    return facts[0]


@pytest.mark.parametrize(
    ("answer", "cause"),
    [(NoCapacity("full"), "no-capacity"), (Refused("no"), "refused"), (Spent("gone"), "spent")],
)
def test_a_final_no_says_which_no_it_was(answer: Exception, cause: str) -> None:
    bench = Bench()
    bench.provider.answers = [answer]
    bench.step({SPOT: 1})
    assert closed(bench).cause == cause


@pytest.mark.parametrize(
    ("machine", "cause", "ended"),
    [
        (Machine("i-1", "1-x", SPOT, "gone", why="interrupted", until_utc=ENDED), "interrupted", True),
        (Machine("i-1", "1-x", SPOT, "ending", why="interrupted", until_utc=ENDED), "interrupted", False),
        (Machine("i-1", "1-x", SPOT, "gone", why="it ended itself"), "gone", False),
        (Machine("i-1", "1-x", SPOT, "gone"), "gone", False),
    ],
)
def test_a_machine_that_ended_says_how_and_when(machine: Machine, cause: str, ended: bool) -> None:
    bench = Bench()
    bench.step({SPOT: 1})
    bench.provider.list = [machine]
    bench.step({SPOT: 1})
    assert (closed(bench).cause, closed(bench).ended_utc) == (cause, ENDED.isoformat() if ended else "")


@pytest.mark.parametrize(
    ("want", "use", "steps", "cause"),
    [
        ({}, Use(), 1, "not-wanted"),
        ({SPOT: 1}, Use(unfit={"1-x": "its node left"}), 1, "unfit"),
        ({SPOT: 1}, Use(ready=()), 17, "never-joined"),
    ],
)
def test_what_is_given_back_says_why(want: dict[object, int], use: Use, steps: int, cause: str) -> None:
    bench = Bench()
    bench.step({SPOT: 1})
    bench.show(("1-x", "up"))
    for _ in range(steps):
        bench.step(want, use=use)  # type: ignore[arg-type]
    assert closed(bench).cause == cause


def test_what_was_never_listed_says_so() -> None:
    bench = Bench()
    for _ in range(17):
        bench.step({SPOT: 1})
    assert closed(bench).cause == "unlisted"
