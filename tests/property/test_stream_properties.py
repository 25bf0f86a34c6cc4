"""Laws of the stream simulator for any stream, fleet and policy."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slacktide.allocators.view import Fact, Finished, FleetView, Progressed, Wanted
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import ARRIVALS, SIZES, Bursts, Stream, draw_stream, numbers_in_class
from slacktide.budget.widths import optimal_widths
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup
from slacktide.core.types import Job, Phase
from slacktide.simulation.fleet.run import run_events

SPEEDUPS: tuple[Speedup, ...] = (Linear(), Amdahl(0.8), Power(0.6))
WIDTHS = ((1,), (1, 2, 4, 8), (2, 3), tuple(range(1, 9)))


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Draw a fleet of one to three classes on nodes of any kind."""
    classes = []
    for number in range(draw(st.integers(1, 3))):
        phases = tuple(
            Phase(draw(st.floats(0.1, 5.0)), draw(st.sampled_from(SPEEDUPS)))
            for _ in range(draw(st.integers(1, 3)))
        )
        classes.append(
            JobClass(
                Job(
                    name=str(number),
                    phases=phases,
                    restart_hours=draw(st.sampled_from((0.0, 0.1, 1.5))),
                    widths=draw(st.sampled_from(WIDTHS)),
                ),
                arrivals_per_hour=draw(st.floats(0.5, 8.0)),
            )
        )
    return Fleet(
        tuple(classes),
        node_gpus=draw(st.sampled_from((1, 4))),
        provisioning_hours=draw(st.sampled_from((0.0, 0.3))),
        idle_grace_hours=draw(st.sampled_from((0.0, 0.2))),
    )


@dataclass
class Restless:
    """Gives random widths, sometimes none, and adds up what it is told of each job's progress."""

    seed: int
    work: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    finished: set[int] = field(default_factory=set)
    rng: np.random.Generator = field(init=False)
    fleet: Fleet | None = None

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    @property
    def wake_hours(self) -> float:
        return self.woken + 0.7

    woken: float = 0.0

    def learn(self, fact: Fact) -> None:
        if isinstance(fact, Progressed):
            assert self.fleet is not None
            stage = self.fleet.stages.first[fact.kind] + fact.phase
            assert fact.work_gpu_hours == pytest.approx(
                self.fleet.stages.rate[stage, fact.gpus] * fact.hours, rel=1e-6, abs=1e-9
            )
            self.work[fact.id] += fact.work_gpu_hours
        elif isinstance(fact, Finished):
            self.finished.add(fact.id)

    def decide(self, view: FleetView) -> Wanted:
        assert view.fleet is not None
        self.fleet, self.woken = view.fleet, view.now_hours
        asked = self.rng.integers(0, 9, len(view.jobs.ids))
        asked[self.rng.random(len(asked)) < 0.6] = 8
        table = view.fleet.stages.narrower
        return Wanted(table[view.stage, np.minimum(asked, table.shape[1] - 1)])


@given(fleets(), st.integers(0, 10**6), st.sampled_from(sorted(ARRIVALS)), st.sampled_from(sorted(SIZES)))
@settings(max_examples=60, deadline=None)
def test_work_and_money_are_conserved(fleet: Fleet, seed: int, arrivals: str, sizes: str) -> None:
    stream = draw_stream(fleet.classes, 40, arrivals=arrivals, sizes=sizes, seed=seed)
    policy = Restless(seed)
    run = run_events(stream, fleet, policy)
    bill = run.bill
    parts = (
        bill.busy_gpu_hours,
        bill.restart_gpu_hours,
        bill.fragmentation_gpu_hours,
        bill.idle_gpu_hours,
    )
    assert min(parts) >= -1e-9
    assert sum(parts) == pytest.approx(bill.gpu_hours, rel=1e-9)
    assert policy.finished == set(range(len(stream)))
    mean = np.array([one.work_gpu_hours for one in fleet.classes])
    done = [policy.work[job] for job in range(len(stream))]
    assert done == pytest.approx((mean[stream.class_index] * stream.size).tolist(), rel=1e-9)
    fastest = fleet.stages.rate.max(axis=1)
    hours = np.add.reduceat(fleet.stages.work_gpu_hours / fastest, fleet.stages.first[:-1])
    starts = np.array([one.restart_hours for one in fleet.classes])
    soonest = starts[stream.class_index] + hours[stream.class_index] * stream.size
    assert (run.response_hours >= soonest * (1 - 1e-9) - 1e-9).all()


def one_by_one(fleet: Fleet, stream: Stream) -> list[JobClass]:
    """Return the jobs of a stream, each as a class of its own."""
    found = []
    for job, (index, size) in enumerate(zip(stream.class_index.tolist(), stream.size.tolist(), strict=True)):
        phases = tuple(
            Phase(each.work_gpu_hours * size, each.speedup) for each in fleet.classes[index].phases
        )
        template = replace(fleet.classes[index].job, name=str(job), phases=phases)
        found.append(JobClass(template, 1.0 / stream.hours))
    return found


@given(fleets(), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_nobody_is_below_the_frontier_of_what_came(fleet: Fleet, seed: int) -> None:
    """On any stream, any policy's mean response is at least the optimum for its spend and the jobs' work.

    Each job is a class of its own: a start costs a short job more of its time, so who knows sizes, or is
    lucky, can be better than the best width for a class's mean work.
    """
    stream = draw_stream(fleet.classes, 40, seed=seed)
    run = run_events(stream, fleet, Restless(seed))
    best = optimal_widths(one_by_one(fleet, stream), run.average_gpus * (1 + 1e-9))
    assert run.mean_response_hours >= best.mean_response_hours * (1 - 1e-9)


@given(st.integers(1, 300), st.integers(0, 10**6), st.sampled_from(sorted(ARRIVALS)))
def test_a_seed_draws_one_stream_in_order(count: int, seed: int, arrivals: str) -> None:
    classes = [
        JobClass(Job(name=name, work_gpu_hours=1), arrivals_per_hour=rate)
        for name, rate in (("a", 1), ("b", 3))
    ]
    one, other = (draw_stream(classes, count, arrivals=arrivals, seed=seed) for _ in range(2))
    assert np.array_equal(one.arrival_hours, other.arrival_hours)
    assert np.array_equal(one.class_index, other.class_index)
    assert np.array_equal(one.size, other.size)
    assert len(one) == count
    assert (np.diff(one.arrival_hours) >= 0).all()


@given(st.floats(4.0, 8.0), st.floats(0.05, 0.12), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_bursts_keep_the_rate(factor: float, time_share: float, seed: int) -> None:
    one = JobClass(Job(name="a", work_gpu_hours=1.0), arrivals_per_hour=2.0)
    bursts = Bursts(factor, time_share, jobs=20.0)
    drawn = draw_stream((one,), 40_000, arrivals="bursty", bursts=bursts, seed=seed)
    assert len(drawn) / drawn.hours == pytest.approx(2.0, rel=0.15)
    gaps = np.diff(drawn.arrival_hours)
    assert gaps.std() / gaps.mean() > 1.0


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_numbers_count_the_earlier_jobs_of_the_class(classes: list[int]) -> None:
    numbers = numbers_in_class(np.array(classes))
    assert numbers.tolist() == [classes[:place].count(one) for place, one in enumerate(classes)]


@given(st.floats(0.1, 10.0), st.floats(0.2, 5.0))
def test_a_stream_can_be_sped_up_from_a_time_on(at: float, factor: float) -> None:
    hours = np.linspace(0.5, 12.0, 30)
    stream = Stream(hours, np.zeros(30, dtype=np.int64), np.ones(30))
    faster = stream.sped_up(at, factor)
    early = hours <= at
    assert faster.arrival_hours[early] == pytest.approx(hours[early])
    assert faster.arrival_hours[~early] == pytest.approx(at + (hours[~early] - at) / factor)
