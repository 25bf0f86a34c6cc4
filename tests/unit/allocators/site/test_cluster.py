"""Who is given what of GPUs that are not all there yet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.budget.cluster import granted
from slacktide.core.compiled import compiled


def shares(held: list[int], wanted: list[int], gpus: int) -> list[int]:
    given = granted(np.array(held, dtype=np.int64), np.array(wanted, dtype=np.int64), gpus)
    found: list[int] = given.tolist()
    return found


@pytest.mark.parametrize(
    ("held", "wanted", "gpus", "found"),
    [
        ([0, 0], [2, 2], 4, [2, 2]),
        ([0, 0], [2, 2], 3, [2, 0]),  # all of it or nothing
        ([0, 0, 0], [4, 2, 1], 3, [0, 2, 1]),  # a later one takes what an earlier one cannot use
        ([3, 0], [1, 2], 3, [1, 2]),  # what is given up is free at once
        ([2, 1], [4, 1], 4, [2, 1]),  # who cannot grow keeps what it has
        ([2, 2], [2, 0], 2, [2, 0]),
        ([2, 2], [3, 3], 3, [2, 2]),  # fewer than are held: nobody grows
        ([], [], 5, []),
    ],
)
def test_who_gives_up_makes_room_and_the_first_grow_first(
    held: list[int], wanted: list[int], gpus: int, found: list[int]
) -> None:
    assert shares(held, wanted, gpus) == found


@settings(deadline=None)  # the first example compiles
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=12), st.integers(0, 30))
def test_grants_are_all_or_nothing_and_within_what_is_there(jobs: list[tuple[int, int]], more: int) -> None:
    held, wanted = np.array(jobs, dtype=np.int64).reshape(-1, 2).T
    gpus = int(held.sum()) + more
    given = granted(held, wanted, gpus)
    assert given.sum() <= gpus
    assert all(g in (min(h, w), w) for g, h, w in zip(given, held, wanted, strict=True))
    left = gpus - given.sum()
    assert all(w - g > left for g, w in zip(given, wanted, strict=True) if w > g)
    assert np.array_equal(compiled(granted)(held.copy(), wanted.copy(), gpus), given)
