"""The trouble of one job is that job's: it is told, the others go on, and it can be cancelled."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from slacktide.backends.base import BackendStatus, LaunchSpec
from slacktide.backends.replay import Replay
from slacktide.core.errors import FileError, InputError
from slacktide.core.types import Allocation, Job
from slacktide.engine.engine import Engine
from slacktide.engine.job.job_context import JobContext, make_context
from slacktide.journal.events import Blocked, CancellationAsked, Event, Submitted, Unblocked
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market
from slacktide.policies.base import policies
from slacktide.policies.view import View
from tests import build

SLOT = 0.5
SLOTS = 40
TEXT = """
name: job
run: "true"
resources: {accelerators: "H100:4"}
work: 12 gpu-hours
deadline: 10h
"""


def submitted(job: str) -> Submitted:
    return build.submitted(job, text=TEXT, path="/nowhere/job.yaml", slot_hours=SLOT, pool="here")


def context() -> JobContext:
    job = Job(work_gpu_hours=12.0, deadline_hours=10.0, widths=(4,))
    place = build.pool(1.0, 4.0, 4, slots=SLOTS, slot_hours=SLOT)
    return make_context(job, Market((place,)), place, policies.make("on-demand"), 0)


class Fussy(Replay):
    """A back end that refuses some jobs, or has trouble with them."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()
        self.troubled: dict[str, str] = {}

    def enter(self, launch: LaunchSpec) -> None:
        if launch.job in self.refused:
            raise InputError("secret TOKEN must have a value, got none")

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        found = super().look(jobs)
        return {job: facts._replace(trouble=self.troubled.get(job, "")) for job, facts in found.items()}


class Bench:
    """Two jobs, of which one gets into trouble."""

    def __init__(self) -> None:
        self.store, self.backend = MemoryStore(), Fussy()
        self.missing: set[str] = set()
        self.job_contexts = {"good": context(), "bad": context()}
        self.engine = self.opened()
        for job in self.job_contexts:
            self.engine.submit(submitted(job))
        self.engine.step(0.0)

    def opened(self) -> Engine:
        self.engine = Engine(self.store, self.backend, open_job=self._job_context)
        return self.engine

    def _job_context(self, told: Submitted) -> JobContext:
        if told.job in self.missing:
            raise FileError("must be a file, found none", path=Path("market.csv"))
        return self.job_contexts[told.job]

    def told(self, *kinds: type[Event]) -> list[Event]:
        return [record.event for record in self.store.read() if isinstance(record.event, kinds)]

    def run_out(self, from_hours: float) -> None:
        for number in range(1, 30):
            self.engine.step(from_hours + number * 0.25)

    def status(self, job: str) -> str:
        return self.engine.state.jobs[job].status

    def ask_to_cancel(self, job: str) -> None:
        self.store.append([CancellationAsked(job=job, at_hours=0.0, actor="user")])


def test_a_job_whose_market_is_gone_is_blocked_and_the_others_go_on() -> None:
    bench = Bench()
    bench.missing = {"bad"}
    bench.opened().recover()
    bench.run_out(0.0)
    assert bench.status("good") == "succeeded"
    (blocked,) = bench.told(Blocked)
    assert (blocked.job, blocked.why) == ("bad", "market.csv: must be a file, found none")
    assert bench.engine.state.jobs["bad"].progress.blocked


def test_a_job_whose_market_is_gone_can_be_cancelled_and_is_billed() -> None:
    bench = Bench()
    bench.missing = {"bad"}
    bench.opened().recover()
    bench.engine.step(0.2)
    bench.ask_to_cancel("bad")
    bench.engine.step(0.25)
    bench.engine.step(0.3)
    assert bench.status("bad") == "cancelled"
    assert bench.engine.state.jobs["bad"].money.bill.cost_usd == pytest.approx(4 * 4.0 * 0.25, rel=0.3)
    assert bench.status("good") == "running"


def test_a_market_that_comes_back_lets_its_job_go_on() -> None:
    bench = Bench()
    bench.missing = {"bad"}
    bench.opened().recover()
    bench.engine.step(0.2)
    bench.missing = set()
    bench.engine.retry()
    bench.run_out(0.2)
    assert bench.status("bad") == "succeeded"
    assert [type(event) for event in bench.told(Blocked, Unblocked)] == [Blocked, Unblocked]


def test_a_missing_secret_blocks_one_job_only() -> None:
    bench = Bench()
    bench.backend.refused = {"bad"}
    bench.opened().recover()
    bench.engine.step(0.1)
    (blocked,) = bench.told(Blocked)
    assert (blocked.job, "TOKEN" in blocked.why) == ("bad", True)
    bench.ask_to_cancel("bad")
    bench.run_out(0.1)
    assert (bench.status("bad"), bench.status("good")) == ("cancelled", "succeeded")


def test_a_job_that_cannot_be_launched_claims_no_spot() -> None:
    bench = Bench()
    place = build.pool(1.0, 4.0, 4, slots=SLOTS, slot_hours=SLOT)
    job = Job(work_gpu_hours=12.0, deadline_hours=18.0, widths=(4,))
    both = make_context(job, Market((place,)), place, policies.make("maximal-spot"), 0)
    bench.job_contexts = {"bad": both, "good": both}
    bench.engine.release()
    bench.engine.step(0.1)
    bench.engine.step(0.2)
    assert all(record.holding.order is None for record in bench.engine.state.jobs.values()), (
        "the scene: all let go"
    )
    bench.backend.refused.add("bad")
    bench.opened().recover()
    bench.engine.step(0.6)
    bench.engine.step(1.1)
    jobs = bench.engine.state.jobs
    orders = {name: record.holding.order for name, record in jobs.items()}
    assert orders["good"] is not None
    assert (orders["good"].spot_gpus, orders["good"].on_demand_gpus) == (4, 0)
    assert orders["bad"] is not None
    assert orders["bad"].gpus == 0
    assert jobs["bad"].progress.blocked


def test_trouble_of_the_machine_with_one_job_is_told_and_passes() -> None:
    bench = Bench()
    bench.backend.troubled = {"bad": "its folder must be writable"}
    bench.engine.step(0.1)
    bench.engine.step(0.2)
    bench.backend.troubled = {}
    bench.engine.step(0.3)
    told = [(type(event), event.job, event.why) for event in bench.told(Blocked, Unblocked)]
    assert told == [(Blocked, "bad", "its folder must be writable"), (Unblocked, "bad", "")]


class Falling:
    """A policy that fails until it is well."""

    well = False

    def decide(self, view: View) -> Allocation:
        if not self.well:
            raise ZeroDivisionError("division by zero")
        return Allocation(on_demand_gpus=4)


def test_a_policy_that_fails_leaves_its_job_with_what_it_holds() -> None:
    bench, policy = Bench(), Falling()
    bench.job_contexts["bad"] = dataclasses.replace(bench.job_contexts["bad"], policy=policy)
    bench.opened().recover()
    bench.engine.step(0.5)
    (blocked,) = bench.told(Blocked)
    assert (blocked.job, "its policy failed" in blocked.why) == ("bad", True)
    assert bench.engine.state.jobs["bad"].holding.order.gpus == 4  # type: ignore[union-attr]
    policy.well = True
    bench.run_out(0.5)
    assert (bench.status("bad"), bench.status("good")) == ("succeeded", "succeeded")


def test_a_controller_that_stops_does_not_wait_for_a_blocked_job() -> None:
    bench = Bench()
    bench.missing = {"bad"}
    bench.opened().recover()
    bench.engine.release()
    bench.engine.step(0.1)
    bench.engine.step(0.2)
    assert bench.engine.idle
