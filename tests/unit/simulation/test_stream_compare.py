"""Policies at equal realised spending."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.allocators.streams.one_width import OneWidth
from slacktide.allocators.view import FleetView, Wanted
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import draw_stream
from slacktide.core.errors import UnknownNameError
from slacktide.core.speedup import Amdahl, Power
from slacktide.core.types import Job
from slacktide.simulation.fleet.comparison import allocator_label, compare_streams
from slacktide.simulation.fleet.tuning import KNOBS, Tuner, knobs_of
from slacktide_papers.baselines.fifo import Fifo

CLASSES = (
    JobClass(
        Job(name="law", work_gpu_hours=2.0, speedup=Amdahl(0.9), widths=tuple(range(1, 33))),
        arrivals_per_hour=6.0,
    ),
    JobClass(
        Job(name="root", work_gpu_hours=1.5, speedup=Power(0.6), widths=(1, 2, 4, 8, 16)),
        arrivals_per_hour=4.0,
    ),
)
FLEET = Fleet(CLASSES, budget_gpus=40.0)
STREAM = draw_stream(CLASSES, 1500, seed=2)
BASELINES = ("one-width", "efficiency-band", "equi", "fifo", "srpt")


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_spends_the_budget_and_is_no_better_than_the_optimum_that_spends_the_same(
    name: str,
) -> None:
    (row,) = compare_streams(STREAM, FLEET, [name]).rows
    assert row.optimum is not None
    assert row.ratio is not None
    assert row.policy.startswith(name)
    assert row.run.average_gpus == pytest.approx(FLEET.budget_gpus, rel=0.1)
    assert row.optimum.average_gpus == pytest.approx(row.run.average_gpus, rel=1e-3)
    assert row.ratio >= 0.999


def test_the_optimum_spends_exactly_the_budget_and_is_its_own_yardstick() -> None:
    (row,) = compare_streams(STREAM, FLEET, ["fixed-width"]).rows
    assert row.run.average_gpus == pytest.approx(FLEET.budget_gpus, rel=1e-3)
    assert row.ratio == 1.0


def test_a_policy_with_parameters_runs_as_it_is() -> None:
    rows = compare_streams(STREAM, FLEET, [{"one-width": {"gpus": 2}}, OneWidth(3), "online-width"]).rows
    assert [row.policy for row in rows] == ["one-width(gpus=2)", "one-width(gpus=3)", "online-width"]
    assert rows[0].run.average_gpus < rows[1].run.average_gpus < FLEET.budget_gpus


def test_on_nodes_the_optimum_spends_no_more() -> None:
    fleet = replace(FLEET, node_gpus=4, provisioning_hours=0.05, idle_grace_hours=0.05)
    fixed, one = compare_streams(STREAM.head(600), fleet, ["fixed-width", {"one-width": {"gpus": 6}}]).rows
    assert fixed.run.average_gpus <= fleet.budget_gpus * 1.002
    assert one.optimum is not None
    assert one.optimum.average_gpus <= one.run.average_gpus * 1.002


def test_what_spends_less_than_any_optimum_has_none_beside_it() -> None:
    class Narrow:
        def decide(self, view: FleetView) -> Wanted:
            return Wanted(np.ones(len(view.jobs.ids), dtype=np.int64))

    fleet = Fleet((replace(CLASSES[1], job=replace(CLASSES[1].job, widths=(1, 8))),), budget_gpus=20.0)
    stream = draw_stream(fleet.classes, 300, seed=3)
    (row,) = compare_streams(stream, fleet, [Narrow()]).rows
    assert row.optimum is not None
    assert row.ratio == pytest.approx(1.0, rel=0.01)  # one GPU each is the least, and both do that


def test_progress_is_told_from_nothing_to_the_end() -> None:
    told: list[tuple[int, int]] = []
    compare_streams(
        STREAM.head(300),
        FLEET,
        ["online-width", {"equi": {"cluster_gpus": 40}}],
        progress=lambda done, total: told.append((done, total)),
    )
    assert told[0] == (0, 200)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1][0] >= 190


def test_every_knob_spends_more_when_it_is_turned_up() -> None:
    for name in KNOBS:
        for knob in knobs_of(name, FLEET)[:2]:
            tuner = Tuner(knob, STREAM.head(400), FLEET)
            middle = (knob.low + min(knob.high, 80.0)) / 2
            low, high = (tuner.run(round(value) if knob.whole else value) for value in (knob.low, middle))
            assert low.average_gpus <= high.average_gpus * (1 + 1e-9), name
    assert knobs_of("online-width", FLEET) == []


def test_labels_tell_what_is_not_usual() -> None:
    assert allocator_label(Fifo()) == "fifo"
    assert allocator_label(Fifo(7, gpus=4)) == "fifo(cluster_gpus=7)"
    assert allocator_label(allocators.make({"efficiency-band": {"efficiency": 1 / 3}})) == (
        "efficiency-band(efficiency=0.3333)"
    )


def test_an_unknown_policy_is_answered_with_a_guess() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'fifo'"):
        compare_streams(STREAM, FLEET, ["fifa"])
