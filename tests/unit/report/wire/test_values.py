"""One rule for JSON and CSV: structured things by name, nothing for what is not finite."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

import numpy as np

from slacktide.core.quotes import Quote
from slacktide.report.wire import values


@dataclass(frozen=True)
class Thing:
    hours: float
    quotes: tuple[Quote, ...] = ()


def test_what_is_not_finite_is_null_however_deep_it_lies() -> None:
    deep = {"a": [math.inf, -math.inf, (math.nan, 1.5)], "b": Thing(math.inf, (Quote(math.inf, 2.0, 3),))}
    found = values.plain(deep)
    quote = {"spot_usd_per_gpu_hour": None, "on_demand_usd_per_gpu_hour": 2.0, "spot_gpus": 3}
    assert found == {"a": [None, None, [None, 1.5]], "b": {"hours": None, "quotes": [quote]}}
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_other_values_stay_what_they_are() -> None:
    for value in ("inf", 7, True, None, 0.1):
        assert values.plain(value) is value or values.plain(value) == value
    assert type(values.plain(np.float64(0.1))) is float


def test_csv_leaves_empty_what_is_null() -> None:
    assert values.csv_text([{"a": None, "b": 1.5}, {"a": "x, y", "b": 2}]) == 'a,b\n,1.5\n"x, y",2\n'


def test_times_are_utc() -> None:
    east = datetime(2025, 10, 5, 0, 40, tzinfo=timezone(timedelta(hours=2)))
    assert values.utc(east) == values.utc(datetime(2025, 10, 4, 22, 40, tzinfo=UTC)) == "2025-10-04T22:40:00Z"
