"""Facts decide: what was held is paid, an end is when it was, a stop is no success, a loss is no failure."""

from __future__ import annotations

import dataclasses
import math

import pytest

from slacktide.backends.base import JobProgress, WorkerFailure
from slacktide.engine.bills.audit import BillPricing, site_audit
from slacktide.engine.job.job_context import make_context
from slacktide.journal.events import (
    CancellationAsked,
    Decided,
    Ended,
    Held,
    Lived,
    Lost,
    Preempted,
    PreemptionAsked,
    Restarted,
    WorkerFailed,
)
from slacktide.market.base import Market
from slacktide.policies.base import policies

from .parts_of_machines import SLOT, SLOTS, Bench, context

# ---------------------------------------------------------------- row: told to stop is a stop


def test_workers_that_were_told_to_stop_have_not_succeeded_and_begin_again() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.1)
    bench.machine.is_gone(0.15, stopped=True, progress=JobProgress(0.087, 0.087, 0.1))
    bench.step(0.2)
    assert bench.record.status == "recovering"
    assert not bench.events(Ended, WorkerFailed)
    (lost,) = bench.events(Lost)
    assert "were stopped" in lost.why
    assert bench.machine.orders[-1].attempt == 2
    bench.machine.says(attempt=2, progress=JobProgress(0.087, 0.087))
    bench.step(0.3)
    assert bench.record.progress.state.progress_gpu_hours == pytest.approx(0.087 * 40)
    assert bench.record.progress.failures == 0


def test_a_told_attempt_is_never_adopted_by_the_next_controller() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.1)
    bench.engine.abandon()  # the journal could not be written
    bench.machine.is_gone(0.12, stopped=True)
    bench.reopened().recover()
    bench.step(3.0)
    assert bench.record.active
    assert bench.record.holding.attempt == 2
    assert bench.usd == pytest.approx(4 * 4.0 * 0.12)  # and not for the three hours


def test_losses_that_come_one_after_another_are_answered_more_and_more_slowly() -> None:
    bench = Bench(context())
    bench.step(0.0)
    for attempt in range(1, 5):
        bench.machine.is_gone(attempt * 0.01, attempt, stopped=True)
        bench.step(attempt * 0.01)
    delays = [event.delay_s for event in bench.events(Restarted)]  # type: ignore[attr-defined]
    assert delays == [0.0, 2.0, 4.0, 8.0]


def test_a_script_that_tells_itself_to_stop_is_given_up_in_the_end() -> None:
    bench = Bench(context())
    bench.step(0.0)
    for attempt in range(1, 30):
        if bench.record.active:
            bench.machine.is_gone(attempt * 0.01, attempt, stopped=True)
            bench.step(attempt * 0.01)
    assert bench.record.status == "failed"
    assert "must not signal its own process group" in bench.events(Decided)[-1].why
    assert len(bench.events(Lost)) == 21


def test_a_job_whose_machines_have_not_come_is_starting() -> None:
    bench = Bench(context())
    bench.machine.says(attempt=1, on_demand_gpus=0, pending_gpus=4)
    bench.step(0.0, 0.1)
    assert bench.record.status == "starting"
    bench.machine.says(attempt=1, on_demand_gpus=4, pending_gpus=0)
    bench.step(0.2, 0.3)
    bench.machine.says(attempt=1, progress=JobProgress(0.1, 0.1))
    bench.step(0.4)
    assert bench.record.status == "running"


def test_a_job_that_failed_says_of_what() -> None:
    bench = Bench(context())
    bench.step(0.0)
    for attempt in range(1, 30):
        if bench.record.active:
            bench.machine.is_gone(attempt * 0.01, attempt, failure=WorkerFailure(0, 3))
            bench.step(attempt * 0.01)
    (ended,) = bench.events(Ended)
    times = len(bench.events(WorkerFailed))
    assert times > 1
    assert ended.why == f"rank 0 exited with 3, {times} times in a row"


# ---------------------------------------------------------------- row: losses are losses


def test_a_lost_machine_on_demand_is_no_failure_of_the_job() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.1)
    bench.machine.says(attempt=1, stopped=True, lost_on_demand_gpus=1, on_demand_gpus=3)
    bench.step(0.2)
    assert bench.record.progress.failures == 0
    (lost,) = bench.events(Lost)
    assert (lost.on_demand_gpus, lost.actor) == (1, "market")  # type: ignore[attr-defined]
    assert bench.machine.orders[-1].attempt == 2
    assert bench.machine.orders[-1].on_demand_gpus == 4


def test_lost_spot_is_a_preemption_and_the_job_goes_on_with_what_is_left() -> None:
    bench = Bench(context("maximal-spot", widths=(1, 2, 4)))
    bench.step(0.0, 0.1)
    bench.machine.says(attempt=1, stopped=True, taken_spot_gpus=2, spot_gpus=2)
    bench.step(0.2)
    (taken,) = bench.events(Preempted)
    assert (taken.spot_before, taken.spot_left) == (4, 2)  # type: ignore[attr-defined]
    assert bench.machine.orders[-1].attempt == 2
    assert bench.machine.orders[-1].spot_gpus == 2
    assert bench.record.progress.failures == 0


def test_an_attempt_that_the_journal_knows_nothing_of_is_not_begun_again() -> None:
    bench = Bench(context())
    bench.machine.says(newest_attempt=7)
    bench.step(0.0)
    assert bench.machine.orders[-1].attempt == 8
    bench.machine.says(attempt=8, newest_attempt=12)
    bench.step(0.1)
    assert bench.machine.orders[-1].attempt == 13


def test_a_set_without_a_trace_is_lost_and_not_begun_again_under_its_number() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.1)
    bench.machine.says(attempt=0, spot_gpus=0, on_demand_gpus=0, gone=True)  # its folder was removed
    bench.reopened().recover()
    assert bench.machine.orders[-1].attempt == 2
    assert len(bench.events(Lost)) == 1
    bench.machine.says(attempt=2)
    bench.step(3.0)
    assert bench.usd == 0.0


def test_what_is_left_of_an_older_set_is_no_part_of_the_new_one() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.1)
    bench.machine.says(attempt=1, on_demand_gpus=1, failure=WorkerFailure(0, 1))
    bench.step(0.2)
    bench.machine.says(attempt=2, on_demand_gpus=0, pending_gpus=4)  # and these cannot be started
    bench.step(0.3, 0.4, 0.5, 1.0)
    assert bench.usd == pytest.approx(4.0 * (4 * 0.2 + 1 * 0.1))


# ---------------------------------------------------------------- row: only what was held is billed


def test_what_is_ordered_and_not_there_is_not_paid_for() -> None:
    bench = Bench(context())
    bench.machine.says(spot_gpus=0, on_demand_gpus=0, pending_gpus=4)
    bench.step(0.0, 0.1, 0.2, 0.6, 1.1)
    assert bench.usd == 0.0
    assert bench.record.progress.state.progress_gpu_hours == 0.0
    bench.machine.says(on_demand_gpus=3, pending_gpus=1)
    bench.step(1.2, 1.3)
    bench.machine.says()
    bench.step(1.4, 1.5)
    assert bench.usd == pytest.approx(4.0 * (3 * 0.2 + 4 * 0.1))
    held = [(event.on_demand_gpus, event.pending_gpus) for event in bench.events(Held)]  # type: ignore[attr-defined]
    assert held == [(0, 4), (3, 1), (4, 0)]
    assert len({order.attempt for order in bench.machine.orders}) == 1  # it is not ordered again and again


def test_a_power_cut_is_paid_to_the_last_sign_of_life() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.1)
    bench.machine.is_gone(3.3, stopped=True, lost_on_demand_gpus=4)
    bench.reopened().recover()
    bench.step(13.0)
    assert bench.usd == pytest.approx(4 * 4.0 * 3.3)
    bench.machine.says(attempt=bench.record.holding.attempt)
    bench.step(13.01, 13.02)
    assert bench.usd < 4 * 4.0 * (3.3 + 0.1)


def test_workers_that_are_let_go_are_paid_until_they_are_gone() -> None:
    bench = Bench(context())
    bench.step(0.0, 0.1)
    bench.ask(CancellationAsked(job="job", at_hours=0.1, actor="user"))
    bench.machine.says(gone=False, attempt=1, on_demand_gpus=4)
    bench.step(0.2)
    bench.machine.is_gone(0.25, stopped=True)
    bench.step(0.4)
    assert bench.record.status == "cancelled"
    assert bench.usd == pytest.approx(4 * 4.0 * 0.25)


# ---------------------------------------------------------------- row: the true end


@pytest.mark.parametrize(("until", "status"), [(15.6, "succeeded"), (21.0, "deadline_missed")])
def test_a_job_that_ended_while_nobody_looked_ends_when_it_did(until: float, status: str) -> None:
    bench = Bench(context())
    bench.step(0.0, 0.1)
    bench.machine.is_gone(until, finished=True, progress=JobProgress(1.0, 1.0, until))
    bench.reopened().recover()
    bench.step(26.0)
    assert bench.record.status == status
    assert bench.record.ended.finish_hours == pytest.approx(until)
    assert bench.usd == pytest.approx(4 * 4.0 * until)


@pytest.mark.parametrize("finished", [True, False])
def test_what_was_started_by_a_controller_that_could_not_say_so_is_billed(finished: bool) -> None:
    bench = Bench(context())
    bench.machine.says(spot_gpus=0, on_demand_gpus=0, pending_gpus=4)
    bench.step(0.0, 0.1)
    done = JobProgress(1.0, 1.0, 2.6) if finished else JobProgress(0.2, 0.2, 2.6)
    bench.machine.is_gone(2.6, since_hours=0.2, finished=finished, stopped=not finished, progress=done)
    bench.reopened().recover()
    bench.step(4.0)
    assert bench.usd == pytest.approx(4 * 4.0 * 2.4)
    assert (bench.record.status == "succeeded") == finished
    if not finished:  # and told once
        bench.step(4.1)
        assert len(bench.events(Lost)) == 1


def test_what_came_while_nobody_looked_is_billed_from_its_beginning() -> None:
    bench = Bench(context())
    bench.machine.says(spot_gpus=0, on_demand_gpus=0, pending_gpus=4)
    bench.step(0.0, 0.1)
    bench.machine.says(since_hours=0.2)
    bench.step(0.4)
    assert bench.usd == 0.0
    bench.step(0.5)
    assert bench.usd == pytest.approx(4 * 4.0 * 0.3)


def test_what_came_slots_ago_is_billed_from_its_beginning() -> None:
    bench = Bench(context())
    bench.machine.says(spot_gpus=0, on_demand_gpus=0, pending_gpus=4)
    bench.step(0.0, 0.1)
    bench.machine.says(since_hours=0.7)
    bench.reopened().recover()
    bench.step(3.0)
    assert bench.usd == pytest.approx(4 * 4.0 * 2.3)


@pytest.mark.parametrize("seen", [0.9, 2.2])
def test_an_older_set_that_nobody_saw_go_is_billed_to_its_end(seen: float) -> None:
    bench = Bench(context("maximal-spot", widths=(1, 2, 4)))
    bench.step(0.0, 0.1)
    bench.ask(PreemptionAsked(job="job", at_hours=0.2, actor="user", spot_gpus=2))
    bench.machine.says(attempt=1, spot_gpus=4)
    bench.step(0.2)  # two are to go on as a second set, and whoever begins it is killed
    assert (bench.record.holding.held, bench.record.holding.order.attempt) == ((2, 0), 2)
    bench.machine.says(attempt=2, spot_gpus=2, since_hours=0.8, before_until_hours=0.4)
    bench.reopened().recover()
    bench.step(seen)
    bench.machine.is_gone(seen, attempt=2, stopped=True)
    bench.step(seen + 0.01)
    spot = sum(
        event.priced.stretch.spot_gpus * event.priced.stretch.held_hours  # type: ignore[attr-defined]
        for event in bench.events(Lived)
    )
    assert spot == pytest.approx(4 * 0.2 + 2 * 0.2 + 2 * (seen - 0.8))


# ---------------------------------------------------------------- row: a step slower than a slot


def slow(bench: Bench, from_hours: float, *, slots: int = 30) -> None:
    """Step on at every slot's border only, so that every step finds a slot to be decided about."""
    first = math.ceil(from_hours / SLOT)
    bench.step(*(slot * SLOT for slot in range(first, first + slots)))


def test_a_cancellation_is_heard_by_steps_slower_than_slots() -> None:
    bench = Bench(context(deadline_hours=29.0))
    bench.step(0.0, 0.5)
    bench.ask(CancellationAsked(job="job", at_hours=0.5, actor="user"))
    slow(bench, 1.0, slots=3)
    assert bench.record.status == "cancelled"
    assert bench.usd <= 4 * 4.0 * 1.5


def test_a_stop_is_heard_by_steps_slower_than_slots() -> None:
    bench = Bench(context(deadline_hours=29.0))
    bench.step(0.0, 0.5)
    bench.engine.release()
    slow(bench, 1.0, slots=3)
    assert bench.engine.idle


def test_max_cost_is_kept_by_steps_slower_than_slots() -> None:
    bench = Bench(context(deadline_hours=29.0, max_cost_usd=100.0))
    slow(bench, 0.0)
    assert bench.record.status == "budget_exhausted"
    assert 40.0 < bench.usd <= 100.0


def test_failures_are_seen_by_steps_slower_than_slots() -> None:
    bench = Bench(context(deadline_hours=29.0))
    bench.step(0.0)
    bench.machine.says(failure=WorkerFailure(0, 3, hopeless=True))
    slow(bench, 0.5, slots=3)
    assert bench.record.status == "failed"


def test_a_market_that_takes_spot_at_the_border_is_heard_before_a_cancellation() -> None:
    bench = Bench(context("maximal-spot", widths=(1, 2, 4)))
    pool = dataclasses.replace(
        bench.job_context.market_pool,
        spot_gpus=[4, *[2] * (SLOTS - 1)],  # type: ignore[arg-type]
    )
    where = bench.job_context
    bench.job_context = make_context(where.job, Market((pool,)), pool, policies.make("maximal-spot"), 0)
    bench.reopened()
    bench.step(0.0)
    bench.ask(CancellationAsked(job="job", at_hours=0.1, actor="user"))
    bench.machine.says(gone=False)
    bench.step(0.6)
    stretches = [event.priced.stretch for event in bench.events(Lived)]  # type: ignore[attr-defined]
    assert all(one.spot_gpus <= one.quote.spot_gpus for one in stretches)
    assert bench.record.holding.order.spot_gpus == 2


def test_workers_still_on_their_way_out_when_the_market_takes_spot_are_paid_and_blame_nobody() -> None:
    bench = Bench(context("maximal-spot", widths=(1, 2, 4)))
    pool = dataclasses.replace(
        bench.job_context.market_pool,
        spot_gpus=[4, *[0] * (SLOTS - 1)],  # type: ignore[arg-type]
    )
    bench.job_context = make_context(
        bench.job_context.job, Market((pool,)), pool, policies.make("maximal-spot"), 0
    )
    bench.reopened()
    bench.step(0.0)
    bench.ask(CancellationAsked(job="job", at_hours=0.4, actor="user"))
    bench.machine.says(gone=False, attempt=bench.record.holding.attempt, spot_gpus=4)
    bench.step(0.4, 0.51)
    bench.machine.is_gone(0.52)
    bench.step(0.53)
    assert bench.record.status == "cancelled"
    stretches = [event.priced.stretch for event in bench.events(Lived)]  # type: ignore[attr-defined]
    assert any(one.spot_gpus == 4 and one.quote.spot_gpus == 0 for one in stretches), "held over the border"
    pricing = {
        "job": BillPricing(
            bench.job_context.job,
            bench.job_context.tariff,
            lambda pool, slot: bench.job_context.named(pool).quote(slot),
        )
    }
    assert site_audit(pricing, bench.store.read()).clean


# ---------------------------------------------------------------- row: the reserve of max_cost


@pytest.mark.parametrize("billing", ["second", "slot"])
def test_a_price_that_rises_while_workers_stop_does_not_pass_max_cost(billing: str) -> None:
    prices = [3.0, 3.0, 0.5, 0.5, 0.5, 0.5, 0.5, 3.9]  # it was as high before
    bench = Bench(context("maximal-spot", prices, max_cost_usd=30.0, billing=billing, deadline_hours=29.0))
    bench.machine.stop = 0.2
    now, told = 0.0, math.inf
    while bench.record.active:
        if now >= told + 0.19:
            bench.machine.is_gone(now)
        else:
            bench.machine.says(gone=False, attempt=bench.record.holding.attempt, spot_gpus=4)
        bench.step(now)
        told = min(told, now if bench.record.requests.ending is not None else math.inf)
        now += 0.01
    assert bench.record.status == "budget_exhausted"
    assert bench.usd <= 30.0
