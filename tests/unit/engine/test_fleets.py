"""Jobs of a fleet under the engine: its allocator decides about all of them, on its machines."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from slacktide.allocators.view import FleetView
from slacktide.backends.replay import Replay
from slacktide.budget.widths import optimal_widths
from slacktide.core.errors import InputError, UnknownNameError
from slacktide.core.types import Allocation, Reason
from slacktide.engine.engine import Engine
from slacktide.engine.fleet.fleets import LiveFleet, check_member, open_fleet
from slacktide.files.fleet.fleet import parse_fleet
from slacktide.journal.events import CancellationAsked, ClusterSized, Decided, Kept, Lived, Opened, Submitted
from slacktide.journal.store.base import MemoryStore
from slacktide.physics import ledger
from slacktide.physics.tariff import tariff_of
from tests import build

FLEET = """\
budget: 7 gpus
classes:
  - {name: narrow, arrivals_per_hour: 1, work: 2 gpu-hours, speedup: {power: 0.6}, widths: 1..4}
  - {name: wide, arrivals_per_hour: 0.5, work: 4 gpu-hours, speedup: {amdahl: 0.95}, widths: 1..8}
"""
JOB = """\
name: one
run: "true"
class: {kind}
resources: {{accelerators: "H100:1..8"}}
work: {work} gpu-hours
speedup: {speedup}
"""
SPEEDUP = {"narrow": "{power: 0.6}", "wide": "{amdahl: 0.95}"}
MARKET = json.dumps({"spec": "synthetic:h100?days=2&slot=30m"})


def member(
    job: str, kind: str, at_hours: float, *, work: float = 2.0, policy: str = "fixed-width"
) -> Submitted:
    return build.submitted(
        job,
        at_hours=at_hours,
        text=JOB.format(kind=kind, work=work, speedup=SPEEDUP.get(kind, "{power: 1}")),
        path="job.yaml",
        policy=json.dumps(policy),
        market=MARKET,
        pool="h100",
        fleet=FLEET,
        fleet_path="fleet.yaml",
    )


def pool_name() -> str:
    from slacktide.market.source import open_market

    return open_market(**json.loads(MARKET)).pools[0].name


def run(
    policy: str, *, crash_at: int | None = None, keep_at: int | None = None, fleet: str = FLEET
) -> tuple[MemoryStore, Engine]:
    """Hand in a job every half hour and step every 3 minutes until all are done."""
    store = MemoryStore()
    engine = Engine(store, Replay())
    tick = handed_in = 0
    while handed_in < 12 or engine.state.active:
        now = tick * 0.05
        if tick % 10 == 0 and handed_in < 12:
            kind = "wide" if handed_in % 3 == 2 else "narrow"
            one = member(f"job-{handed_in}", kind, now, work=4.0 if kind == "wide" else 2.0, policy=policy)
            engine.submit(replace(one, pool=pool_name(), fleet=fleet))
            handed_in += 1
        engine.step(now)
        tick += 1
        if tick == keep_at:
            engine.keep()
        if tick == crash_at:
            engine = Engine(store, Replay())
            engine.recover()
        assert tick < 2000
    return store, engine


def test_fixed_width_gives_every_job_its_width_at_once() -> None:
    file = parse_fleet(FLEET)
    plan = optimal_widths(file.classes, file.budget_gpus)
    allowed = {one.name: {width.gpus for width in one.phases[0]} for one in plan.classes}
    store, engine = run("fixed-width")
    for record in engine.state.jobs.values():
        kind = "wide" if int(record.job.split("-")[1]) % 3 == 2 else "narrow"
        decided = [r.event for r in store.read(job=record.job) if isinstance(r.event, Decided)]
        assert {one.on_demand_gpus for one in decided} <= allowed[kind]
        assert len({one.on_demand_gpus for one in decided}) == 1
        assert record.status == "succeeded"
        assert record.holding.starts == 1
        width = decided[0].on_demand_gpus
        speedup = next(one for one in file.classes if one.name == kind).phases[0].speedup
        hours = (4.0 if kind == "wide" else 2.0) / speedup(width)
        assert record.ended is not None
        assert record.ended.finish_hours == pytest.approx(hours)


def decisions(store: MemoryStore) -> list[tuple[str, float, int]]:
    return [
        (r.event.job, r.event.at_hours, r.event.on_demand_gpus)
        for r in store.read()
        if isinstance(r.event, Decided)
    ]


@pytest.mark.parametrize("policy", ["fixed-width", "one-width", "online-width"])
def test_an_engine_that_died_is_replaced_by_one_that_decides_the_same(policy: str) -> None:
    whole, _ = run(policy)
    for crash_at in (3, 25, 60):
        killed, _ = run(policy, crash_at=crash_at)
        assert decisions(killed) == decisions(whole)


@pytest.mark.parametrize("policy", ["fixed-width", "one-width", "online-width"])
def test_an_engine_that_begins_with_a_snapshot_decides_the_same(policy: str) -> None:
    whole, _ = run(policy)
    for keep_at, crash_at in ((1, 3), (25, 25), (40, 60)):
        killed, _ = run(policy, keep_at=keep_at, crash_at=crash_at)
        assert decisions(killed) == decisions(whole)


def test_a_job_must_be_of_a_class_of_its_fleet(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'narrow'"):
        check_member(member("job", "narow", 0.0))


def test_a_job_must_name_its_class() -> None:
    named = member("job", "wide", 0.0)
    with pytest.raises(InputError, match="must name its class"):
        check_member(replace(named, text=named.text.replace("class: wide", "deadline: 9h")))


def sizes(store: MemoryStore) -> list[tuple[float, int]]:
    return [(r.event.at_hours, r.event.nodes) for r in store.read() if isinstance(r.event, ClusterSized)]


def unused(store: MemoryStore, use: str) -> float:
    """Return the GPU-hours that were paid for one use that is no job's."""
    kept = [r.event.priced.stretch for r in store.read() if isinstance(r.event, Kept)]
    return sum(one.gpus * one.held_hours for one in kept if one.use == use)


def test_a_cluster_of_fixed_size_is_paid_until_it_is_given_back() -> None:
    store, engine = run("fifo")
    engine.close()
    assert [nodes for _, nodes in sizes(store)] == [7, 0]
    (began, _), (over, _) = sizes(store)
    held = sum(record.money.bill.gpu_hours for record in engine.state.jobs.values())
    assert held + unused(store, "idle") == pytest.approx(7 * (over - began))
    (fleet,) = engine.state.fleets.values()
    assert fleet.spent_gpu_hours == pytest.approx(7 * (over - began))
    assert fleet.cluster.rented == 0


def test_nodes_come_after_their_provisioning_and_their_rest_is_paid() -> None:
    store, engine = run(
        "one-width", fleet=f"{FLEET}stream: {{node_gpus: 8, provisioning: 6m, idle_grace: 3m}}\n"
    )
    engine.close()
    first = engine.state.jobs["job-0"]
    decided = [r.event for r in store.read(job="job-0") if isinstance(r.event, Decided)]
    assert [(one.at_hours, one.on_demand_gpus) for one in decided[:2]] == [(0.0, 0), (pytest.approx(0.1), 4)]
    assert first.ended is not None
    assert unused(store, "boot") > 0
    assert unused(store, "rounding") > 0
    assert unused(store, "idle") > 0
    stretches = [r.event.priced for r in store.read() if isinstance(r.event, Lived | Kept)]
    checked = ledger.audit(stretches, lambda payer: tariff_of("second", 0.5))
    assert checked.clean, checked
    (fleet,) = engine.state.fleets.values()
    paid = ledger.bill(stretches)
    assert fleet.spent_gpu_hours == pytest.approx(paid.gpu_hours)


@pytest.mark.parametrize("moments", [(0.1, 0.15, 0.2), (0.5, 0.55, 0.6, 0.65)], ids=["inside", "border"])
def test_letting_go_gives_the_machines_back_and_a_new_engine_rents_them_again(
    moments: tuple[float, ...],
) -> None:
    store = MemoryStore()
    engine = Engine(store, Replay())
    engine.submit(replace(member("job-0", "wide", 0.0, policy="fifo", work=40.0), pool=pool_name()))
    engine.step(0.0)
    engine.release()
    for now in moments:
        engine.step(now)
    assert engine.idle
    assert [nodes for _, nodes in sizes(store)] == [7, 0]
    (fleet,) = engine.state.fleets.values()
    assert fleet.spent_gpu_hours == pytest.approx(7 * sizes(store)[1][0])
    engine = Engine(store, Replay())
    engine.recover()
    engine.write([Opened(at_hours=moments[-1], pid=1, host="here", version="0")])
    engine.step(1.0)
    assert [nodes for _, nodes in sizes(store)] == [7, 0, 7]
    assert engine.state.jobs["job-0"].holding.order is not None
    assert engine.state.jobs["job-0"].holding.order.gpus == 4


class ByArrival:
    """Serves jobs as they came, as wide as it goes; reads rows and names only the jobs that change."""

    def decide(self, view: FleetView) -> dict[str, Allocation]:
        free, wanted = 6, dict[str, Allocation]()
        for row in view.rows():
            width = max((width for width in row.job.widths if width <= free), default=0)
            free -= width
            if width != row.state.gpus:
                wanted[row.id] = Allocation(on_demand_gpus=width, reason=Reason("by-arrival"))
        return wanted


def test_an_allocator_may_read_rows_and_name_only_the_jobs_that_change() -> None:
    def opened(submitted: Submitted) -> LiveFleet:
        return replace(open_fleet(submitted), allocator=ByArrival())

    store = MemoryStore()
    engine = Engine(store, Replay(), open_fleet=opened)
    for number in range(2):
        engine.submit(replace(member(f"job-{number}", "wide", 0.0), pool=pool_name()))
    for now in (0.0, 0.05, 0.1, 0.5, 1.0, 1.5):
        engine.step(now)
    assert [(job, gpus) for job, _, gpus in decisions(store)][:3] == [
        ("job-0", 6),
        ("job-1", 0),
        ("job-1", 6),
    ]
    assert not engine.state.active


def test_a_wish_for_another_pool_is_refused() -> None:
    class Elsewhere:
        def decide(self, view: FleetView) -> dict[str, Allocation]:
            return {row.id: Allocation(0, 1, pool="elsewhere") for row in view.rows()}

    def opened(submitted: Submitted) -> LiveFleet:
        return replace(open_fleet(submitted), allocator=Elsewhere())

    engine = Engine(MemoryStore(), Replay(), open_fleet=opened)
    engine.submit(replace(member("job-0", "wide", 0.0), pool=pool_name()))
    engine.step(0.0)
    job = engine.state.jobs["job-0"]
    assert re.search(r"must stay in the job's pool, .*, got 'elsewhere'", job.progress.blocked)
    assert job.holding.order is not None
    assert job.holding.order.gpus == 0


def test_two_fleets_of_a_journal_keep_their_machines_apart() -> None:
    store = MemoryStore()
    engine = Engine(store, Replay())
    nodes = FLEET + "stream: {node_gpus: 8, provisioning: 6m, idle_grace: 3m}\n"
    for number, (policy, fleet) in enumerate([("fifo", FLEET), ("one-width", nodes)] * 2):
        one = member(f"job-{number}", "wide", 0.0, policy=policy)
        engine.submit(replace(one, pool=pool_name(), fleet=fleet))
    tick = 0
    while engine.state.active:
        engine.step(tick * 0.07)
        tick += 1
    engine.close()
    stretches = [r.event.priced for r in store.read() if isinstance(r.event, Lived | Kept)]
    assert ledger.audit(stretches, lambda payer: tariff_of("second", 0.5)).clean
    fleets = engine.state.fleets.values()
    assert [fleet.came for fleet in fleets] == [2, 2]
    assert sum(fleet.spent_gpu_hours for fleet in fleets) == pytest.approx(ledger.bill(stretches).gpu_hours)


def test_gpus_of_workers_that_went_after_a_border_are_given_to_others_only_then() -> None:
    store = MemoryStore()
    engine = Engine(store, Replay())
    for name in ("goes", "stays"):
        engine.submit(replace(member(name, "wide", 0.0, work=40.0, policy="equi"), pool=pool_name()))
    engine.step(0.0)
    store.append([CancellationAsked(job="goes", at_hours=0.4)])
    for now in (0.4, 0.53, 0.6, 1.0):
        engine.step(now)
    held = [
        (one.from_hours, one.to_hours, one.on_demand_gpus, one.payer)
        for one in (r.event.priced.stretch for r in store.read() if isinstance(r.event, Lived))
    ]
    assert max(until for _, until, _, payer in held if payer == "goes") == 0.53, (
        "the scene: it goes after 0.5"
    )
    for moment in (0.2, 0.45, 0.51, 0.52, 0.55, 0.9):
        assert sum(gpus for begin, until, gpus, _ in held if begin <= moment < until) <= 7
    assert next(gpus for begin, until, gpus, payer in held if payer == "stays" and begin <= 0.55 < until) == 7


@pytest.mark.parametrize(("policy", "work"), [("efficiency-band", 1.8), ("equi", 0.65)])
def test_machines_that_workers_on_their_way_out_use_are_kept_beside_the_others(
    policy: str, work: float
) -> None:
    store = MemoryStore()
    engine = Engine(store, Replay())
    for name in ("goes", "stays", "is-done"):
        one = member(name, "wide", 0.0, work=work if name == "is-done" else 40.0, policy=policy)
        engine.submit(replace(one, pool=pool_name()))
    for now in (0.0, 0.1, 0.2):
        engine.step(now)
    before = engine.state.jobs["goes"].holding.order.on_demand_gpus  # type: ignore[union-attr]
    store.append([CancellationAsked(job="goes", at_hours=0.25)])
    engine.step(0.45)
    (fleet,) = engine.state.fleets.values()
    assert engine.state.jobs["goes"].requests.ending is not None, "the scene: it is on its way out"
    assert engine.state.jobs["is-done"].ended is not None, "the scene: so the allocator was asked"
    staying = engine.state.jobs["stays"].holding.order.on_demand_gpus  # type: ignore[union-attr]
    assert fleet.cluster.rented * fleet.cluster.node_gpus >= staying + before


def test_a_job_that_ended_between_a_border_and_the_late_look_at_it_is_over_and_not_asked_about() -> None:
    store = MemoryStore()
    engine = Engine(store, Replay())
    for name, work in (("is-done", 1.76), ("stays", 40.0)):
        engine.submit(replace(member(name, "wide", 0.0, work=work, policy="equi"), pool=pool_name()))
    engine.step(0.0)
    engine.submit(replace(member("comes", "wide", 0.53, work=40.0, policy="equi"), pool=pool_name()))
    engine.step(0.53)
    end = engine.state.jobs["is-done"].ended
    assert end is not None
    assert 0.5 < end.at_hours < 0.53, "the scene: it ends after the border and before the look"
    events = [record.event for record in store.read()]
    assert not [one for one in events if isinstance(one, Decided) and one.job == "is-done" and one.slot == 1][
        1:
    ]
    engine.step(0.6)
    held = [r.event.priced.stretch for r in store.read() if isinstance(r.event, Lived | Kept)]
    for moment in (0.502, 0.52, 0.529):
        assert sum(one.gpus for one in held if one.from_hours <= moment < one.to_hours) <= 7
