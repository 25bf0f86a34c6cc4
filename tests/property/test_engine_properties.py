"""What the engine pays is what the back-test pays, whenever it looks; bill, audit and a third way agree.

And what it leaves in the journal tells the same from any snapshot on.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.backend.replay import Replay
from slacktide.backtesting import plain
from slacktide.backtesting.compare import setting_for
from slacktide.engine.bill import audit
from slacktide.engine.engine import Engine
from slacktide.engine.lane import Lane, make_lane
from slacktide.engine.snapshots import keep, present_form, read_world
from slacktide.engine.world import Track, World
from slacktide.events import CancellationAsked, Event, Lived, PreemptionAsked, Submitted
from slacktide.ledger import Priced, bill
from slacktide.market.base import Market, Pool
from slacktide.policy.base import policies
from slacktide.speedup import Amdahl
from slacktide.store.memory import MemoryStore
from slacktide.types import Job

SLOT_HOURS = 0.5
SLOTS = 24
POLICIES = ("uniform-progress", "maximal-spot", "ahanp", "on-demand")
SUBMITTED = Submitted(
    job="job",
    at_hours=0.0,
    text="",
    submitted_utc="",
    path="",
    policy="",
    slot_hours=SLOT_HOURS,
    start_slot=0,
)


@st.composite
def lanes(draw: st.DrawFn) -> Lane:
    """Draw a job on a market that gives, takes and changes its prices."""
    rows = [
        st.floats(0.1, 3.0, allow_subnormal=False),
        st.floats(3.0, 6.0, allow_subnormal=False),
        st.integers(0, 5),
    ]
    spot_usd, on_demand_usd, spot_gpus = (draw(st.lists(row, min_size=SLOTS, max_size=SLOTS)) for row in rows)
    pool = Pool("here", SLOT_HOURS, spot_usd, on_demand_usd, spot_gpus)  # type: ignore[arg-type]
    restart = draw(st.sampled_from([0.0, 0.1, 0.7]))
    job = Job(
        work_gpu_hours=draw(st.floats(1.0, 20.0)),
        deadline_hours=draw(st.floats(3.0, 10.0)),
        widths=draw(st.sampled_from([(1, 2, 4), (4,), (1, 2, 3, 4, 5)])),
        speedup=Amdahl(0.95),
        restart_hours=restart,
        shrink_hours=draw(st.sampled_from([None, 0.5 * restart])),
        checkpoint_hours=draw(st.sampled_from([0.0, 0.15, 0.6])),
        max_cost_usd=draw(st.none() | st.floats(1.0, 40.0)),
        billing=draw(st.sampled_from(["second", "slot"])),
    )
    return make_lane(job, Market((pool,)), pool, policies.make(draw(st.sampled_from(POLICIES))), 0)


@st.composite
def looks(draw: st.DrawFn) -> list[float]:
    """Draw moments at which the engine looks: the first one, then any, at least one in every slot."""
    # Not up to 1: added to the number of its slot, the largest share below 1 is the next slot.
    shares = st.lists(st.floats(0.0, 0.999), min_size=1, max_size=3)
    inside = [sorted(draw(shares)) for _ in range(2 * SLOTS)]
    return [0.0, *((slot + share) * SLOT_HOURS for slot, row in enumerate(inside) for share in row)]


class Driven:
    """An engine on replay that looks at these moments."""

    def __init__(self, lane: Lane, moments: list[float], asked: dict[int, Event] | None = None) -> None:
        self.lane, self.store = lane, MemoryStore()
        self.engine = Engine(self.store, Replay(), open_lane=lambda _: lane)
        self.engine.submit(SUBMITTED)
        for number, now in enumerate(moments):
            if not self.engine.world.active:
                break
            if asked and number in asked:
                self.store.append([dataclasses.replace(asked[number], at_hours=now)])
            self.engine.step(now)

    @property
    def track(self) -> Track:
        return self.engine.world.jobs["job"]

    @property
    def stretches(self) -> list[Priced]:
        return [record.event.priced for record in self.store.read() if isinstance(record.event, Lived)]


def closed_form(lane: Lane, stretches: list[Priced]) -> float:
    """Say what stretches cost from what was held when, in a way of its own."""
    if lane.job.billing == "second":
        return math.fsum(
            (one.spot_gpus * lane.quote(one.slot)[0] + one.on_demand_gpus * lane.quote(one.slot)[1])
            * one.held_hours
            for one, _ in stretches
        )
    most: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for one, _ in stretches:
        if one.held_hours > 0:
            spot, on_demand = most[one.slot]
            most[one.slot] = max(spot, one.spot_gpus), max(on_demand, one.on_demand_gpus)
    quotes = ((lane.quote(slot), held) for slot, held in most.items())
    return math.fsum(SLOT_HOURS * (spot * quote[0] + dear * quote[1]) for quote, (spot, dear) in quotes)


@given(lane=lanes(), moments=looks())
@settings(deadline=None, max_examples=150)
def test_an_engine_that_looks_at_any_moments_is_the_back_test(lane: Lane, moments: list[float]) -> None:
    setting = setting_for(Market((lane.pool,)), lane.pool, None)
    told = plain.run(lane.job, lane.pool, lane.policy, start=0, setting=setting)
    driven = Driven(lane, moments)
    track, paid = driven.track, bill(driven.stretches)
    assert track.ended is not None
    assert track.ended.finish_hours == pytest.approx(told.finish_hours, abs=1e-8)
    assert track.state.exhausted == told.slots[-1].after.exhausted
    assert paid.cost_usd == pytest.approx(told.cost_usd, abs=1e-6)
    assert track.bill == paid
    assert paid.spot_gpu_hours == pytest.approx(told.spot_gpu_hours, abs=1e-6)
    assert track.preemptions == told.preemptions
    checked = audit(track, lane, driven.store.read())
    assert checked.clean, checked
    assert checked.cost_usd == pytest.approx(told.cost_usd, abs=1e-6)


requests = st.dictionaries(
    st.integers(1, 60),
    st.builds(
        PreemptionAsked, job=st.just("job"), at_hours=st.just(0.0), spot_gpus=st.none() | st.integers(1, 3)
    )
    | st.just(CancellationAsked(job="job", at_hours=0.0)),
    max_size=8,
)


@given(lane=lanes(), moments=looks(), asked=requests)
@settings(deadline=None, max_examples=150)
def test_bill_audit_and_closed_form_agree(lane: Lane, moments: list[float], asked: dict[int, Event]) -> None:
    driven = Driven(lane, moments, asked)
    track, stretches = driven.track, driven.stretches
    assert track.ended is not None
    checked = audit(track, lane, driven.store.read())
    assert checked.clean, checked
    assert track.state.cost_usd == pytest.approx(track.bill.cost_usd, abs=1e-9)
    assert checked.cost_usd == pytest.approx(track.bill.cost_usd, abs=1e-9)
    assert closed_form(lane, stretches) == pytest.approx(track.bill.cost_usd, abs=1e-9)
    if lane.job.max_cost_usd is not None:
        assert track.bill.cost_usd <= lane.job.max_cost_usd + 1e-6


@given(lane=lanes(), moments=looks(), asked=requests)
@settings(deadline=None, max_examples=30)
def test_a_snapshot_at_any_cut_and_the_rest_tell_the_same_world(
    lane: Lane, moments: list[float], asked: dict[int, Event]
) -> None:
    driven = Driven(lane, moments, asked)
    world = World()
    for record in driven.store.read():
        world.apply(record)
        keep(driven.store, world)
        found = driven.store.latest(present_form())
        assert found is not None
        assert found.seq == record.seq
        assert repr(read_world(driven.store)) == repr(driven.engine.world)  # by repr, because 0.0 equals -0.0
