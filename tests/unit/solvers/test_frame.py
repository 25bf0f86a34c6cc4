"""The numbers behind the clairvoyant: pauses, steps, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.core.speedup import Linear, Power
from slacktide.core.types import Job
from slacktide.solvers.clairvoyant.frame import FEWEST_CELLS, frame
from tests import build


def job(**changes: object) -> Job:
    given: dict[str, object] = {"work_gpu_hours": 10.0, "deadline_hours": 8.0, "widths": (1, 2)}
    return build.job(**{**given, **changes})


def test_holdings_are_all_pairs_of_allowed_widths() -> None:
    numbers = frame(job(widths=(1, 3)), 1.0, 0.01)
    pairs = list(zip(numbers.spot.tolist(), numbers.on_demand.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 1), (1, 0), (0, 3), (1, 2), (2, 1), (3, 0)]
    assert len(frame(job(widths=tuple(range(1, 9))), 1.0, 0.01).spot) == 45


def test_short_restart_leaves_nothing_over() -> None:
    numbers = frame(job(restart_hours=0.25), 1.0, 0.01)
    assert numbers.pauses.left_hours.tolist() == [0.0]
    assert numbers.pauses.ahead_hours.tolist() == [0.0, 0.25]
    assert numbers.pauses.shrink[0] == numbers.pauses.restart


def test_long_restart_carries_over() -> None:
    numbers = frame(job(restart_hours=2.5, shrink_hours=1.25), 1.0, 0.01)
    pauses = numbers.pauses
    np.testing.assert_allclose(pauses.left_hours, [0.0, 0.25, 0.5, 1.5])
    np.testing.assert_allclose(pauses.ahead_hours, [0.0, 0.25, 0.5, 1.25, 1.5, 2.5])
    np.testing.assert_allclose(pauses.left_hours[pauses.after], [0.0, 0.0, 0.0, 0.25, 0.5, 1.5])
    np.testing.assert_allclose(pauses.ahead_hours[pauses.shrink[pauses.stay]], [1.25, 1.25, 1.25, 1.5])


def test_restart_of_whole_slots_leaves_no_crumbs() -> None:
    numbers = frame(job(restart_hours=0.3), 0.1, 0.01)
    np.testing.assert_allclose(numbers.pauses.left_hours, [0.0, 0.1, 0.2], atol=1e-12)


def test_common_step_makes_the_grid_exact() -> None:
    numbers = frame(job(restart_hours=0.05), 0.5, 0.01)
    assert numbers.exact
    assert numbers.cell_gpu_hours == pytest.approx(0.05)
    assert (numbers.weight == 0.0).all()


def test_work_need_not_be_a_multiple_of_the_step() -> None:
    numbers = frame(job(work_gpu_hours=10.02, restart_hours=0.05), 0.5, 0.01)
    assert numbers.exact
    assert numbers.first_gpu_hours == pytest.approx(0.02)
    top = numbers.first_gpu_hours + numbers.last * numbers.cell_gpu_hours
    assert top == pytest.approx(10.02)


@pytest.mark.parametrize("speedup", [Power(0.7), Linear(1.0, 1e-5)])
def test_without_a_step_the_accuracy_counts(speedup: object) -> None:
    numbers = frame(job(restart_hours=0.05, speedup=speedup), 0.5, 0.004)
    assert not numbers.exact
    assert numbers.last == 250
    gains = numbers.terms.rate * np.maximum(0.0, 0.5 - numbers.pauses.ahead_hours)[:, None]
    np.testing.assert_allclose((numbers.shift - numbers.weight) * numbers.cell_gpu_hours, gains, atol=1e-7)


@pytest.mark.parametrize("accuracy", [0.0, -1.0, 1.5, float("nan")])
def test_accuracy_is_a_share(accuracy: float) -> None:
    with pytest.raises(InputError, match="accuracy must be in"):
        frame(job(), 1.0, accuracy)


def test_too_many_holdings_are_refused() -> None:
    with pytest.raises(InputError, match="allow fewer widths"):
        frame(job(widths=tuple(range(1, 4001))), 1.0, 0.01)
    wide = job(widths=tuple(range(1, 65)), speedup=Power(0.7))
    assert FEWEST_CELLS <= frame(wide, 1.0, 0.0001).last < 10_000
