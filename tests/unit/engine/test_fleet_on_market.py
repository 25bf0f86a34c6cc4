"""Jobs of a fleet on a market under the engine: what one gives up another has, and nothing is sold twice."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from slacktide.allocators.view import Decision, FleetView, Standing, Wanted
from slacktide.backends.base import BackendStatus, PoolRoom
from slacktide.backends.replay import Replay
from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import JobTemplate
from slacktide.core.types import Allocation, Job, Order, Reason
from slacktide.engine.engine import Engine
from slacktide.engine.fleet.fleets import FleetMarket, LiveFleet
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.files.job import parse_job
from slacktide.journal.events import CancellationAsked, Decided, Lived, PreemptionAsked, Remembered, Submitted
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market
from slacktide.physics import ledger
from slacktide.physics.tariff import tariff_of
from slacktide.policies.base import policies
from slacktide.simulation.pool_options import PoolOptions
from tests import build

SLOT = 0.5
JOB = Job(work_gpu_hours=40.0, widths=(1, 2, 4, 8), restart_hours=0.05)


def market(spot: Sequence[int] = (8, 4)) -> Market:
    return Market(
        tuple(
            build.pool(1.0, 4.0, [gpus] * 60, name=f"zone-{number}", slot_hours=SLOT)
            for number, gpus in enumerate(spot)
        )
    )


class Told:
    """Wants what a test says, by the number of the job, from the moment it says so on."""

    def __init__(self) -> None:
        self.wants: dict[int, tuple[int, int, int]] = {}
        """Pool, spot and on demand."""
        self.views: list[FleetView] = []

    def decide(self, view: FleetView) -> Decision:
        self.views.append(view)
        rows = np.array([self.wants.get(job, (0, 0, 0)) for job in view.jobs.ids.tolist()], dtype=np.int64)
        pool, spot, on_demand = rows.T
        return Wanted(on_demand, spot, pool=pool, why=lambda place: Reason(f"Job {place} is told so."))


class Slow(Replay):
    """Real workers: those that are to go hold what they hold until a test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.there: dict[str, Order] = {}

    def hold(self, order: Order) -> None:
        super().hold(order)
        self.there.setdefault(order.job, order)

    def let_go(self) -> None:
        self.there = dict(self._orders)

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        held = {job: self.there.get(job) for job in jobs}
        return {
            job: BackendStatus(finished=False, gone=True)
            if order is None
            else BackendStatus(
                order.attempt, order.pool, order.spot_gpus, order.on_demand_gpus, finished=False
            )
            for job, order in held.items()
        }


class Few(Replay):
    """Machines of which there are only so many."""

    def room(self, pool: str) -> PoolRoom:
        return PoolRoom(on_demand_gpus=3)


class Site:
    """Jobs of one fleet, and jobs by themselves, on one market."""

    def __init__(self, where: Market | None = None, backend: Replay | None = None) -> None:
        self.market, self.store = where or market(), MemoryStore()
        self.told: Told = Told()
        self.job_contexts: dict[str, JobContext] = {}
        self.allowance = Allowance()
        self.engine = Engine(
            self.store,
            backend or Replay(),
            open_job=lambda one: self.job_contexts[one.job],
            open_fleet=self.opened,
        )

    def opened(self, first: Submitted) -> LiveFleet:
        run = LiveFleet(
            None, self.told, "told", {}, market=FleetMarket(self.market), allowance=self.allowance
        )
        run.templates = {"any": JobTemplate(JOB, 1.0, weight=3.0, patience_hours=0.7)}
        return run

    def submit(
        self, name: str, at_hours: float = 0.0, *, alone: str = "", job: Job = JOB, fleet: str = "fleet"
    ) -> None:
        ground = None if alone else PoolOptions.of(job, "", self.market)
        pool, slot = self.market.pools[0], int(at_hours / SLOT)
        self.job_contexts[name] = make_context(
            job, self.market, pool, policies.make(alone or "on-demand"), slot, began_hours=at_hours,
            origin_hours=slot * SLOT, pools=ground,
        )  # fmt: skip
        self.engine.submit(
            build.submitted(
                name,
                at_hours=at_hours,
                slot_hours=SLOT,
                start_slot=slot,
                origin_hours=slot * SLOT,
                pool=pool.name,
                fleet="" if alone else fleet,
                fleet_path="fleet.yaml",
                fleet_class="any",
                pools=() if ground is None else tuple(one.name for one in ground.pools),
            )
        )

    def order(self, name: str) -> tuple[str, int, int]:
        order = self.engine.state.jobs[name].holding.order
        assert order is not None
        return order.pool, order.spot_gpus, order.on_demand_gpus

    def decided(self, name: str) -> list[Decided]:
        events = (record.event for record in self.store.read(job=name))
        return [event for event in events if isinstance(event, Decided)]

    def clean(self) -> bool:
        lived = [record.event.priced for record in self.store.read() if isinstance(record.event, Lived)]
        return ledger.audit(lived, lambda payer: tariff_of("second", SLOT)).clean


def two(backend: Replay | None = None) -> Site:
    """Return a site on which one job holds all spot of a pool and another comes and wants it."""
    site = Site(backend=backend)
    site.submit("first")
    site.told.wants = {0: (0, 8, 0)}
    site.engine.step(0.0)
    site.engine.step(0.1)
    site.submit("second", 0.2)
    site.told.wants = {0: (1, 4, 0), 1: (0, 8, 0)}
    site.engine.step(0.2)
    return site


def test_what_one_gives_up_another_has_in_the_same_decision() -> None:
    site = two()
    assert (site.order("first"), site.order("second")) == (("zone-1", 4, 0), ("zone-0", 8, 0))
    site.engine.step(0.5)
    assert site.clean()
    assert site.decided("second")[0].why == "Job 1 is told so."
    (moved,) = [one for one in site.decided("first") if one.moved_from]
    assert (moved.moved_from, moved.pool) == ("zone-0", "zone-1")


def test_where_workers_are_real_it_is_given_when_they_have_gone() -> None:
    backend = Slow()
    site = two(backend)
    assert site.order("first") == ("zone-1", 4, 0)
    assert site.order("second")[1:] == (0, 0)
    site.engine.step(0.21)
    assert site.order("second")[1:] == (0, 0)
    backend.let_go()
    for now in (0.22, 0.23):
        site.engine.step(now)
    assert site.order("second") == ("zone-0", 8, 0)


def test_on_demand_machines_that_are_few_are_not_given_to_two_in_one_decision() -> None:
    site = Site(backend=Few())
    for name in ("first", "second", "third"):
        site.submit(name)
    site.told.wants = {0: (0, 0, 2), 1: (0, 0, 2), 2: (1, 0, 2)}
    site.engine.step(0.0)
    given = [site.order(name) for name in ("first", "second", "third")]
    assert given == [("zone-0", 0, 2), ("zone-0", 1, 1), ("zone-1", 0, 2)], "spot makes up for it"


def test_what_others_hold_is_gone_from_what_the_fleet_is_offered() -> None:
    site = Site()
    job = dataclasses.replace(JOB, deadline_hours=20.0, widths=(4,))
    site.submit("alone", alone="maximal-spot", job=job)
    site.submit("member")
    site.told.wants = {0: (0, 8, 2)}
    site.engine.step(0.0)
    shown = site.told.views[-1].site
    assert shown is not None
    assert [pool.quote.spot_gpus for pool in shown.pools] == [4, 4]
    assert site.order("member") == ("zone-0", 4, 0), "the width 6 is none that it may have"


def test_the_allocator_is_asked_again_when_spot_was_taken_inside_a_slot() -> None:
    site = Site()
    site.submit("first")
    site.told.wants = {0: (0, 8, 0)}
    site.engine.step(0.0)
    asked = len(site.told.views)
    site.engine.step(0.1)
    assert len(site.told.views) == asked
    site.store.append([PreemptionAsked(job="first", at_hours=0.1, spot_gpus=2)])
    site.told.wants = {0: (1, 4, 0)}
    for now in (0.2, 0.21):
        site.engine.step(now)
    assert len(site.told.views) == asked + 1
    assert site.order("first") == ("zone-1", 4, 0)


def test_it_is_asked_at_the_moment_at_which_money_is_renewed() -> None:
    site = Site()
    site.allowance = Allowance(10.0, 0.7)
    site.submit("first")
    site.told.wants = {0: (0, 8, 0)}
    for now in (0.0, 0.3, 0.5, 0.8):
        site.engine.step(now)
    money = [(view.now_hours, view.site.money) for view in site.told.views if view.site is not None]
    assert [(hours, one.spent_usd, one.ever_usd) for hours, one in money] == [
        (0.0, 0.0, 0.0),
        (0.5, pytest.approx(4.0), pytest.approx(4.0)),
        (pytest.approx(0.7), 0.0, pytest.approx(5.6)),
    ]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (lambda: {"first": Allocation(1, 0, "elsewhere")}, "got 'elsewhere'; known: zone-0, zone-1"),
        (lambda: 1 / 0, "division by zero"),
        (lambda: Wanted(np.zeros(3, dtype=np.int64)), "each of 1 jobs, got 3 entries"),
    ],
)
def test_jobs_keep_what_they_hold_when_the_allocator_fails(wanted: Callable[[], object], why: str) -> None:
    site = Site()
    site.submit("first")
    site.told.wants = {0: (1, 4, 0)}
    site.engine.step(0.0)
    site.told.decide = lambda view: wanted()  # type: ignore[assignment, method-assign, return-value]
    site.engine.step(0.5)
    assert site.order("first") == ("zone-1", 4, 0)
    assert why in site.engine.state.jobs["first"].progress.blocked


def test_spot_of_a_job_that_went_after_a_border_is_free_only_then() -> None:
    site = Site()
    for name in ("goes", "stays"):
        site.submit(name)
    site.told.wants = {0: (0, 8, 0)}
    site.engine.step(0.0)
    site.store.append([CancellationAsked(job="goes", at_hours=0.4)])
    site.engine.step(0.4)
    site.told.wants = {1: (0, 8, 0)}
    for now in (0.53, 0.6, 1.0, 1.5):
        site.engine.step(now)
    assert site.engine.state.jobs["goes"].ended is not None
    assert site.order("stays") == ("zone-0", 8, 0)
    assert site.clean()


def test_the_tables_are_made_once_for_jobs_of_one_kind() -> None:
    site = Site()
    for number in range(3):
        site.submit(f"job-{number}", job=dataclasses.replace(JOB, work_gpu_hours=1.0 + number))
    site.engine.step(0.0)
    shown = site.told.views[-1].site
    assert shown is not None
    assert len(shown.kinds.phases) == 1
    site.submit("other", 0.1, job=dataclasses.replace(JOB, restart_hours=0.2))
    site.engine.step(0.1)
    after = site.told.views[-1].site
    assert after is not None
    assert after.jobs.kind.tolist() == [0, 0, 0, 1]
    assert after.jobs.ends_gpu_hours[:, 0].tolist() == [1.0, 2.0, 3.0, 40.0]


def test_a_job_that_says_nothing_has_the_priority_and_patience_of_its_class() -> None:
    site = Site()
    site.submit("first")
    file = parse_job("resources: {accelerators: 'H100:1'}\nwork: 4 gpu-hours\ndeadline: none\npriority: 2\n")
    site.submit("second")
    site.job_contexts["second"] = dataclasses.replace(site.job_contexts["second"], file=file)
    site.engine.context.jobs._found["second"] = site.job_contexts["second"]
    site.engine.step(0.0)
    shown = site.told.views[-1].site
    assert shown is not None
    assert shown.jobs.weight.tolist() == [3.0, 2.0]
    assert shown.jobs.patience_hours.tolist() == [0.7, 0.7]


def test_what_was_spent_before_a_fleet_file_was_changed_is_spent() -> None:
    site = Site()
    site.allowance = Allowance(100.0, 10.0)
    site.submit("first")
    site.told.wants = {0: (0, 8, 0)}
    for now in (0.0, 0.5):
        site.engine.step(now)
    site.submit("second", 0.75, fleet="fleet with another budget")
    site.engine.step(0.75)
    shown = site.told.views[-1].site
    assert shown is not None
    assert len(site.engine.state.fleets) == 2
    assert shown.money.spent_usd == pytest.approx(8 * 1.0 * 0.75), "half an hour is written, the rest is not"


class Priced(Told):
    """Says by which prices it decides."""

    standing = Standing(reserved_usd=12.5, usd_per_job_hour=0.75)

    def remember(self) -> Mapping[str, Any]:
        return {}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Know nothing."""


def test_what_is_reserved_and_what_an_hour_is_worth_is_in_the_journal() -> None:
    site = Site()
    site.told = Priced()
    site.submit("first")
    site.engine.step(0.0)
    told = [record.event for record in site.store.read() if isinstance(record.event, Remembered)]
    assert (told[-1].reserved_usd, told[-1].usd_per_job_hour) == (12.5, 0.75)
    job_record = next(iter(site.engine.state.fleets.values()))
    assert (job_record.reserved_usd, job_record.usd_per_job_hour) == (12.5, 0.75)
    Priced.standing = Standing(reserved_usd=1.0)
    site.engine.step(SLOT)
    assert (job_record.reserved_usd, job_record.usd_per_job_hour) == (1.0, None), "no price yet is no number"
