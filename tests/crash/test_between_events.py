"""Kill the controller between any two of its writes: the next one ends with the same decisions and cents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slacktide.backends.replay import Replay
from slacktide.core.types import Job, Order
from slacktide.engine.bills.audit import audit
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Decided, Event, Lived, Sight
from slacktide.journal.store.base import MemoryStore
from slacktide.market.source import open_market
from slacktide.policies.base import policies
from slacktide.simulation.pool_options import PoolOptions
from slacktide_papers.baselines.eager_failover import EagerFailover
from tests import build


class Watched(Replay):
    """A back end that remembers what it was last told to hold."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, Order] = {}

    def hold(self, order: Order) -> None:
        super().hold(order)
        self.held[order.job] = order


def lane_of_test() -> JobContext:
    market = open_market("synthetic:volatile?seed=11&days=3&slot=30m")
    job = Job(work_gpu_hours=14, deadline_hours=6, widths=(1, 2, 4), restart_hours=0.1, checkpoint_hours=0.25)
    return make_context(job, market, market.pools[0], policies.make("uniform-progress"), 12)


def context_over_pools(sight: Sight) -> JobContext:
    """Return the context of a job that moves, and tries pools in vain where it does not see them."""
    market = open_market("synthetic:volatile?seed=8&days=3&slot=30m&pools=3")
    job = Job(
        work_gpu_hours=14, deadline_hours=9, widths=(2,), restart_hours=0.1, checkpoint_hours=0.25,
        checkpoint_gb=50,
    )  # fmt: skip
    ground = PoolOptions.of(job, "", market)
    return make_context(job, market, ground.pools[0], EagerFailover(), 12, pools=ground, sight=sight)


def drive(store: MemoryStore, context: JobContext) -> None:
    """Run a controller from wherever the journal stands until all is done or it is killed."""
    engine = Engine(store, Watched(), open_job=lambda _: context)
    if not engine.state.jobs:
        text = build.submitted(
            start_slot=12,
            pool=context.home.name,
            pools=context.pool_names if context.may_move else (),
            sight=context.sight,
        )
        engine.submit(text)
    engine.recover()
    tick = round(engine.state.now_hours / context.slot_hours)
    while engine.state.active:
        engine.step(tick * context.slot_hours)
        backend = engine.backend
        assert isinstance(backend, Watched)
        for record in engine.state.active:
            # What the back end was told is what the journal says, always.
            assert backend.held[record.job] == record.holding.order
        tick += 1


def facts(store: MemoryStore) -> list[Event]:
    return [record.event for record in store.read() if isinstance(record.event, Decided | Lived)]


def _whole(context: JobContext) -> MemoryStore:
    store = MemoryStore()
    drive(store, context)
    return store


CONTEXTS: dict[str, Callable[[], JobContext]] = {
    "in one pool": lane_of_test,
    "over pools": lambda: context_over_pools("feed"),
    "over pools that are tried": lambda: context_over_pools("tried"),
}


@pytest.mark.parametrize("kind", CONTEXTS)
@pytest.mark.parametrize("before", [True, False], ids=["before the write", "after the write"])
def test_a_kill_at_any_write_changes_nothing(before: bool, kind: str) -> None:
    context = CONTEXTS[kind]()
    whole = facts(_whole(context))
    killed = 0
    for when in range(1, 100):
        store = build.DyingStore(when, before=before)
        try:
            drive(store, context)
            break
        except build.Killed:
            killed += 1
        drive(store, context)
        assert facts(store) == whole
    assert killed > 8


@pytest.mark.parametrize("kind", CONTEXTS)
def test_a_kill_at_every_write_still_ends(kind: str) -> None:
    """A controller that never survives more than one write gets there all the same."""
    context = CONTEXTS[kind]()
    whole = facts(_whole(context))
    store, kills = build.DyingStore(1, before=False), 0
    for _ in range(200):
        try:
            drive(store, context)
            break
        except build.Killed:
            store.left, kills = 1, kills + 1
    assert kills > 8
    assert facts(store) == whole
    engine = Engine(store, Replay(), open_job=lambda _: context)
    assert audit(engine.state.jobs["job"], context, store.read()).clean


@pytest.mark.parametrize("sight", ["feed", "tried"])
def test_the_job_over_pools_moves_and_tries(sight: Sight) -> None:
    told = facts(_whole(context_over_pools(sight)))
    assert len({one.pool for one in told if isinstance(one, Decided) and one.spot_gpus}) > 1
    assert sum(one.priced.charge.move_usd for one in told if isinstance(one, Lived)) > 0.0
    assert any(one.missed for one in told if isinstance(one, Decided)) == (sight == "tried")
