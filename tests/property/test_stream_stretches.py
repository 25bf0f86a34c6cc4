"""The stretches of a simulated stream tell all that happened, for every allocator and kind of machines."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import astuple
from itertools import pairwise

import numpy as np
import pytest

from slacktide.allocators.base import allocators
from slacktide.core.register import Spec
from slacktide.physics import ledger
from slacktide.physics.ledger import Stretch
from slacktide.physics.tariff import BY_THE_SECOND
from slacktide.results.stream import GpuHourBill
from slacktide.simulation.fleet.run import run_events
from tests.golden.parts_of_streams import POLICIES, SETTINGS, Ground
from tests.property.parts_of_stretches import KeptRun, run_and_keep

RESTARTS = (0.0, 0.06)


def by_payer(kept: KeptRun) -> dict[str, list[Stretch]]:
    found = defaultdict[str, list[Stretch]](list)
    for stretch, _ in kept.stretches:
        found[f"{stretch.payer}/{stretch.use}"].append(stretch)
    return found


@pytest.mark.parametrize("restart_hours", RESTARTS)
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("spec", POLICIES, ids=str)
def test_stretches_tell_the_whole_run(spec: Spec, setting: str, restart_hours: float) -> None:
    where = SETTINGS[setting](restart_hours)
    kept = run_and_keep(where.stream, where.fleet, spec)
    bill_is_their_sum(kept)
    jobs_live_from_arrival_to_end(kept, where)
    nodes_are_whole(kept, where)
    audit = ledger.audit(kept.stretches, lambda _: BY_THE_SECOND)
    assert audit.clean
    assert audit.cost_usd == pytest.approx(kept.run.bill.gpu_hours, rel=1e-9)


def bill_is_their_sum(kept: KeptRun) -> None:
    bill, sums = kept.run.bill, ledger.bill(kept.stretches)
    gpu_hours, pause = sums.on_demand_gpu_hours, sums.pause_gpu_hours
    unused, rounding = sums.idle_gpu_hours, sums.rounding_gpu_hours
    split = GpuHourBill(gpu_hours, gpu_hours - unused - pause, pause, rounding, unused - rounding)
    assert astuple(split) == pytest.approx(astuple(bill), rel=1e-9, abs=1e-9 * bill.gpu_hours)


def jobs_live_from_arrival_to_end(kept: KeptRun, where: Ground) -> None:
    lives, stream = by_payer(kept), where.stream
    for job in range(len(stream)):
        life = lives[f"job-{job}/work"]
        came = stream.arrival_hours[job]
        assert life[0].from_hours == came
        assert life[-1].to_hours - came == kept.run.response_hours[job]
        for one, following in pairwise(life):
            assert one.to_hours == following.from_hours
        for one in life:
            assert one.to_hours > one.from_hours
            assert one.held_hours == (one.to_hours - one.from_hours if one.gpus else 0.0)
            assert one.pause_hours + one.productive_hours == pytest.approx(one.held_hours, abs=1e-12)
        work = where.fleet.classes[stream.class_index[job]].work_gpu_hours * stream.size[job]
        assert sum(one.gained_gpu_hours for one in life) == pytest.approx(work, rel=1e-9)


def nodes_are_whole(kept: KeptRun, where: Ground) -> None:
    """At every moment all payers together hold whole nodes."""
    stretches = [one for one, _ in kept.stretches]
    for at in np.random.default_rng(1).uniform(0.0, kept.run.end_hours, 100):
        held = sum(one.gpus for one in stretches if one.from_hours <= at < one.to_hours)
        assert held % where.fleet.node_gpus == 0


@pytest.mark.parametrize("spec", POLICIES, ids=str)
def test_keeping_changes_nothing_and_the_plain_source_keeps_the_same(spec: Spec) -> None:
    where = SETTINGS["everything"](0.06)
    kept, plain = (run_and_keep(where.stream, where.fleet, spec, plain=plain) for plain in (False, True))
    without = run_events(where.stream, where.fleet, allocators.make(spec))
    assert np.array_equal(kept.run.response_hours, without.response_hours)
    assert kept.run.bill == without.bill
    for (one, _), (other, _) in zip(kept.stretches, plain.stretches, strict=True):
        assert (one.payer, one.use, one.gpus) == (other.payer, other.use, other.gpus)
        for name in (
            "from_hours", "to_hours", "held_hours", "pause_hours", "productive_hours", "gained_gpu_hours"
        ):  # fmt: skip
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-9)


def test_stretches_are_priced() -> None:
    where = SETTINGS["everything"](0.06)
    kept = run_and_keep(where.stream, where.fleet, "fixed-width", usd_per_gpu_hour=2.5)
    first, charge = kept.stretches[0]
    assert first.payer == "job-0"
    assert ledger.bill(kept.stretches).cost_usd == pytest.approx(2.5 * kept.run.bill.gpu_hours)
    assert charge.usd == 2.5 * first.gpus * first.held_hours
    assert {one.use for one, _ in kept.stretches} == {"work", "boot", "idle", "rounding"}
