"""Optimal widths: the published figures, the budget met exactly, and errors that help."""

from __future__ import annotations

import pytest

from slacktide.budget.classes import JobClass
from slacktide.budget.widths import optimal_widths
from slacktide.speedup import Amdahl, Power

PAPER = (
    JobClass(name="amdahl", arrivals_per_hour=0.4, work_gpu_hours=1.0, speedup=Amdahl(0.8)),
    JobClass(name="root", arrivals_per_hour=0.4, work_gpu_hours=1.0, speedup=Power(0.5)),
)


@pytest.mark.parametrize(
    ("budget", "first", "second", "response"),
    [
        (0.85, 1.625, 1.0, 0.846),
        (0.9, 2.071, 1.073, 0.776),
        (1.0, 2.429, 1.474, 0.676),
        (1.5, 4.214, 4.440, 0.432),
        (2.0, 6.0, 9.0, 0.3333),
        (3.0, 9.571, 22.903, 0.246),
    ],
)
def test_published_optima(budget: float, first: float, second: float, response: float) -> None:
    plan = optimal_widths(PAPER, budget, integer=False)
    widths = [each.paths[0].widths[0] for each in plan.classes]
    assert widths == pytest.approx([first, second], abs=5e-4)
    assert plan.mean_response_hours == pytest.approx(response, abs=5e-4)
    assert plan.average_gpus == pytest.approx(budget, rel=1e-10)
