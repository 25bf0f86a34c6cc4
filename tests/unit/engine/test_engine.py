"""The engine where a back-test does not go: requests, failures, hangs, clocks, ends of money."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from slacktide.backends.base import BackendStatus, JobProgress, WorkerFailure
from slacktide.backends.replay import Replay
from slacktide.core.errors import BackendError
from slacktide.core.types import Job, Order
from slacktide.engine.bills.audit import audit
from slacktide.engine.clock import Clock
from slacktide.engine.engine import Engine, live
from slacktide.engine.job.job_context import KEPT_CONTEXTS, JobContext, make_context
from slacktide.engine.job.retry_limits import RetryLimits
from slacktide.journal.events import (
    CancellationAsked,
    ClockJumped,
    Decided,
    Ended,
    Event,
    HealthChanged,
    Lived,
    Preempted,
    PreemptionAsked,
    Released,
    Restarted,
    Stalled,
    Submitted,
    WorkerFailed,
)
from slacktide.journal.store.base import MemoryStore
from slacktide.market.base import Market, Pool
from slacktide.physics.ledger import Stretch
from slacktide.policies.base import policies
from tests import build

SLOT = 0.5
SLOTS = 40
SUBMITTED = build.submitted(slot_hours=SLOT)


def pool(spot_gpus: int = 4) -> Pool:
    return build.pool(1.0, 4.0, [spot_gpus] * SLOTS, slot_hours=SLOT)


def context(
    policy: str = "maximal-spot", *, patience: RetryLimits | None = None, **numbers: object
) -> JobContext:
    job = build.job(**numbers)
    place = pool()
    made = make_context(job, Market((place,)), place, policies.make(policy), 0)
    return made if patience is None else dataclasses.replace(made, patience=patience)


class Scripted(Replay):
    """The replay back end, with failures, silence and slow stops as told."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: WorkerFailure | None = None
        self.finished: bool | None = None
        self.progress: JobProgress | None = None
        self.silent_s = 0.0
        self.gone = True
        self.taken_by_the_market = 0
        self.notice_hours: float | None = None
        self.margin_hours = 0.0
        self.orders: list[Order] = []
        self.taken: list[int] = []

    def hold(self, order: Order) -> None:
        super().hold(order)
        if not self.orders or self.orders[-1] != order:
            self.orders.append(order)

    def look(self, jobs: Sequence[str]) -> Mapping[str, BackendStatus]:
        return {
            job: facts._replace(
                failure=self.failure, silent_s=self.silent_s, gone=self.gone, finished=self.finished,
                taken_spot_gpus=self.taken_by_the_market, progress=self.progress,
                notice_hours=self.notice_hours,
            )
            for job, facts in super().look(jobs).items()
        }  # fmt: skip

    def take(self, job: str, spot_left: int, notice_s: float) -> None:
        self.taken.append(spot_left)

    def stop_hours(self, job: str) -> float:
        return self.margin_hours


class Bench:
    """An engine with one job, stepped by hand."""

    def __init__(self, where: JobContext) -> None:
        self.job_context, self.store, self.backend = where, MemoryStore(), Scripted()
        self.engine = self.reopened()
        self.engine.submit(SUBMITTED)

    def reopened(self) -> Engine:
        return Engine(self.store, self.backend, open_job=lambda _: self.job_context)

    def step(self, *hours: float) -> None:
        for now in hours:
            self.engine.step(now)

    def events(self, *kinds: type[Event]) -> list[Event]:
        return [record.event for record in self.store.read() if not kinds or isinstance(record.event, kinds)]

    @property
    def stretches(self) -> list[Stretch]:
        return [event.priced.stretch for event in self.events(Lived) if isinstance(event, Lived)]

    @property
    def record(self):  # type: ignore[no-untyped-def]
        return self.engine.state.jobs["job"]


def test_a_decision_is_in_the_journal_before_it_is_acted_on() -> None:
    bench = Bench(context())

    class Strict(Scripted):
        def hold(self, order: Order) -> None:
            decided = bench.events(Decided, Restarted)
            assert decided
            assert decided[-1].attempt == order.attempt  # type: ignore[attr-defined]

    bench.backend = Strict()
    bench.engine.backend = bench.backend
    bench.step(*(slot * SLOT for slot in range(12)))
    assert not bench.engine.state.active


def test_cancelling_lets_go_and_pays_until_all_are_gone() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.2)
    bench.store.append([CancellationAsked(job="job", at_hours=0.2, actor="user")])
    bench.backend.gone = False
    bench.step(0.25, 0.3)
    assert bench.record.status == "cancelling"
    assert bench.backend.orders[-1].ending
    bench.backend.gone = True
    bench.step(0.4)
    assert bench.record.status == "cancelled"
    (lived,) = bench.events(Lived)
    assert isinstance(lived, Lived)
    assert lived.priced.stretch.to_hours == pytest.approx(0.4)
    assert bench.record.money.bill.spot_usd == pytest.approx(0.4 * 4 * 1.0)
    assert audit(bench.record, bench.job_context, bench.store.read()).clean


def test_a_stop_across_a_slot_is_paid_slot_by_slot() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.4)
    bench.backend.gone = False
    bench.engine.release()
    bench.step(0.45, 0.55, 1.2)
    bench.backend.gone = True
    bench.step(1.3)
    assert [one.to_hours for one in bench.stretches] == pytest.approx([0.5, 1.0, 1.3])
    assert bench.engine.idle
    assert audit(bench.record, bench.job_context, bench.store.read()).clean


def test_releasing_keeps_the_job_and_a_new_engine_takes_it_up() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.5, 0.7)
    bench.engine.release()
    bench.step(0.8, 0.81)
    assert bench.events(Released)
    assert bench.engine.idle
    done = bench.record.progress.state.progress_gpu_hours
    assert done > 0
    bench.engine = bench.reopened()
    bench.engine.recover()
    from slacktide.journal.events import Opened

    bench.engine.write([Opened(at_hours=0.81, pid=1, host="here", version="0")])
    bench.step(2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5)
    assert bench.record.status == "succeeded"
    assert bench.record.holding.starts == 2
    checked = audit(bench.record, bench.job_context, bench.store.read())
    assert checked.clean
    assert bench.record.money.bill.cost_usd == pytest.approx(checked.cost_usd)


def test_a_job_that_fails_is_begun_again_and_given_up_after_its_retries() -> None:
    bench = Bench(context(patience=RetryLimits(failures=2), checkpoint_hours=5.0))
    bench.step(0.0)
    bench.backend.failure = WorkerFailure(1, 7)
    bench.step(0.01)
    assert bench.backend.orders[-1].attempt == 2
    assert bench.backend.orders[-1].delay_s == 1.0
    bench.step(0.02)
    assert bench.backend.orders[-1].delay_s == 2.0
    bench.step(0.03, 0.04)
    assert bench.record.status == "failed"
    assert len(bench.events(WorkerFailed)) == 3


def test_new_checkpointed_work_forgives_earlier_failures() -> None:
    bench = Bench(context(patience=RetryLimits(failures=1)))
    for now in (0.0, 0.1, 0.5, 0.6, 1.0, 1.1):
        bench.backend.failure = WorkerFailure(0, 1) if now % SLOT else None
        bench.step(now)
    assert len(bench.events(WorkerFailed)) == 3
    assert bench.record.active


def test_a_command_that_does_not_exist_is_not_tried_again() -> None:
    bench = Bench(context())
    bench.step(0.0)
    bench.backend.failure = WorkerFailure(0, 127, hopeless=True, what="no such command")
    bench.step(0.01, 0.02)
    (ended,) = bench.events(Ended)
    assert isinstance(ended, Ended)
    assert ended.status == "failed"
    assert not bench.events(Restarted)


def test_what_a_back_end_was_warned_of_is_told_when_the_next_slot_begins() -> None:
    bench = Bench(context("stochastic-horizon", restart_hours=0.1, checkpoint_hours=3.0))
    bench.step(0.0, 0.5)
    bench.backend.notice_hours = 0.4
    bench.step(0.7, 1.0)
    bench.backend.notice_hours = None
    bench.step(1.5)
    told = [event for event in bench.events(Decided) if isinstance(event, Decided)]
    assert [event.notice_hours for event in told] == [None, None, 0.4, None]
    warned = [event for event in told if "notice_hours" in event.signals]
    assert [(event.at_hours, event.signals["notice_hours"]) for event in warned] == [(1.0, 0.4)]
    assert told[1].spot_gpus > 0
    assert told[2].spot_gpus == 0, "it leaves before the work since its checkpoint is lost"


def test_the_warning_of_the_market_comes_before_that_of_the_back_end() -> None:
    place = dataclasses.replace(pool(), notice_hours=1.0, spot_gpus=np.array([4] * 5 + [0] * 35))
    job = Job(work_gpu_hours=12.0, deadline_hours=10.0, widths=(1, 2, 4))
    bench = Bench(make_context(job, Market((place,)), place, policies.make("maximal-spot"), 0))
    bench.backend.notice_hours = 0.2
    bench.step(0.0, 0.5, 1.0, 1.5, 2.0, 2.5)
    told = [event.notice_hours for event in bench.events(Decided) if isinstance(event, Decided)]
    assert told == [None, 0.2, 0.2, 1.0, 0.5, None], "who holds no spot is not warned"


def test_a_silent_job_is_noticed() -> None:
    bench = Bench(context(patience=RetryLimits(silent_s=60)))
    bench.step(0.0, 0.1)
    bench.backend.silent_s = 61.0
    bench.step(0.2)
    assert bench.events(Stalled)
    assert bench.events(Restarted)


def test_preemptions_may_be_limited() -> None:
    bench = Bench(context(patience=RetryLimits(preemptions=0)))
    bench.step(0.0, 0.1)
    bench.store.append([PreemptionAsked(job="job", at_hours=0.1, actor="user")])
    bench.step(0.2, 0.3, 0.4)
    assert bench.record.status == "failed"


def test_a_user_may_take_spot_workers_away() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.1)
    bench.store.append([PreemptionAsked(job="job", at_hours=0.1, actor="user", spot_gpus=2)])
    bench.step(0.2)
    (preempted,) = bench.events(Preempted)
    assert isinstance(preempted, Preempted)
    assert (preempted.spot_before, preempted.spot_left, preempted.actor) == (4, 2, "user")
    assert bench.backend.taken == [2]
    assert bench.backend.orders[-1].gpus == 2
    assert bench.record.holding.order.attempt == 2
    bench.step(*(slot * SLOT for slot in range(1, 12)))
    assert bench.record.status == "succeeded"
    assert audit(bench.record, bench.job_context, bench.store.read()).clean


def test_taking_spot_where_none_is_held_changes_nothing() -> None:
    bench = Bench(context("on-demand"))
    bench.step(0.0, 0.1)
    bench.store.append([PreemptionAsked(job="job", at_hours=0.1, actor="user")])
    bench.step(0.2, 0.3)
    assert bench.record.holding.preemptions == 0
    assert bench.record.requests.preemption is None
    assert bench.record.holding.attempt == 1
    assert bench.record.progress.state.spot_gpus == 0


def test_max_cost_stops_before_it_is_passed() -> None:
    bench = Bench(context("on-demand", work_gpu_hours=30.0, max_cost_usd=20.0, widths=(4,)))
    bench.backend.margin_hours, bench.backend.finished = 0.1, False
    now = 0.0
    while bench.engine.state.active:
        bench.step(now)
        now += 0.01
    assert bench.record.status == "budget_exhausted"
    assert 16.0 < bench.record.money.bill.on_demand_usd <= 20.0


def test_whole_slots_stop_before_a_slot_begins_that_the_money_does_not_pay() -> None:
    bench = Bench(context("on-demand", work_gpu_hours=30.0, max_cost_usd=20.0, widths=(4,), billing="slot"))
    bench.backend.margin_hours, bench.backend.finished = 0.1, False
    now = 0.0
    while bench.engine.state.active:
        bench.step(now)
        now += 0.01
    assert bench.record.status == "budget_exhausted"
    assert bench.record.money.bill.on_demand_usd == pytest.approx(2 * SLOT * 4 * 4.0)
    assert bench.stretches[-1].to_hours < 2 * SLOT
    assert audit(bench.record, bench.job_context, bench.store.read()).clean


def test_an_order_says_how_long_its_money_lasts() -> None:
    bench = Bench(context("on-demand", work_gpu_hours=30.0, max_cost_usd=20.0, widths=(4,)))
    bench.backend.margin_hours, bench.backend.finished = 0.1, False
    bench.step(0.0)
    assert bench.backend.orders[-1].until_hours == pytest.approx(20.0 / 16.0 - 0.1)
    bench.step(0.5)
    assert bench.backend.orders[-1].until_hours == pytest.approx(20.0 / 16.0 - 0.1)
    assert Bench(context()).engine.state.jobs["job"].holding.order is None


def test_workers_that_say_nothing_are_estimated_but_end_only_when_they_say_so() -> None:
    bench = Bench(context(restart_hours=0.1))
    bench.backend.finished = False
    bench.step(0.0, 0.5, 1.0)
    assert bench.record.progress.state.progress_gpu_hours == pytest.approx(4 * 0.9)
    assert all(one.estimated for one in bench.stretches)
    bench.step(*(slot * SLOT for slot in range(3, 10)))
    assert bench.record.active
    assert bench.record.progress.state.progress_gpu_hours == 12.0
    bench.backend.finished = True
    bench.step(4.75)
    assert bench.record.status == "succeeded"
    assert bench.record.ended.finish_hours == 4.75
    assert bench.record.money.bill.cost_usd == pytest.approx(4.75 * 4)
    assert audit(bench.record, bench.job_context, bench.store.read()).clean


def test_silent_workers_that_fail_are_not_forgiven_and_begin_again() -> None:
    bench = Bench(context(patience=RetryLimits(failures=1), restart_hours=0.1))
    bench.backend.finished = False
    bench.step(0.0)
    bench.backend.failure = WorkerFailure(0, 3)
    bench.step(0.3)
    bench.backend.failure = None
    bench.step(0.5)
    assert bench.record.progress.state.progress_gpu_hours == pytest.approx(4 * 0.1)
    bench.backend.failure = WorkerFailure(0, 3)
    bench.step(0.7, 0.71)
    assert bench.record.status == "failed"


def test_what_workers_report_counts_and_until_they_do_what_is_checkpointed() -> None:
    bench = Bench(context(restart_hours=0.1))
    bench.backend.finished, bench.backend.progress = False, JobProgress(0.5, 0.25)
    bench.step(0.0, 0.5)
    assert bench.record.progress.state.progress_gpu_hours == 3.0
    bench.backend.progress = JobProgress(0.75, 0.5, at_hours=0.9)
    bench.step(1.0)
    assert bench.record.progress.state.progress_gpu_hours == 9.0
    assert bench.record.progress.state.checkpointed_gpu_hours == 6.0
    assert bench.stretches[-1].productive_hours == 0.5
    assert not bench.stretches[-1].estimated
    assert bench.record.money.bill.spot_usd == pytest.approx(4.0)


def test_spot_that_the_back_end_lost_is_a_preemption() -> None:
    bench = Bench(context())
    bench.step(0.0)
    bench.backend.taken_by_the_market = 2
    bench.step(0.2)
    bench.backend.taken_by_the_market = 0
    (preempted,) = bench.events(Preempted)
    assert isinstance(preempted, Preempted)
    assert (preempted.spot_before, preempted.spot_left, preempted.actor) == (4, 2, "market")
    assert bench.record.holding.order.attempt == 2
    bench.step(*(slot * SLOT for slot in range(1, 12)))
    assert bench.record.status == "succeeded"
    assert audit(bench.record, bench.job_context, bench.store.read()).clean


def test_a_clock_that_goes_back_does_no_harm() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.5, 1.0, 0.3, 0.4)
    assert len(bench.events(ClockJumped)) == 1
    bench.step(*(slot * SLOT for slot in range(3, 12)))
    assert bench.record.status == "succeeded"
    assert audit(bench.record, bench.job_context, bench.store.read()).clean


def test_slots_that_nobody_saw_are_paid_as_they_were_held() -> None:
    bench = Bench(context(work_gpu_hours=30.0))
    bench.step(0.0, 0.5, 3.0)
    assert len(bench.events(ClockJumped)) == 1
    assert bench.record.money.bill.spot_usd == pytest.approx(3.0 * 4)
    assert audit(bench.record, bench.job_context, bench.store.read()).clean


def test_health_follows_the_outlook() -> None:
    place = pool(0)
    job = Job(
        work_gpu_hours=12.0, deadline_hours=4.0, widths=(4,), value_usd=100.0, worthless_after_hours=8.0
    )
    made = make_context(job, Market((place,)), place, policies.make("ahanp"), 0)
    bench = Bench(made)
    bench.step(*(slot * SLOT for slot in range(14)))
    words = [event.health for event in bench.events(HealthChanged)]  # type: ignore[attr-defined]
    assert set(words) <= {"on-time", "at-risk", "late"}


class Ticking:
    """A wall clock and a monotonic one that go on when someone sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def monotonic(self) -> float:
        return self.seconds

    def clock(self, speed: float) -> Clock:
        return Clock(speed, seconds=self.monotonic)


def test_a_full_disk_is_waited_out() -> None:
    time, bench = Ticking(), Bench(context())
    complaints: list[BackendError] = []

    class Full(MemoryStore):
        def append(self, events):  # type: ignore[no-untyped-def]
            if 3.0 < time.seconds < 8.0:
                raise BackendError("no room on the disk")
            return super().append(events)

    full = Full()
    engine = Engine(full, bench.backend, open_job=lambda _: bench.job_context)
    engine.submit(SUBMITTED)
    live(
        engine,
        time.clock(1800.0),
        sleep=time.sleep,
        monotonic=time.monotonic,
        complain=complaints.append,
    )
    assert len(complaints) == 1
    assert engine.state.jobs["job"].status == "succeeded"
    assert audit(engine.state.jobs["job"], bench.job_context, full.read()).clean


def test_a_disk_that_stays_full_lets_go_of_everything() -> None:
    time, bench = Ticking(), Bench(context())

    class Full(MemoryStore):
        def append(self, events):  # type: ignore[no-untyped-def]
            if time.seconds > 2.0:
                raise BackendError("no room on the disk")
            return super().append(events)

    engine = Engine(Full(), bench.backend, open_job=lambda _: bench.job_context)
    engine.submit(SUBMITTED)
    with pytest.raises(BackendError, match="no room"):
        live(engine, time.clock(1800.0), sleep=time.sleep, monotonic=time.monotonic)
    assert bench.backend.orders[-1].ending


def test_an_engine_that_runs_for_long_keeps_the_contexts_of_few_jobs_that_ended() -> None:
    made: list[str] = []

    def opened(event: Submitted) -> JobContext:
        made.append(event.job)
        return context("on-demand", work_gpu_hours=0.1)

    engine = Engine(MemoryStore(), Replay(), open_job=opened)
    for number in range(KEPT_CONTEXTS + 10):
        now = number * 1.0
        engine.submit(dataclasses.replace(SUBMITTED, job=f"job-{number}", at_hours=now))
        engine.step(now)
        engine.step(now + SLOT)
    assert not engine.state.active
    made.clear()
    engine.context.jobs.named(f"job-{KEPT_CONTEXTS}")
    assert made == []
    engine.context.jobs.named("job-0")
    assert made == ["job-0"]
