"""Tapes: they say what was appended, own their memory, and keep the names of what they have said."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slacktide.core.quotes import Quote
from slacktide.market.base import LruCache, Pool
from slacktide.market.source import open_market
from slacktide.market.tape import Past, Tape, first_hours

QUOTES = st.builds(Quote, st.floats(0.01, 9), st.floats(0.01, 9), st.integers(1, 16), st.integers(1, 16))
STEPS = st.lists(
    st.one_of(QUOTES, st.lists(QUOTES, max_size=90), st.integers(1, 200), st.tuples(QUOTES)), max_size=12
)
"""Append one, extend by many, hold so many slots more, revise the last."""


def columns(quotes: list[Quote]) -> list[np.ndarray]:
    return [np.array([quote[at] for quote in quotes]) for at in range(4)]


@given(STEPS)
def test_a_tape_says_what_came_and_then_holds_the_last(
    steps: list[Quote | list[Quote] | int | tuple[Quote]],
) -> None:
    tape, came, slots = Tape("here", 0.5), list[Quote](), 0
    for step in steps:
        if isinstance(step, Quote):
            tape.append(step)
            came, slots = [*came, step], len(came) + 1
        elif isinstance(step, list):
            tape.extend(*columns(step))
            came, slots = came + step, len(came) + len(step)
        elif isinstance(step, int):
            tape.hold(slots + step)
            slots += step if came else 0
        elif came:
            tape.revise(step[0])
            came[-1], slots = step[0], len(came)
        past = tape.past()
        assert list(past) == came + came[-1:] * (slots - len(came))
        assert (past.came, len(past), len(tape)) == (len(came), slots, slots)
        assert holds_nothing_else(past)


def holds_nothing_else(past: Past) -> bool:
    """Whether the memory behind a past is nought beyond it."""
    assert past.on_demand_gpus is not None
    prices = (past.spot_usd_per_gpu_hour, past.on_demand_usd_per_gpu_hour)
    for array in (*prices, past.spot_gpus, past.on_demand_gpus):
        buffer = array.base
        assert isinstance(buffer, np.ndarray)
        assert not array.flags.writeable
        if buffer[len(past) :].any():
            return False
    return True


def test_a_past_is_not_changed_by_what_comes_later() -> None:
    tape = Tape("here", 0.5)
    tape.extend(*columns([Quote(1.0, 2.0, 3)] * 60))
    past = tape.past()
    before = list(past)
    for _ in range(200):
        tape.append(Quote(9.0, 9.0, 9))
    assert list(past) == before
    assert len(tape) == 260


def test_names_tell_pasts_apart_exactly_where_they_differ() -> None:
    tape = Tape("here", 0.5)
    for gpus in (1, 2, 3):
        tape.append(Quote(1.0, 2.0, gpus))
    first = tape.past().mark(3)
    tape.hold(5)
    held = tape.past()
    assert held.mark(3) == first
    assert held.mark(5) != first
    tape.append(Quote(1.0, 2.0, 9))
    assert tape.past().mark(3) == first
    assert tape.past().mark(4) != held.mark(4)
    tape.revise(Quote(1.0, 2.0, 8))
    assert tape.past().mark(4)[0] != first[0]


def test_tapes_of_one_pool_have_one_name_and_other_pools_another() -> None:
    pool = open_market("synthetic:h100?days=1").pools[0]
    assert Tape.of(pool).key == Tape.of(pool).key == Past.of(pool).key == pool.key
    assert pool.window(0, len(pool)).key != pool.key


def test_a_past_knows_its_times() -> None:
    pool = open_market("synthetic:h100?days=2&slot=30m").pools[0]
    late = Pool("late", 0.5, *_three(pool, 5), pool.time(3))
    assert first_hours(late, pool, 10) == -3.5
    past = Past.of(late, first_hours(late, pool, 10))
    assert [past.slots_before(hours) for hours in (-4.0, -3.5, -3.4, -3.0, 50.0)] == [0, 0, 1, 1, 5]
    assert len(past.until(-2.0)) == 3
    assert past.until(-2.0).mark(2) == past.mark(2)
    tape = Tape.of(late, -3.5)
    assert [tape.slots_begun(hours) for hours in (-4.0, -3.5, -3.4, -3.0)] == [0, 1, 1, 2]


def _three(pool: Pool, slots: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (
        pool.spot_usd_per_gpu_hour[:slots],
        pool.on_demand_usd_per_gpu_hour[:slots],
        pool.spot_gpus[:slots],
    )


def test_a_past_reads_as_a_sequence() -> None:
    past = Past.of(open_market("synthetic:h100?days=1").pools[0])
    assert past[-1] == past[len(past) - 1]
    assert past[-3:] == [past[-3], past[-2], past[-1]]
    with pytest.raises(IndexError):
        past[len(past)]


def test_the_values_used_last_are_kept() -> None:
    kept: LruCache[str, int] = LruCache(2)
    made = []
    for key in "abacab":
        kept.get(key, lambda key=key: made.append(key) or len(made))  # type: ignore[misc,func-returns-value]
    assert "".join(made) == "abcb"
    assert list(kept) == ["a", "b"]
