"""Arrival rates: averages that follow lasting changes, and how bursty a stream is."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest

from slacktide.budget.classes import JobClass
from slacktide.budget.estimates.rates import (
    ASSUMED,
    MARKS,
    SHAPE,
    ArrivalRate,
    log_gamma,
    run_mean,
)
from slacktide.budget.stream import draw_stream
from slacktide.core.arrays import Floats
from slacktide.core.types import Job

ONE = JobClass(Job(name="a", work_gpu_hours=1.0), arrivals_per_hour=2.0)


def rate_of(arrival_hours: Floats) -> ArrivalRate:
    rate = ArrivalRate()
    for now_hours in arrival_hours.tolist():
        rate.arrived(now_hours)
    return rate


def test_a_rate_is_the_average_of_a_steady_stream() -> None:
    stream = draw_stream((ONE,), 4000, seed=1)
    assert rate_of(stream.arrival_hours).per_hour(stream.hours) == pytest.approx(2.0, rel=0.05)


def test_a_few_arrivals_are_averaged() -> None:
    assert rate_of(np.array([1.0, 2.0, 3.0])).per_hour(3.0) == pytest.approx(1.0)
    assert ArrivalRate().per_hour(1.0) == 0.0
    assert rate_of(np.array([0.0])).per_hour(0.0) == math.inf


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_rate_follows_a_lasting_change(factor: float) -> None:
    drawn = draw_stream((ONE,), 3000, seed=2)
    stream = drawn.sped_up(float(drawn.arrival_hours[2000]), factor)
    before, soon = stream.head(2000), stream.head(2250)
    assert rate_of(before.arrival_hours).per_hour(before.hours) == pytest.approx(2.0, rel=0.05)
    assert rate_of(soon.arrival_hours).per_hour(soon.hours) == pytest.approx(2.0 * factor, rel=0.2)
    assert rate_of(stream.arrival_hours).per_hour(stream.hours) == pytest.approx(2.0 * factor, rel=0.1)


@pytest.mark.parametrize("seed", range(6))
def test_a_doubling_shows_through_bursts_and_bursts_are_no_doubling(seed: int) -> None:
    drawn = draw_stream((ONE,), 3000, arrivals="bursty", seed=seed)
    doubled = drawn.sped_up(float(drawn.arrival_hours[1500]), 2.0)
    late = 1500 / (drawn.hours - drawn.arrival_hours[1499])
    assert rate_of(drawn.arrival_hours).per_hour(drawn.hours) < 1.5 * late
    assert rate_of(doubled.arrival_hours).per_hour(doubled.hours) > 1.5 * late


def test_silence_lowers_a_rate() -> None:
    stream = draw_stream((ONE,), 400, seed=3)
    rate = rate_of(stream.arrival_hours)
    silent = [rate.per_hour(stream.hours + hours) for hours in (0.0, 5.0, 50.0, 500.0)]
    assert silent == sorted(silent, reverse=True)
    assert silent[-1] < 0.1


def test_a_stream_of_any_length_is_a_few_marks_closer_together_the_more_recent() -> None:
    rate = rate_of(np.arange(1, 30_001) / 10)
    counts = [count for count, _ in rate.marks]
    assert len(counts) == MARKS
    assert counts[0] == 0
    assert counts[-1] == 30_000
    gaps = np.diff(counts)
    assert gaps[-1] == 10
    ages = 30_010 - np.array(counts[1:])
    assert (gaps[1:] <= 0.5 * ages[:-1] + 20).all()


def test_the_mean_over_runs_is_that_of_a_sum_over_all_ways_to_change() -> None:
    jobs, hours, prior_hours = np.array([0.0, 3.0, 4.0, 9.0]), np.array([0.0, 2.0, 5.0, 6.0]), 0.7
    log_change = np.log([1.0, 0.1, 0.2])

    def evidence(first: int, last: int) -> float:
        c, t = jobs[last] - jobs[first], hours[last] - hours[first]
        ways = math.gamma(SHAPE + c) / math.gamma(SHAPE)
        return float(ways * prior_hours**SHAPE / (prior_hours + t) ** (SHAPE + c))

    weights = dict.fromkeys(range(3), 0.0)
    for cuts in ((), (1,), (2,), (1, 2)):
        marks = (0, *cuts, 3)
        weight = math.prod(evidence(*pair) for pair in pairwise(marks))
        weights[marks[-2]] += weight * math.prod(math.exp(log_change[cut]) for cut in cuts)
    rates = {
        first: (SHAPE + jobs[3] - jobs[first]) / (prior_hours + hours[3] - hours[first]) for first in weights
    }
    expected = sum(weights[one] * rates[one] for one in weights) / sum(weights.values())
    assert run_mean(jobs, hours, log_change, prior_hours) == pytest.approx(expected, rel=1e-7)


def test_the_gamma_function_is_that_of_the_standard_library() -> None:
    numbers = np.concatenate((np.linspace(0.5, 30.0, 60), [1e3, 1e6]))
    known = [math.lgamma(one) for one in numbers]
    assert log_gamma(numbers) == pytest.approx(known, rel=1e-8, abs=1e-8)


def test_what_a_rate_writes_down_is_all_it_knows() -> None:
    for count in (0, 5, 777):
        rate = rate_of(draw_stream((ONE,), 1000, arrivals="bursty", seed=4).arrival_hours[:count])
        twin = ArrivalRate()
        twin.recall(json.loads(json.dumps(rate.remember())))
        assert twin == rate
        assert twin.per_hour(1000.0) == rate.per_hour(1000.0)


def test_dispersion_tells_a_bursty_stream_from_a_steady_one() -> None:
    assert ArrivalRate().dispersion == ASSUMED
    found = {
        arrivals: rate_of(draw_stream((ONE,), 8000, arrivals=arrivals, seed=5).arrival_hours).dispersion
        for arrivals in ("poisson", "bursty")
    }
    assert 1.0 <= found["poisson"] < 2.5
    assert 7.0 < found["bursty"] < 20.0
    assert rate_of(np.arange(1, 8001) / 10).dispersion == pytest.approx(1.0)


def test_a_lasting_change_is_no_dispersion() -> None:
    drawn = draw_stream((ONE,), 4000, seed=6)
    changed = drawn.sped_up(float(drawn.arrival_hours[2000]), 4.0)
    steady, after = (rate_of(one.arrival_hours).dispersion for one in (drawn, changed))
    assert after < steady + 2.0
