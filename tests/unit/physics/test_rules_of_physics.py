"""The rules of time and work as functions of bare numbers, and that everybody follows them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slacktide.core.types import Job, JobState
from slacktide.physics.progress import ends_in_hours, pause_after, pause_on_change, terms, worked

hours = st.floats(0.0, 100.0)
work = st.floats(1e-6, 1e4)
rates = st.floats(0.1, 100.0)


@given(work, rates, hours)
def test_work_is_done_in_exactly_the_hours_until_its_end(left: float, rate: float, pause: float) -> None:
    span = ends_in_hours(left, rate, pause)
    waited, took, gained, ended = worked(left, rate, pause, span, 0.0)
    if span > pause:  # else the work is lost beside the pause's digits
        assert ended
        assert (waited, gained) == (pause, left)
        assert took == pytest.approx(left / rate, rel=1e-9, abs=1e-12)


@given(work, rates, hours, hours)
def test_what_is_not_done_is_less_than_all(left: float, rate: float, pause: float, span: float) -> None:
    waited, took, gained, ended = worked(left, rate, pause, span, 0.0)
    assert waited == min(pause, span)
    assert waited + took <= span * (1 + 1e-15)
    if not ended:
        assert 0.0 <= gained < left
        assert took == span - waited
        # What is left is never nothing, so that its end is an event to come.
        assert left - gained > 0.0


def test_nothing_ends_during_a_pause() -> None:
    assert worked(1e-15, 1.0, 0.5, 0.5, 1e-9) == (0.5, 0.0, 0.0, False)
    assert worked(1.0, 2.0, 0.5, 1.0 - 1e-10, 1e-9) == (0.5, 0.5 - 1e-10, 1.0, True)
    assert not worked(1.0, 2.0, 0.5, 1.0 - 1e-10, 0.0)[3]


@pytest.mark.parametrize(
    ("before", "after", "pause"),
    [
        ((0, 0), (0, 1), 0.5),
        ((1, 1), (2, 1), 0.5),
        ((1, 1), (0, 2), 0.5),  # an on-demand worker in place of a spot one is an added one
        ((2, 2), (1, 2), 0.2),
        ((2, 2), (2, 1), 0.2),
        ((2, 2), (2, 2), 0.1),
        ((2, 2), (0, 0), 0.0),
    ],
)
def test_any_added_worker_costs_a_restart(
    before: tuple[int, int], after: tuple[int, int], pause: float
) -> None:
    assert pause_on_change(0.5, 0.2, 0.1, *before, *after) == pause
    job = Job(work_gpu_hours=1.0, restart_hours=0.5, shrink_hours=0.2, widths=(1, 2, 3, 4))
    state = JobState(*before, pause_hours=0.1)
    assert pause_after(terms(job), state, *after, state.pool) == pause


def test_a_pause_that_is_longer_than_a_shrink_goes_on() -> None:
    assert pause_on_change(0.5, 0.2, 0.4, 0, 2, 0, 1) == 0.4
    assert math.isclose(pause_on_change(0.5, 0.5, 0.4, 0, 2, 0, 1), 0.5)
