"""Waits double from failure to failure, up to a limit, and start again after a success."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slacktide.core.waits import MOST_KEPT, GrowingWait, RetryTable, undrawn


@given(st.floats(0.0, 1.0), st.integers(1, 2000))
def test_a_wait_keeps_half_of_its_length_and_never_passes_the_limit(drawn: float, failures: int) -> None:
    wait = GrowingWait(3.0, 500.0, lambda: drawn)
    for number in range(failures):
        most = min(500.0, 3.0 * 2.0 ** min(number, 30))
        assert most / 2.0 <= wait.after_failure() <= most
    assert wait.failures == failures
    assert wait.after_failure(at_least=900.0) == 900.0
    wait.reset()
    assert wait.after_failure() <= 3.0


def test_full_waits_double_exactly() -> None:
    wait = GrowingWait(0.1, 1.0, undrawn)
    assert [wait.after_failure() for _ in range(5)] == [0.1, 0.2, 0.4, 0.8, 1.0]


def test_a_table_keeps_things_apart() -> None:
    table = RetryTable(1.0, 4.0)
    assert table.is_due("a", -1e9)
    table.after_failure("a", 10.0)
    table.after_failure("a", 10.0)
    assert (table.is_due("a", 11.9), table.is_due("a", 12.0), table.is_due("b", 0.0)) == (False, True, True)
    table.wait_once("b", 10.0, 0.5)
    assert (table.is_due("b", 10.4), table.is_due("b", 10.5)) == (False, True)
    table.reset("a")
    table.after_failure("a", 20.0)
    assert table.is_due("a", 21.0)


def test_a_table_forgets_what_is_long_over() -> None:
    table = RetryTable(1.0, 4.0)
    for number in range(MOST_KEPT + 1):
        table.after_failure(number, 0.0)
    table.after_failure("new", 100.0)
    table.tidy(100.0)
    for key in ("new", 0):  # what is remembered waits twice as long
        table.after_failure(key, 200.0)
    assert (table.is_due("new", 201.0), table.is_due(0, 201.0)) == (False, True)
