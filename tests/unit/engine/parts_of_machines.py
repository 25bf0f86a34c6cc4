"""A back end with workers of whom a test says what is seen, and an engine on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from slacktide.backends.base import BackendStatus
from slacktide.backends.replay import Replay
from slacktide.core.types import Order
from slacktide.engine.bills.audit import audit
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Event
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market
from slacktide.policies.base import policies
from slacktide.policies.view import Policy
from tests import build

SLOT = 0.5
SLOTS = 60
SUBMITTED = build.submitted(slot_hours=SLOT)


def context(
    policy: str | Policy = "on-demand", prices: Sequence[float] = (1.0,), offered: int = 4, **numbers: object
) -> JobContext:
    job = build.job(**{"work_gpu_hours": 40.0, "deadline_hours": 20.0, "widths": (4,), **numbers})
    spot = [*prices, *[prices[-1]] * (SLOTS - len(prices))]
    place = build.pool(spot, 4.0, [offered] * SLOTS, slot_hours=SLOT)
    return make_context(job, Market((place,)), place, policies.make(policy), 0)


class Machine(Replay):
    """A back end with real workers, of whom the test says what it sees of them."""

    def __init__(self) -> None:
        super().__init__()
        self.said: dict[str, object] = {}
        self.stop = 0.0
        self.orders: list[Order] = []

    def hold(self, order: Order) -> None:
        super().hold(order)
        if not self.orders or self.orders[-1] != order:
            self.orders.append(order)

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        return {
            job: facts._replace(**{"finished": False, **self.said})  # type: ignore[arg-type]
            for job, facts in super().look(jobs).items()
        }

    def says(self, **facts: object) -> None:
        self.said = facts

    def is_gone(self, until_hours: float, attempt: int = 1, **facts: object) -> None:
        self.says(attempt=attempt, spot_gpus=0, on_demand_gpus=0, gone=True, until_hours=until_hours, **facts)

    def stop_hours(self, job: str) -> float:
        return self.stop


class Bench:
    def __init__(self, where: JobContext, machine: Machine | None = None) -> None:
        self.job_context, self.store, self.machine = where, MemoryStore(), machine or Machine()
        self.engine = self.reopened()
        pools = where.pool_names if where.may_move else ()
        self.engine.submit(dataclasses.replace(SUBMITTED, pools=pools, sight=where.sight))

    def reopened(self) -> Engine:
        self.engine = Engine(self.store, self.machine, open_job=lambda _: self.job_context)
        return self.engine

    def step(self, *hours: float) -> None:
        for now in hours:
            self.engine.step(now)

    def events(self, *kinds: type[Event]) -> list[Event]:
        return [record.event for record in self.store.read() if isinstance(record.event, kinds)]

    def ask(self, event: Event) -> None:
        self.store.append([event])

    @property
    def record(self):  # type: ignore[no-untyped-def]
        return self.engine.state.jobs["job"]

    @property
    def usd(self) -> float:
        assert audit(self.record, self.job_context, self.store.read()).clean
        return float(self.record.money.bill.cost_usd)
