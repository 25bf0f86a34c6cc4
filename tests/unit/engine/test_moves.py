"""A job with real workers that moves: what is paid where, when it has moved, and what is tried next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pytest

from slacktide.backends.base import JobProgress, PoolRoom
from slacktide.core.quotes import Sighting
from slacktide.core.types import Allocation, Reason, Wish
from slacktide.core.units import MAX_GPUS
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Blocked, Decided, Held, Lived, Sight
from slacktide.journal.state.journal_state import JournalState
from slacktide.market.base import Market
from slacktide.policies.view import View
from slacktide.simulation.pool_options import PoolOptions
from tests import build

from .parts_of_machines import SLOT, SLOTS, Bench, Machine

EAST, WEST = "aws/us-east-1a", "aws/us-west-2a"
HERE_USD, THERE_USD, MOVE_USD = 1.0, 2.0, 1.0


@dataclass(frozen=True, slots=True)
class Script:
    """Wants in each slot what it was told."""

    by_slot: Mapping[int, tuple[Wish, ...]]
    roams: ClassVar[bool] = True

    def decide(self, view: View) -> Allocation:
        first, *rest = self.by_slot[max(slot for slot in self.by_slot if slot <= view.slot)]
        return Allocation(*first, reason=Reason("script"), instead=tuple(rest))


def context(by_slot: Mapping[int, tuple[Wish, ...]], sight: Sight = "feed", **numbers: object) -> JobContext:
    given = {"work_gpu_hours": 40.0, "deadline_hours": 25.0, "widths": (4,), "value_usd": 1.0}
    job = build.job(**{**given, "worthless_after_hours": 26.0, "checkpoint_gb": 50.0, **numbers})
    pools = tuple(
        build.pool([usd] * SLOTS, 4.0, 4, name=name, slot_hours=SLOT)
        for name, usd in ((EAST, HERE_USD), (WEST, THERE_USD))
    )
    market = Market(pools)
    ground = PoolOptions.of(job, "", market)
    return make_context(job, market, pools[0], Script(by_slot), 0, pools=ground, sight=sight)


MOVES = {0: (Wish(4, 0, EAST),), 1: (Wish(4, 0, WEST),)}


def test_the_set_that_was_left_is_paid_where_it_is_until_it_has_gone() -> None:
    bench = Bench(context(MOVES))
    bench.step(0.0)
    bench.machine.says(attempt=1, spot_gpus=4, since_hours=0.0, progress=JobProgress(0.04, 0.04, 0.4))
    bench.step(0.1, 0.5, 0.6)
    assert bench.machine.orders[-1].pool == WEST
    bench.machine.is_gone(0.7)
    bench.step(0.8)
    assert bench.usd == pytest.approx(4 * HERE_USD * 0.7)
    assert bench.record.progress.state.pool == 0, "nothing is there yet"
    assert bench.record.money.bill.move_usd == 0.0
    bench.machine.says(attempt=2, spot_gpus=4, since_hours=0.9, progress=JobProgress(0.04, 0.04))
    bench.step(0.9, 1.0)
    assert bench.record.progress.state.pool == 1
    assert bench.record.holding.moves == 1
    assert bench.usd == pytest.approx(4 * HERE_USD * 0.7 + MOVE_USD + 4 * THERE_USD * 0.1)
    assert {one.priced.stretch.pool for one in bench.events(Lived) if one.priced.stretch.gpus} == {EAST, WEST}  # type: ignore[attr-defined]


def test_as_many_workers_elsewhere_are_not_taken_for_those_that_were_left() -> None:
    """Both sets are of one size, and between two looks the one has gone and the other has come."""
    bench = Bench(context(MOVES))
    bench.step(0.0)
    bench.machine.says(attempt=1, spot_gpus=4, since_hours=0.0, progress=JobProgress(0.04, 0.04, 0.4))
    bench.step(0.1, 0.5)
    bench.machine.says(attempt=2, spot_gpus=4, since_hours=0.6, progress=JobProgress(0.04, 0.04))
    bench.step(0.7)
    assert bench.record.held_pool == WEST
    assert bench.events(Held)[-1].attempt == 2  # type: ignore[attr-defined]
    bench.step(1.0)
    assert bench.usd == pytest.approx(4 * HERE_USD * 0.6 + MOVE_USD + 4 * THERE_USD * 0.4)


def test_a_job_that_has_done_nothing_has_nothing_to_carry() -> None:
    bench = Bench(context(MOVES))
    bench.machine.says(attempt=0, spot_gpus=0, pending_gpus=4)
    bench.step(0.0, 0.5)
    bench.machine.says(attempt=2, spot_gpus=4, since_hours=0.5)
    bench.step(0.6, 1.0)
    assert bench.record.progress.state.pool == 1
    assert (bench.record.holding.moves, bench.record.money.bill.move_usd) == (0, 0.0)


class Full(Machine):
    """A back end in which some pools have no machines."""

    def __init__(self, *pools: str) -> None:
        super().__init__()
        self.pools = pools

    def room(self, pool: str) -> PoolRoom:
        return PoolRoom(spot_gpus=0) if pool in self.pools else PoolRoom()


TRIES = {0: (Wish(4, 0, WEST), Wish(4, 0, EAST), Wish(0, 4, EAST))}


def test_a_wish_without_machines_gives_way_to_the_next_one_in_the_same_step() -> None:
    bench = Bench(context(TRIES), Full(WEST))
    bench.step(0.0)
    order = bench.machine.orders[-1]
    assert (order.pool, order.spot_gpus, order.attempt) == (EAST, 4, 1)
    assert bench.events(Decided)[-1].missed == 1  # type: ignore[attr-defined]
    nowhere = Bench(context(TRIES), Full(WEST, EAST))
    nowhere.step(0.0)
    order = nowhere.machine.orders[-1]
    assert (order.pool, order.spot_gpus, order.on_demand_gpus) == (EAST, 0, 4)


@pytest.mark.parametrize("sight", ["feed", "tried"])
def test_spot_that_never_comes_gives_way_to_the_next_wish_before_the_slot_is_over(sight: Sight) -> None:
    bench = Bench(context(TRIES, sight), Full())
    bench.machine.says(attempt=0, spot_gpus=0, pending_gpus=4)
    bench.step(0.0)
    assert bench.machine.orders[-1].pool == WEST
    bench.machine.pools = (WEST,)  # type: ignore[attr-defined]
    bench.machine.says(attempt=1, spot_gpus=0, taken_spot_gpus=4, stopped=True)
    bench.step(0.1)
    order = bench.machine.orders[-1]
    assert (order.pool, order.spot_gpus, order.attempt) == (EAST, 4, 2)
    assert bench.events(Decided)[-1].why == "next-wish"
    assert bench.record.holding.preemptions == 0, "nobody took what was never there"
    seen = bench.record.holding.sightings
    if sight == "feed":
        assert not seen
    else:
        assert seen[WEST][-1] == Sighting(0.1, 0, 3)
        assert seen[EAST] == (Sighting(0.1, 4, MAX_GPUS),)
    again = JournalState()
    for record in bench.store.read():
        again.apply(record)
    assert again.jobs["job"] == bench.record


def test_a_pool_that_the_job_may_not_use_is_its_policys_failure() -> None:
    bench = Bench(context({0: (Wish(4, 0, "gcp/us-east5-a"),)}))
    bench.step(0.0)
    (blocked,) = bench.events(Blocked)
    assert "gcp/us-east5-a" in blocked.why
    assert bench.record.active


def test_a_loss_in_the_new_pool_is_one_of_that_pool() -> None:
    bench = Bench(context(MOVES, "tried"))
    bench.step(0.0)
    bench.machine.says(attempt=1, spot_gpus=4, since_hours=0.0, progress=JobProgress(0.04, 0.04, 0.4))
    bench.step(0.1, 0.5)
    bench.machine.says(attempt=2, spot_gpus=4, since_hours=0.6, progress=JobProgress(0.05, 0.05, 0.6))
    bench.step(0.7)
    bench.machine.says(
        attempt=2, spot_gpus=0, taken_spot_gpus=4, stopped=True, progress=JobProgress(0.05, 0.05, 0.6)
    )
    bench.step(0.8)
    assert bench.record.holding.preemptions == 1
    assert bench.record.holding.sightings[WEST][-1] == Sighting(0.8, 0, 0)
    assert bench.record.progress.state.pool == 1
