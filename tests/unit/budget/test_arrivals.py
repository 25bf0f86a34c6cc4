"""Streams drawn at random, and streams that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.budget.classes import JobClass
from slacktide.budget.stream import Bursts, Stream, draw_sizes, draw_stream, realised_classes
from slacktide.core.errors import InputError
from slacktide.core.types import Job

CLASSES = tuple(
    JobClass(Job(name=name, work_gpu_hours=2.0), arrivals_per_hour=rate)
    for name, rate in (("a", 1.0), ("b", 3.0))
)


@pytest.mark.parametrize("arrivals", ["poisson", "bursty"])
def test_classes_come_at_their_rates(arrivals: str) -> None:
    stream = draw_stream(CLASSES, 100_000, arrivals=arrivals, seed=1)
    counts = np.bincount(stream.class_index)
    assert counts / stream.hours == pytest.approx([1.0, 3.0], rel=0.03)


@pytest.mark.parametrize("sizes", ["fixed", "exponential", "lognormal", "pareto"])
def test_sizes_have_mean_one(sizes: str) -> None:
    assert draw_sizes(400_000, sizes, seed=2).mean() == pytest.approx(1.0, rel=0.02)


def test_pareto_sizes_have_the_tail_they_are_given() -> None:
    light, heavy = (draw_sizes(200_000, "pareto", seed=3, pareto_shape=shape) for shape in (4.0, 1.5))
    assert np.quantile(heavy, 0.999) > 5 * np.quantile(light, 0.999)
    for shape, sizes in ((4.0, light), (1.5, heavy)):
        least = (shape - 1) / shape
        assert sizes.min() >= least
        assert (sizes > 10 * least).mean() == pytest.approx(10**-shape, rel=0.25)


def test_bursts_are_burstier_than_chance() -> None:
    gaps = {
        arrivals: np.diff(draw_stream(CLASSES, 50_000, arrivals=arrivals, seed=4).arrival_hours)
        for arrivals in ("poisson", "bursty")
    }
    spread = {name: each.std() / each.mean() for name, each in gaps.items()}
    assert spread["poisson"] == pytest.approx(1.0, rel=0.03)
    assert spread["bursty"] > 1.4


def test_calm_spells_may_be_empty() -> None:
    stream = draw_stream(CLASSES, 30_000, arrivals="bursty", bursts=Bursts(5.0, 0.2, 30.0), seed=5)
    assert len(stream) / stream.hours == pytest.approx(4.0, rel=0.1)


def test_more_jobs_leave_the_first_ones_as_they_are() -> None:
    few, many = (draw_stream(CLASSES, count, seed=6) for count in (10, 20))
    assert np.array_equal(few.arrival_hours, many.arrival_hours[:10])
    assert np.array_equal(few.class_index, many.class_index[:10])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"count": 0}, "at least one job, got 0"),
        ({"seed": -1}, "seed must be >= 0"),
        ({"arrivals": "brusty"}, "did you mean 'bursty'"),
        ({"sizes": "parteo"}, "did you mean 'pareto'"),
        ({"sizes": "pareto", "pareto_shape": 1.0}, "pareto_shape must be > 1"),
        ({"arrivals": "bursty", "bursts": Bursts(20.0, 0.2, 5.0)}, "bursts must have a factor"),
    ],
    ids=["none", "seed", "arrivals", "sizes", "shape", "bursts"],
)
def test_what_cannot_be_drawn_is_refused(wrong: dict[str, object], words: str) -> None:
    given: dict[str, object] = {"count": 10, **wrong}
    with pytest.raises(InputError, match=words):
        draw_stream(CLASSES, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("hours", "classes", "sizes", "words"),
    [
        ([2.0, 1.0], [0, 0], [1.0, 1.0], "must ascend"),
        ([-1.0, 1.0], [0, 0], [1.0, 1.0], "finite and >= 0"),
        ([1.0, 2.0], [0, 0], [1.0, 0.0], "sizes must be > 0"),
        ([1.0, 2.0], [0, -1], [1.0, 1.0], "class_index must be >= 0"),
        ([1.0, 2.0], [0], [1.0, 1.0], "one length"),
        ([], [], [], "hold a job"),
    ],
    ids=["order", "before", "size", "class", "length", "empty"],
)
def test_a_stream_checks_itself(
    hours: list[float], classes: list[int], sizes: list[float], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        Stream(np.array(hours), np.array(classes, dtype=np.int64), np.array(sizes))


def test_a_stream_cannot_be_changed_and_keeps_no_tie_to_what_it_was_made_of() -> None:
    hours = np.array([1.0, 2.0])
    stream = Stream(hours, np.zeros(2, dtype=np.int64), np.ones(2))
    hours[0] = 5.0
    assert stream.arrival_hours[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        stream.arrival_hours[0] = 3.0


def test_realised_classes_are_what_came() -> None:
    stream = Stream(np.array([1.0, 2.0, 4.0]), np.array([1, 1, 1]), np.array([0.5, 1.0, 3.0]))
    nothing, came = realised_classes(CLASSES, stream)
    assert nothing is None
    assert came is not None
    assert came.arrivals_per_hour == pytest.approx(3 / 4)
    assert came.work_gpu_hours == pytest.approx(2.0 * 1.5)
