"""The belief about a job's pace, against worked examples and its laws."""

from __future__ import annotations

import math

import pytest

from slacktide.core.compiled import compiled
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job
from slacktide.physics import pace
from slacktide.physics import progress as physics
from slacktide.physics.pace import KNOWN, Pace, is_measured, margin_factor, mean_factor, prior, see, spread

SLOT_HOURS = 0.5


def after(*seen: tuple[int, float, float]) -> Pace:
    belief = prior(pace.USUAL_SPREAD)
    for width, hours, ratio in seen:
        belief = see(belief, width, hours, ratio)
    return belief


def figures(belief: Pace, width: int, file_hours: float) -> tuple[float, float, float]:
    """Return mean, spread and safe pace with this many hours left at the file's pace."""
    mean = mean_factor(belief, width)
    left = file_hours / mean
    safe = mean * margin_factor(belief, width, left, SLOT_HOURS, pace.Z)
    return mean, spread(belief, width, left, SLOT_HOURS), safe


FIRST = (1, 26 / 60, 0.8)
SECOND = (8, 0.5, 0.76)


@pytest.mark.parametrize(
    ("seen", "width", "file_hours", "mean", "sd", "safe"),
    [
        ((), 8, 12.1, 1.0, 0.381149, 0.564552),
        ((FIRST,), 1, 79.65, 0.802982, 0.047449, 0.747818),
        ((FIRST,), 8, 12.05, 0.802982, 0.157487, 0.634033),
        ((FIRST, SECOND), 8, 11.67, 0.762857, None, 0.714133),
        ((FIRST, SECOND, (8, 0.5, 0.60)), 8, 11.37, 0.678224, None, 0.617788),
        (((4, 0.5, 0.5),) * 8, 8, 10.0, 0.487557, None, 0.449788),
    ],
)
def test_worked_examples(
    seen: tuple[tuple[int, float, float], ...],
    width: int,
    file_hours: float,
    mean: float,
    sd: float | None,
    safe: float,
) -> None:
    found = figures(after(*seen), width, file_hours)
    assert found[0] == pytest.approx(mean, abs=1e-6)
    assert found[2] == pytest.approx(safe, abs=1e-6)
    if sd is not None:
        assert found[1] == pytest.approx(sd, abs=1e-6)


def test_what_is_believed_after_each_measurement() -> None:
    one = after(FIRST)
    assert (one.mean, one.slope) == pytest.approx((-0.219423, 0.0), abs=1e-6)
    two = after(FIRST, SECOND)
    assert (two.mean, two.slope) == pytest.approx((-0.223785, -0.015633), abs=1e-6)
    shocked = after(FIRST, SECOND, (8, 0.5, 0.60))
    assert (4 + shocked.surprise) / (4 + shocked.surprises) == pytest.approx(3.4107, abs=1e-4)


def test_a_pace_is_measured_after_nine_productive_minutes() -> None:
    assert not is_measured(after())
    assert not is_measured(after((1, 0.1, 1.0)))
    assert is_measured(after((1, 0.1, 1.0), (1, 0.05, 1.0)))
    assert is_measured(KNOWN)


def test_moments_and_standstills_measure_nothing() -> None:
    before = after(FIRST)
    assert see(before, 4, 0.02, 3.0) == before
    assert see(before, 4, 0.5, 0.0) == before


def test_who_believes_the_file_keeps_no_margin_and_learns_nothing() -> None:
    assert prior(0.0) == KNOWN
    assert see(KNOWN, 8, 1.0, 0.5) == KNOWN
    assert mean_factor(KNOWN, 8) == 1.0
    assert margin_factor(KNOWN, 8, 10.0, 0.5, pace.Z) == 1.0


def test_the_margin_shrinks_as_evidence_grows_and_is_never_more_than_half() -> None:
    belief, margins = prior(3.0), list[float]()
    for _ in range(12):
        margins.append(margin_factor(belief, 8, 10.0, SLOT_HOURS, pace.Z))
        belief = see(belief, 8, 0.5, 1.0)
    assert margins[0] == 0.5
    assert margins == sorted(margins)
    assert margins[-1] > 0.9


def test_bare_terms_go_at_the_mean_and_at_the_safe_pace_compiled_and_plain() -> None:
    job = Job(work_gpu_hours=80.0, deadline_hours=20.0, widths=(1, 2, 4, 8), speedup=Amdahl(0.97))
    told, belief = physics.terms(job), after(FIRST, SECOND)
    mean = pace.believed(told, belief)
    slow = pace.safe(mean, belief, 10.0, SLOT_HOURS, pace.Z)
    for width in job.widths:
        assert mean.rate[0, width] == told.rate[0, width] * mean_factor(belief, width)
        left = physics.work_hours(mean, 10.0, width)
        margin = margin_factor(belief, width, left, SLOT_HOURS, pace.Z)
        assert slow.rate[0, width] == mean.rate[0, width] * margin
        assert 0.5 <= margin < 1.0
    assert (compiled(pace.believed)(told, belief).rate == mean.rate).all()
    again = compiled(pace.safe)(mean, belief, 10.0, SLOT_HOURS, pace.Z)
    assert again.rate == pytest.approx(slow.rate, rel=1e-12)
    assert math.isinf(KNOWN.hours)
