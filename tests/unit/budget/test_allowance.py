"""Money over time: periods of a budget, and what was spent in them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from slacktide.budget.allowance import Allowance, Period, Spending
from slacktide.core.errors import InputError


def calendar(start: datetime, usd: float = 744.0) -> Allowance:
    """Return a budget of calendar months from a start on."""
    return Allowance(usd, renewal="calendar", start=start)


def test_calendar_months_go_on_over_the_end_of_a_year() -> None:
    allowance = calendar(datetime(2025, 12, 1, tzinfo=UTC))
    assert allowance.period(10.0) == Period(0.0, 744.0, 744.0)
    assert allowance.period(744.0) == Period(744.0, 1488.0, 744.0)
    assert allowance.period(1488.0) == Period(1488.0, 1488.0 + 28 * 24, 744.0)


def test_the_first_month_is_prorated_and_the_next_is_whole() -> None:
    allowance = calendar(datetime(2025, 12, 30, tzinfo=UTC))
    first = allowance.period(0.0)
    assert (first.since_hours, first.until_hours) == (-29 * 24.0, 48.0)
    assert first.budget_usd == pytest.approx(48.0)
    assert allowance.period(47.9).until_hours == 48.0
    assert allowance.period(48.0) == Period(48.0, 48.0 + 744.0, 744.0)


def test_a_month_that_ends_at_this_very_moment_is_over() -> None:
    allowance = calendar(datetime(2025, 12, 30, tzinfo=UTC))
    assert allowance.period(48.0 - 1e-8).since_hours == 48.0


def test_february_of_a_leap_year_has_29_days() -> None:
    period = calendar(datetime(2028, 2, 1, tzinfo=UTC)).period(0.0)
    assert period.until_hours == 29 * 24.0


def test_months_are_those_of_utc_wherever_the_run_begins() -> None:
    """The evening of the 31st in New York is January already."""
    start = datetime(2025, 12, 31, 20, tzinfo=timezone(timedelta(hours=-5)))
    assert calendar(start).period(0.0).until_hours == 31 * 24.0 - 1.0


def test_fixed_periods_are_counted_from_the_beginning() -> None:
    allowance = Allowance(50.0, 0.1)
    assert allowance.period(0.0) == Period(0.0, 0.1, 50.0)
    third = allowance.period(0.3)
    assert third.since_hours == pytest.approx(0.3)
    assert third.until_hours == pytest.approx(0.4)


def test_rolling_money_comes_back_a_period_later() -> None:
    allowance = Allowance(50.0, 24.0, "rolling")
    assert allowance.period(30.0) == Period(6.0, math.inf, 50.0)
    assert allowance.usd_per_hour == pytest.approx(50.0 / 24.0)


def test_spending_is_what_came_after_a_moment() -> None:
    spending = Spending()
    assert spending.total_usd == 0.0
    for hours, usd in ((1.0, 3.0), (2.0, 0.0), (2.5, 4.0), (2.5, 1.0), (4.0, 2.0)):
        spending.add(hours, usd)
    assert spending.hours == [1.0, 2.5, 4.0]
    assert spending.total_usd == 10.0
    assert [spending.since(hours) for hours in (-1.0, 0.9, 1.0, 2.5, 3.0, 4.0)] == [
        10.0,
        10.0,
        7.0,
        2.0,
        2.0,
        0.0,
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"usd": 0.0}, "must be > 0 usd"),
        ({"usd": 5.0, "period_hours": math.inf}, "must be > 0 hours"),
        ({"usd": 5.0, "renewal": "weekly"}, "must be renewed by"),
        ({"usd": 5.0, "start": datetime(2025, 1, 1)}, "must have a time zone"),
    ],
)
def test_numbers_that_cannot_be_meant_are_refused(fields: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Allowance(**fields)
