"""A plan says what becomes of it if its file is wrong about the work."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import slacktide
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job
from slacktide.physics.pace import USUAL_SPREAD
from slacktide.report.text.sentences.plan import wrong_words
from slacktide.report.wire.plan import as_json
from slacktide.simulation.plan.what_if import amounts

JOB = Job(
    name="one",
    work_gpu_hours=10.0,
    deadline_hours=6.0,
    widths=(1, 2, 4),
    speedup=Amdahl(0.9),
)


def test_amounts_have_the_spread_of_the_file() -> None:
    found = np.log(amounts(0.5, 400))
    assert found.mean() == pytest.approx(0.0, abs=1e-9)
    assert found.std() == pytest.approx(np.log(1.5), rel=0.02)
    assert amounts(0.5, 7) == amounts(0.5, 7)


def test_who_could_be_in_time_at_all_is_in_time_and_the_rest_is_told() -> None:
    market = "synthetic:h100?days=6&slot=30m&seed=2"
    plan = slacktide.plan(dataclasses.replace(JOB, work_spread=USUAL_SPREAD), market, "uniform-progress")
    found = plan.wrong_work
    assert found is not None
    assert 0.0 < found.hopeless_share < 0.2
    assert found.on_time_share == pytest.approx(1.0 - found.hopeless_share, abs=0.05)
    right = plan.outlooks[0].futures.cost_usd
    assert found.cost_usd.p90 - found.cost_usd.p10 > right.p90 - right.p10
    assert "If it is off by 42%" in wrong_words(plan)
    assert as_json(plan)["wrong_work"]["spread"] == USUAL_SPREAD


def test_a_file_that_is_certain_has_no_such_risk() -> None:
    plan = slacktide.plan(JOB, "synthetic:h100?days=6&slot=30m&seed=2", "uniform-progress")
    assert plan.wrong_work is None
    assert wrong_words(plan) == ""
    assert "wrong_work" not in as_json(plan)
