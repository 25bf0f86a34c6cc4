"""Tiny streams worked out by hand, and long ones beside formulas of queueing theory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slacktide.allocators.streams.one_width import OneWidth
from slacktide.allocators.view import FleetView, Wanted
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, draw_stream
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl, Power
from slacktide.core.types import Job, Phase
from slacktide.results.stream import Responses, StreamRun
from slacktide.simulation.fleet.run import run_events, simulate
from slacktide_papers.baselines.equi import Equi
from slacktide_papers.baselines.fifo import Fifo
from slacktide_papers.baselines.srpt import Srpt

UNIT = JobClass(Job(name="unit", work_gpu_hours=1.0, widths=(1, 2, 3, 4)), arrivals_per_hour=1.0)
"""Linear speedup: on k GPUs a job of size x takes x / k hours."""


def stream(*jobs: tuple[float, float]) -> Stream:
    """Make a stream of one class from (arrival, size)."""
    hours, sizes = zip(*jobs, strict=True)
    return Stream(np.array(hours), np.zeros(len(jobs), dtype=np.int64), np.array(sizes))


def parts(run: StreamRun) -> tuple[float, float, float, float]:
    """Return what the bill was for: busy, restart, fragmentation, idle."""
    bill = run.bill
    return (
        bill.busy_gpu_hours,
        bill.restart_gpu_hours,
        bill.fragmentation_gpu_hours,
        bill.idle_gpu_hours,
    )


def test_jobs_start_at_once_and_are_billed_while_they_run() -> None:
    run = run_events(stream((0.0, 2.0), (0.5, 4.0), (4.0, 2.0)), Fleet((UNIT,)), OneWidth(2))
    assert run.response_hours.tolist() == [1.0, 2.0, 1.0]
    assert parts(run) == (8.0, 0.0, 0.0, 0.0)
    assert run.average_gpus == 8.0 / 4.0
    assert (run.peak_gpus, run.resizes, run.end_hours) == (4, 0, 5.0)


def test_a_node_is_waited_for_and_paid_from_the_request_on() -> None:
    fleet = Fleet((UNIT,), node_gpus=4, provisioning_hours=0.5)
    run = run_events(stream((1.0, 3.0)), fleet, OneWidth(3))
    assert run.response_hours.tolist() == [1.5]
    assert parts(run) == (3.0, 0.0, 1.0, 2.0)
    assert run.bill.gpu_hours == 6.0


def test_jobs_share_a_node_and_the_next_one_comes_when_it_is_full() -> None:
    fleet = Fleet((UNIT,), node_gpus=4)
    run = run_events(stream((0.0, 4.0), (0.0, 4.0), (1.0, 4.0)), fleet, OneWidth(2))
    # Two jobs fill one node until 2; the third brings a second node at 1 and is alone on one from 2 to 3.
    assert run.response_hours.tolist() == [2.0, 2.0, 2.0]
    assert parts(run) == (12.0, 0.0, 4.0, 0.0)
    assert run.peak_gpus == 8


def test_a_kept_node_saves_the_next_job_the_wait() -> None:
    kept = Fleet((UNIT,), node_gpus=1, provisioning_hours=0.5, idle_grace_hours=0.25)
    run = run_events(stream((0.0, 1.0), (1.7, 1.0), (4.0, 1.0)), kept, OneWidth(1))
    # The first is done at 1.5 and its node kept until 1.75; after 2.7 the node is idle until 2.95.
    assert run.response_hours == pytest.approx([1.5, 1.0, 1.5])
    assert parts(run) == pytest.approx((3.0, 0.0, 0.0, 0.5 + 0.2 + 0.25 + 0.5))


def test_the_node_that_was_idle_last_is_used_first() -> None:
    fleet = Fleet((UNIT,), provisioning_hours=0.1, idle_grace_hours=1.0)
    run = run_events(stream((0.0, 0.4), (0.0, 0.9), (1.2, 5.0), (9.0, 1.0)), fleet, OneWidth(1))
    # Done at 0.5 and 1.0; the third takes the node idle since 1.0, so the other one goes at 1.5.
    assert run.response_hours[2] == pytest.approx(5.0)
    assert run.bill.idle_gpu_hours == pytest.approx(2 * 0.1 + 1.0 + 0.2 + 1.0 + 0.1)


def test_a_node_on_its_way_that_nobody_needs_any_more_is_cancelled() -> None:
    fleet = Fleet((UNIT,), provisioning_hours=1.0)
    # The second job takes the node that the first leaves at 2.0; its own, due at 2.5, is cancelled then.
    run = run_events(stream((0.0, 1.0), (1.5, 1.0), (9.0, 1.0)), fleet, OneWidth(1))
    assert run.response_hours.tolist() == [2.0, 1.5, 2.0]
    assert run.bill.idle_gpu_hours == pytest.approx(1.0 + 0.5 + 1.0)


def test_after_the_last_arrival_no_node_is_kept() -> None:
    one = JobClass(
        Job(name="grows", phases=(Phase(1.0, Power(1.0)), Phase(2.0, Power(1.0))), widths=(1, 2)),
        arrivals_per_hour=1.0,
    )

    class Widens:
        def decide(self, view: FleetView) -> Wanted:
            return Wanted(1 + np.where(view.jobs.ids == 1, view.jobs.phase, 0))

    fleet = Fleet((one,), provisioning_hours=1.0, idle_grace_hours=10.0)
    run = run_events(stream((0.0, 0.3), (0.5, 1.0)), fleet, Widens())
    # The first leaves its node at 1.9. The second wants two at 2.5, and its second one comes at 3.5; by then
    # it has done half of its second phase on the one it has.
    assert run.response_hours == pytest.approx([1.9, 3.5 + 0.5 - 0.5])
    assert run.bill.idle_gpu_hours == pytest.approx(1.0 + 1.0 + 1.0)


def test_a_change_of_width_between_phases_costs_a_restart() -> None:
    one = JobClass(
        Job(
            name="two phases",
            phases=(Phase(2.0, Power(1.0)), Phase(4.0, Power(1.0))),
            restart_hours=0.25,
            widths=(1, 2, 4),
        ),
        arrivals_per_hour=1.0,
    )

    class Widens:
        def decide(self, view: FleetView) -> Wanted:
            return Wanted(np.where(view.jobs.phase == 0, 1, 4))

    run = run_events(stream((0.0, 1.0), (1.0, 0.5)), Fleet((one,)), Widens())
    assert run.response_hours.tolist() == [0.25 + 2.0 + 0.25 + 1.0, 0.25 + 1.0 + 0.25 + 0.5]
    assert parts(run) == (2.0 + 4.0 + 1.0 + 2.0, 2 * 0.25 * (1 + 4), 0.0, 0.0)
    assert run.resizes == 2


@pytest.mark.parametrize("gpus", [1, 2, 4])
def test_a_first_start_costs_a_restart_and_is_no_resize(gpus: int) -> None:
    one = JobClass(
        Job(name="unit", work_gpu_hours=2.0, speedup=Amdahl(0.5), restart_hours=0.25, widths=(1, 2, 4)),
        arrivals_per_hour=1.0,
    )
    worked = 2.0 / Amdahl(0.5)(gpus)
    for run in (
        run_events(stream((0.0, 1.0)), Fleet((one,)), OneWidth(gpus)),
        simulate(stream((0.0, 1.0)), Fleet((one,)), OneWidth(gpus)),
    ):
        assert run.response_hours.tolist() == pytest.approx([0.25 + worked])
        assert parts(run) == pytest.approx((gpus * worked, gpus * 0.25, 0.0, 0.0))
        assert (run.resizes, run.peak_gpus) == (0, gpus)


def test_a_restart_comes_after_the_wait_for_the_node() -> None:
    one = JobClass(
        Job(name="unit", work_gpu_hours=2.0, restart_hours=0.25, widths=(1, 2)), arrivals_per_hour=1.0
    )
    run = run_events(stream((0.0, 1.0)), Fleet((one,), provisioning_hours=0.5), OneWidth(2))
    assert run.response_hours.tolist() == [0.5 + 0.25 + 1.0]
    assert parts(run) == (2.0, 2 * 0.25, 0.0, 2 * 0.5)


def test_a_fixed_cluster_queues_and_is_paid_for_when_idle() -> None:
    run = run_events(stream((1.0, 2.0), (1.5, 2.0), (8.0, 2.0)), Fleet((UNIT,)), Fifo(3, gpus=2))
    assert run.response_hours.tolist() == [1.0, 1.5, 1.0]
    # Three GPUs until the last arrival at 8, then only the two that the last job holds.
    assert run.bill.gpu_hours == 3 * 8.0 + 2.0
    assert run.bill.busy_gpu_hours == 6.0
    assert run.peak_gpus == 3


def test_the_shortest_goes_first_and_going_on_costs_a_restart() -> None:
    one = JobClass(
        Job(name="unit", work_gpu_hours=1.0, restart_hours=0.5, widths=(1, 2)), arrivals_per_hour=1.0
    )
    run = run_events(stream((0.0, 4.0), (1.0, 1.0), (1.5, 9.0)), Fleet((one,)), Srpt(1, gpus=1))
    # After a pause of 0.5 each: 0.5-1 first, 1.5-2.5 second, 3-6.5 first, 7-16 third.
    assert run.response_hours.tolist() == [6.5, 1.5, 14.5]
    assert run.bill.restart_gpu_hours == 4 * 0.5


def test_equal_shares_are_whole_and_the_first_gets_what_is_left_over() -> None:
    run = run_events(stream((0.0, 4.0), (1.0, 3.0)), Fleet((UNIT,)), Equi(3))
    # Alone on 3 until 1, then 2 and 1: the first has 1 left and is done at 1.5; the second has 2.5 left.
    assert run.response_hours == pytest.approx([1.5, 0.5 + 2.5 / 3])


def test_while_nodes_come_a_job_waits_for_all_of_its_width() -> None:
    class Grows:
        def decide(self, view: FleetView) -> Wanted:
            return Wanted(np.full(len(view.jobs.ids), 1 if view.now_hours < 2 else 2))

    fleet = Fleet((UNIT,), provisioning_hours=1.0)
    run = run_events(stream((0.0, 5.0), (2.0, 2.0)), fleet, Grows())
    # From 2 on both want two. At 3 the three new nodes are there: until then the first keeps its one.
    assert run.response_hours == pytest.approx([3.0 + 3.0 / 2, 1.0 + 1.0])


def test_batches_of_arrivals_outgrow_the_room() -> None:
    count = 1000
    run = run_events(stream(*[(1.0, 1.0)] * count), Fleet((UNIT,)), OneWidth(1))
    assert run.response_hours.tolist() == [1.0] * count
    assert run.peak_gpus == count


class Stubborn:
    """Lets everybody wait."""

    def decide(self, view: FleetView) -> Wanted:
        return Wanted(np.zeros(len(view.jobs.ids), dtype=np.int64))


class Odd:
    """Asks for a width that is not allowed."""

    def decide(self, view: FleetView) -> Wanted:
        return Wanted(np.full(len(view.jobs.ids), 5))


def test_a_policy_that_cannot_be_followed_is_refused() -> None:
    with pytest.raises(InputError, match="1 jobs that wait forever"):
        run_events(stream((0.0, 1.0)), Fleet((UNIT,)), Stubborn())
    with pytest.raises(InputError, match="widths that class 'unit' may have, got 5"):
        run_events(stream((0.0, 1.0)), Fleet((UNIT,)), Odd())


def test_percentiles_are_response_times_that_occurred() -> None:
    responses = Responses.of(np.arange(1.0, 101.0)[::-1])
    assert (responses.p50_hours, responses.p95_hours, responses.mean_hours) == (50.0, 95.0, 50.5)
    assert math.isnan(Responses.of(np.empty(0)).mean_hours)


def waits(drawn: Stream) -> list[float]:
    """Response times on one server in the order of arrival, by Lindley's recursion."""
    found, free = [], 0.0
    for came, size in zip(drawn.arrival_hours.tolist(), drawn.size.tolist(), strict=True):
        free = max(free, came) + size
        found.append(free - came)
    return found


def test_one_server_is_the_queue_of_the_books() -> None:
    load = 0.4
    one = JobClass(Job(name="one", work_gpu_hours=1.0, widths=(1,)), arrivals_per_hour=load)
    drawn = draw_stream((one,), 20_000, seed=5)
    run = run_events(drawn, Fleet((one,)), Fifo(1, gpus=1))
    assert run.response_hours == pytest.approx(waits(drawn), rel=1e-9)
    assert run.mean_response_hours == pytest.approx(1 / (1 - load), rel=0.05)  # M/M/1
    assert run.bill.busy_gpu_hours / run.bill.gpu_hours == pytest.approx(load, rel=0.02)


def test_shortest_first_with_equal_sizes_is_the_order_of_arrival() -> None:
    one = JobClass(Job(name="one", work_gpu_hours=1.0, widths=(1,)), arrivals_per_hour=0.8)
    drawn = draw_stream((one,), 2_000, sizes="fixed", arrivals="bursty", seed=6)
    run = run_events(drawn, Fleet((one,)), Srpt(1, gpus=1))
    assert run.response_hours == pytest.approx(waits(drawn), rel=1e-9)


@pytest.mark.parametrize("arrivals", ["poisson", "bursty"])
@pytest.mark.parametrize("sizes", ["fixed", "exponential", "lognormal", "pareto"])
def test_fixed_widths_come_to_the_formulas_on_any_stream(arrivals: str, sizes: str) -> None:
    one = JobClass(
        Job(name="one", work_gpu_hours=2.0, speedup=Power(0.5), widths=(1, 4)), arrivals_per_hour=3.0
    )
    drawn = draw_stream((one,), 200_000, arrivals=arrivals, sizes=sizes, seed=7)
    run = simulate(drawn, Fleet((one,)), {"one-width": {"gpus": 4}})
    assert run.mean_response_hours == pytest.approx(2.0 / 2.0, rel=0.02)
    assert run.average_gpus == pytest.approx(3.0 * 4 * 1.0, rel=0.03)
