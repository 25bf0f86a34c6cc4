"""Long tests begin first, and no test is lost or done twice over it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.parts_of_order import LONG_S, in_order

TESTS = Path(__file__).parents[1]


class One(NamedTuple):
    path: Path
    number: int


EVERY = [One(path, number) for path in sorted(TESTS.rglob("test_*.py")) for number in range(9)]


def test_files_that_are_called_long_are_there() -> None:
    assert [name for name in LONG_S if not (TESTS / name).is_file()] == []


@pytest.mark.parametrize("processes", [1, 2, 3, 4])
@pytest.mark.parametrize("tests", [EVERY, EVERY[:1], EVERY[-50:], []], ids=len)
def test_all_are_done_once(tests: list[One], processes: int) -> None:
    assert Counter(in_order(tests, processes)) == Counter(tests)


def test_each_process_begins_with_long_ones() -> None:
    found, size = in_order(EVERY, 3), len(EVERY) // 3
    first = [found[index * size].path.relative_to(TESTS).as_posix() for index in range(3)]
    assert first == list(LONG_S)[:3]
    last = [found[(index + 1) * size - 1].path.relative_to(TESTS).as_posix() for index in range(3)]
    assert not set(last) & set(LONG_S)
