"""Kill the controller between any two of its writes: the next one ends with the same decisions and cents."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from slacktide.backend.base import Order
from slacktide.backend.replay import Replay
from slacktide.engine.bill import audit
from slacktide.engine.engine import Engine
from slacktide.engine.lane import Lane, make_lane
from slacktide.events import Decided, Event, Lived, Record, Submitted
from slacktide.market.source import open_market
from slacktide.policy.base import policies
from slacktide.store.memory import MemoryStore
from slacktide.types import Job


class Killed(Exception):
    """The controller was killed here."""


class Fragile(MemoryStore):
    """A journal whose controller dies at the nth write, just before it or just after it."""

    def __init__(self, when: int, *, before: bool) -> None:
        super().__init__()
        self._left, self._before = when, before

    def append(self, events: Iterable[Event]) -> list[Record]:
        self._left -= 1
        if self._left == 0 and self._before:
            raise Killed
        records = super().append(events)
        if self._left == 0:
            raise Killed
        return records


class Watched(Replay):
    """A back end that remembers what it was last told to hold."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, Order] = {}

    def hold(self, order: Order) -> None:
        super().hold(order)
        self.held[order.job] = order


def lane_of_test() -> Lane:
    market = open_market("synthetic:volatile?seed=11&days=3&slot=30m")
    job = Job(work_gpu_hours=14, deadline_hours=6, widths=(1, 2, 4), restart_hours=0.1, checkpoint_hours=0.25)
    return make_lane(job, market, market.pools[0], policies.make("uniform-progress"), 12)


def drive(store: MemoryStore, lane: Lane) -> None:
    """Run a controller from wherever the journal stands until all is done or it is killed."""
    engine = Engine(store, Watched(), open_lane=lambda _: lane)
    if not engine.world.jobs:
        text = Submitted(
            job="job",
            at_hours=0.0,
            text="",
            submitted_utc="",
            path="",
            policy="",
            slot_hours=0.5,
            start_slot=12,
        )
        engine.submit(text)
    engine.recover()
    tick = round(engine.world.now_hours / lane.slot_hours)
    while engine.world.active:
        engine.step(tick * lane.slot_hours)
        backend = engine.backend
        assert isinstance(backend, Watched)
        for track in engine.world.active:
            # What the back end was told is what the journal says, always.
            assert backend.held[track.job] == track.order
        tick += 1


def facts(store: MemoryStore) -> list[Event]:
    return [record.event for record in store.read() if isinstance(record.event, Decided | Lived)]


def _whole() -> MemoryStore:
    store = MemoryStore()
    drive(store, lane_of_test())
    return store


@pytest.mark.parametrize("before", [True, False], ids=["before the write", "after the write"])
def test_a_kill_at_any_write_changes_nothing(before: bool) -> None:
    whole, lane = facts(_whole()), lane_of_test()
    killed = 0
    for when in range(1, 100):
        store = Fragile(when, before=before)
        try:
            drive(store, lane)
            break
        except Killed:
            killed += 1
        drive(store, lane)
        assert facts(store) == whole
    assert killed > 8


def test_a_kill_at_every_write_still_ends() -> None:
    """A controller that never survives more than one write gets there all the same."""
    whole, lane = facts(_whole()), lane_of_test()
    store = Fragile(1, before=False)
    for _ in range(200):
        try:
            drive(store, lane)
            break
        except Killed:
            store._left = 1
    assert facts(store) == whole
    engine = Engine(store, Replay(), open_lane=lambda _: lane)
    assert audit(engine.world.jobs["job"], lane, store.read()).clean
