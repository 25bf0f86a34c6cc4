"""Laws of units and job files for any input: round trips, and no exception but our own."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.core import units
from slacktide.core.errors import InputError, SlacktideError
from slacktide.files.job import parse_job

NOW = datetime(2030, 1, 1, tzinfo=UTC)
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
PARSERS: list[Callable[[str], object]] = [
    units.parse_duration_hours,
    units.parse_money_usd,
    units.parse_work_gpu_hours,
    units.parse_range,
    units.parse_accelerators,
    units.parse_budget,
    units.parse_arrivals_per_hour,
]

near_units = st.text(alphabet="0123456789.,:{}-+e $usdgphmHUSD ", max_size=20)
marks = st.sampled_from([": ", " ", "\n", "\t", "{", "}", "[", "]", "'", "# ", "| ", "? ", "---\n", "<<: "])
traps = st.sampled_from(["&a ", "*a", "!!int ", '"\\UFFFFFFFF"', "%YAML 9\n", "\x00", "\ufeff", "\ud800"])
values = st.sampled_from(["null", "~", "-1", "1e999", ".nan", "12:30", "9" * 400])
snippets = marks | traps | values


@given(st.floats(0, units.MAX_DURATION_HOURS))
def test_a_written_duration_reads_back(hours: float) -> None:
    back = units.parse_duration_hours(units.format_duration(hours))
    assert math.isclose(back, hours, abs_tol=0.51 / 3600)
    assert units.format_duration(back) == units.format_duration(hours)


@given(st.floats(0, 1e9))
def test_written_money_reads_back(usd: float) -> None:
    back = units.parse_money_usd(units.format_usd(usd))
    assert math.isclose(back, usd, abs_tol=0.0051)
    assert units.format_usd(back) == units.format_usd(usd)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_every_number_can_be_written(number: float) -> None:
    assert units.format_duration(number)
    assert units.format_usd(number)


@given(st.sets(st.integers(1, 4096), min_size=1, max_size=20))
def test_written_widths_read_back(widths: set[int]) -> None:
    text = "{" + ",".join(map(str, widths)) + "}"
    assert units.parse_accelerators(f"H100:{text}") == ("H100", tuple(sorted(widths)))


@pytest.mark.parametrize("parse", PARSERS)
@given(text=st.text() | near_units)
def test_parsers_raise_only_input_errors(parse: Callable[[str], object], text: str) -> None:
    message, found = "", None
    try:
        found = parse(text)
    except InputError as error:
        message = str(error)
    assert len(message) < 500
    assert not isinstance(found, float) or 0 <= found < math.inf


@given(st.text() | st.lists(snippets | st.text(max_size=3), max_size=12).map("".join))
@settings(deadline=None)  # the first policy looked up loads them all
def test_any_text_is_a_job_or_a_mistake_of_the_file(text: str) -> None:
    parse_or_refuse(text)


@given(data=st.data())
@settings(deadline=None)  # the first policy looked up loads them all
def test_a_damaged_job_file_is_a_job_or_a_mistake_of_the_file(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(EXAMPLES)).read_text(encoding="utf-8")
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text)))
        end = start + data.draw(st.integers(0, 5))
        text = text[:start] + data.draw(snippets | st.text(max_size=3)) + text[end:]
    parse_or_refuse(text)


def parse_or_refuse(text: str) -> None:
    """Parse a text; if it is refused, see that the answer names the place."""
    answer = "<text>:1:1: "
    try:
        parse_job(text, now=NOW)
    except SlacktideError as error:
        answer = str(error)
    assert re.match(r"<text>:[0-9]+:[0-9]+: ", answer)
