"""Jobs of a stream under the engine: the stream's policy decides about all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slacktide.backend.replay import Replay
from slacktide.budget.widths import optimal_widths
from slacktide.engine.engine import Engine
from slacktide.engine.streams import check_member
from slacktide.errors import InputError, UnknownNameError
from slacktide.events import Decided, Submitted
from slacktide.jobfile.fleet import parse_fleet
from slacktide.store.memory import MemoryStore

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
    return Submitted(
        job=job,
        at_hours=at_hours,
        text=JOB.format(kind=kind, work=work, speedup=SPEEDUP.get(kind, "{power: 1}")),
        submitted_utc="2026-01-01T00:00:00+00:00",
        path="job.yaml",
        policy=json.dumps(policy),
        market=MARKET,
        pool="h100",
        slot_hours=0.5,
        start_slot=0,
        fleet=FLEET,
        fleet_path="fleet.yaml",
    )


def pool_name() -> str:
    from slacktide.market.source import open_market

    return open_market(**json.loads(MARKET)).pools[0].name


def run(
    policy: str, *, crash_at: int | None = None, keep_at: int | None = None
) -> tuple[MemoryStore, Engine]:
    """Hand in a job every half hour and step every 3 minutes until all are done."""
    store = MemoryStore()
    engine = Engine(store, Replay())
    tick = handed_in = 0
    while handed_in < 12 or engine.world.active:
        now = tick * 0.05
        if tick % 10 == 0 and handed_in < 12:
            kind = "wide" if handed_in % 3 == 2 else "narrow"
            one = member(f"job-{handed_in}", kind, now, work=4.0 if kind == "wide" else 2.0, policy=policy)
            from dataclasses import replace

            engine.submit(replace(one, pool=pool_name()))
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
    for track in engine.world.jobs.values():
        kind = "wide" if int(track.job.split("-")[1]) % 3 == 2 else "narrow"
        decided = [r.event for r in store.read(job=track.job) if isinstance(r.event, Decided)]
        assert {one.on_demand_gpus for one in decided} <= allowed[kind]
        assert len({one.on_demand_gpus for one in decided}) == 1
        assert track.status == "succeeded"
        assert track.starts == 1
        width = decided[0].on_demand_gpus
        speedup = next(one for one in file.classes if one.name == kind).phases[0].speedup
        hours = (4.0 if kind == "wide" else 2.0) / speedup(width)
        assert track.ended is not None
        assert track.ended.finish_hours == pytest.approx(hours)


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


def test_a_live_stream_cannot_rent_a_cluster() -> None:
    with pytest.raises(InputError, match="rents a cluster"):
        check_member(member("job", "wide", 0.0, policy="fifo"))
