"""Learning a stream: rates, work, speedups, and a policy that spends what it may."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from slacktide.allocate.knowledge import Curve, Fading, Knowledge, thinned
from slacktide.allocate.online_width import OnlineRun, OnlineWidth
from slacktide.backtesting.stream.events import run_events
from slacktide.budget.arrivals import draw_stream
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.rates import Rate
from slacktide.budget.stream import Stream
from slacktide.budget.widths import optimal_widths
from slacktide.deciding import Arrived, Columns, Fact, Finished, FleetView, Progressed, Wanted
from slacktide.speedup import Amdahl, Linear, Power, Speedup
from slacktide.types import Job, Phase

CLASSES = (
    JobClass(
        Job(name="law", work_gpu_hours=2.0, speedup=Amdahl(0.9), widths=tuple(range(1, 33))),
        arrivals_per_hour=6.0,
    ),
    JobClass(
        Job(name="root", work_gpu_hours=1.5, speedup=Power(0.6), widths=(1, 2, 4, 8, 16)),
        arrivals_per_hour=4.0,
    ),
)
FLEET = Fleet(CLASSES, budget_gpus=45.0)


def test_a_rate_is_the_average_of_a_steady_stream() -> None:
    rate, rng, now = Rate(), np.random.default_rng(1), 0.0
    for gap in rng.exponential(0.5, 4000):
        now += gap
        assert not rate.arrived(now)
    assert rate.per_hour(now) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_rate_forgets_what_was_before_a_change(factor: float) -> None:
    rate, rng, now = Rate(), np.random.default_rng(2), 0.0
    changes = []
    for number in range(3000):
        now += rng.exponential(0.5 if number < 2000 else 0.5 / factor)
        if rate.arrived(now):
            changes.append(number)
    assert len(changes) == 1
    assert 2000 <= changes[0] <= 2250
    assert rate.per_hour(now) == pytest.approx(2.0 * factor, rel=0.1)


def test_bursts_are_not_taken_for_a_change() -> None:
    one = JobClass(Job(name="a", work_gpu_hours=1.0), arrivals_per_hour=2.0)
    alarms = 0
    for seed in range(10):
        rate = Rate()
        for now in draw_stream((one,), 3000, arrivals="bursty", seed=seed).arrival_hours.tolist():
            alarms += rate.arrived(now)
    assert alarms <= 2


def test_a_curve_knows_what_was_tried_and_guesses_between() -> None:
    curve, law = Curve(), Amdahl(0.9)
    for gpus in (1, 2, 8, 16):
        curve.learn(gpus, 2.0, 2.0 * law(gpus))
        curve.learn(gpus, 1.0, law(gpus))
    widths = [1, 2, 3, 4, 6, 8, 12, 16]
    assert curve.rates(widths) == pytest.approx([law(gpus) for gpus in widths], rel=0.05)
    assert [curve.rates([gpus])[0] for gpus in (1, 2, 8, 16)] == pytest.approx(
        [law(gpus) for gpus in (1, 2, 8, 16)]
    )
    beyond = curve.rates([16, 32])
    assert beyond[0] < beyond[1] <= 2 * beyond[0]


def test_one_point_is_enough_for_a_guess() -> None:
    curve = Curve()
    curve.learn(4, 1.0, 3.0)
    low, here, high = curve.rates([2, 4, 8])
    assert low < here < high
    assert here / low <= 2
    assert high / here <= 2


def test_what_is_long_past_fades() -> None:
    fading = Fading(10.0)
    for amount in [5.0] * 200 + [1.0] * 100:
        fading.add(0, amount)
        fading.add(1, 1.0)
        fading.age()
    assert fading.get(0) / fading.get(1) == pytest.approx(1.0, rel=1e-3)
    for _ in range(5000):
        fading.age()
    assert np.isfinite(fading.weight)


def test_widths_are_thinned_to_what_makes_a_difference() -> None:
    assert thinned((1, 2, 4, 8)) == [1, 2, 4, 8]
    kept = thinned(tuple(range(1, 1025)))
    assert kept[:8] == list(range(1, 9))
    assert len(kept) < 70


def test_estimates_come_to_the_truth() -> None:
    found = learned(FLEET, draw_stream(CLASSES, 4000, seed=3))
    for index, one in enumerate(CLASSES):
        known = found[index]
        assert known.arrivals_per_hour == pytest.approx(one.arrivals_per_hour, rel=0.08)
        assert known.work_gpu_hours == pytest.approx(one.work_gpu_hours, rel=0.1)
        used = [w for w in known.widths if 4 <= w <= 16]
        assert [known.phases[0].speedup(w) for w in used] == pytest.approx(
            [one.phases[0].speedup(w) for w in used], rel=0.05
        )


class Spy:
    """Runs the online allocator, and writes down what it is told and what it decides."""

    def __init__(self, run: OnlineRun) -> None:
        self.run = run
        self.told: list[Fact | tuple[FleetView, list[int]]] = []

    @property
    def wake_hours(self) -> float:
        return self.run.wake_hours

    def learn(self, fact: Fact) -> None:
        self.told.append(fact)
        self.run.learn(fact)

    def decide(self, view: FleetView) -> Wanted:
        copy = view._replace(jobs=Columns._make(None if one is None else one.copy() for one in view.jobs))
        wanted = self.run.decide(view)
        self.told.append((copy, wanted.on_demand_gpus.tolist()))
        return wanted


def spied(fleet: Fleet, stream: Stream) -> Spy:
    spy = Spy(OnlineWidth().begin(fleet))
    run_events(stream, fleet, spy)
    return spy


def learned(fleet: Fleet, stream: Stream) -> dict[int, JobClass]:
    return spied(fleet, stream).run.knowledge.estimates(stream.hours)


def test_the_same_events_again_make_the_same_policy() -> None:
    spy = spied(FLEET, draw_stream(CLASSES, 400, seed=4))
    twin = OnlineWidth().begin(FLEET)
    for told in spy.told:
        if isinstance(told, (Arrived, Progressed, Finished)):
            twin.learn(told)
        else:
            assert twin.decide(told[0]).on_demand_gpus.tolist() == told[1]
    assert twin == spy.run


def test_what_it_writes_down_is_all_it_knows() -> None:
    spy = spied(FLEET, draw_stream(CLASSES, 400, seed=4))
    for run in (spy.run, OnlineWidth().begin(FLEET)):
        twin = OnlineWidth().begin(FLEET)
        twin.recall(json.loads(json.dumps(run.remember(), allow_nan=False)))
        assert twin == run


def test_a_rate_after_a_change_of_pace_is_written_down() -> None:
    rate = Rate(since_hours=3.0, count=51, ends_hours=[4.0])
    assert Rate.recalled(json.loads(json.dumps(rate.remember()))) == rate


def disguised(fleet: Fleet) -> Fleet:
    """Return a fleet that tells lies about all that the online policy must find out by itself."""
    lie: Speedup = Linear()
    classes = tuple(
        JobClass(replace(one.job, phases=tuple(Phase(9.0, lie) for _ in one.phases)), arrivals_per_hour=77.0)
        for one in fleet.classes
    )
    return replace(fleet, classes=classes)


def test_it_is_not_told_rates_work_or_speedups() -> None:
    stream = draw_stream(CLASSES, 600, seed=5)
    honest, lied_to = Spy(OnlineWidth().begin(FLEET)), Spy(OnlineWidth().begin(disguised(FLEET)))
    runs = [run_events(stream, FLEET, spy) for spy in (honest, lied_to)]
    assert np.array_equal(runs[0].response_hours, runs[1].response_hours)


def test_a_job_that_began_in_ignorance_is_widened_later() -> None:
    drawn = draw_stream(CLASSES, 600, seed=9)
    sizes = drawn.size.copy()
    sizes[0] = 40.0
    stream = Stream(drawn.arrival_hours, drawn.class_index, sizes)
    run = run_events(stream, FLEET, OnlineWidth())
    alone_on_one = 40.0 * CLASSES[stream.class_index[0]].work_gpu_hours
    assert run.response_hours[0] < alone_on_one / 2


def test_jobs_are_not_resized_when_plans_waver() -> None:
    phased = replace(
        CLASSES[1].job,
        name="phased",
        phases=(Phase(0.5, Power(0.6)), Phase(1.5, Amdahl(0.95))),
        restart_hours=0.03,
    )
    fleet = Fleet((CLASSES[0], replace(CLASSES[1], job=phased)), budget_gpus=45.0)
    stream = draw_stream(fleet.classes, 3000, seed=10)
    run = run_events(stream, fleet, OnlineWidth())
    between_phases = int((stream.class_index == 1).sum())
    assert run.resizes < between_phases + 0.03 * len(stream)


def test_exploration_ends() -> None:
    run = spied(FLEET, draw_stream(CLASSES, 4000, seed=6)).run
    for known in run.knowledge.known.values():
        assert len(known.curves[0].tried) <= 25


@pytest.mark.parametrize("arrivals", ["poisson", "bursty"])
def test_it_spends_the_budget_and_comes_near_the_optimum(arrivals: str) -> None:
    stream = draw_stream(CLASSES, 5000, arrivals=arrivals, seed=7)
    run = run_events(stream, FLEET, OnlineWidth())
    assert run.average_gpus <= 1.02 * FLEET.budget_gpus
    best = optimal_widths(CLASSES, FLEET.budget_gpus)
    per_size = np.array([one.response_hours for one in best.classes])
    late = slice(2000, None)
    optimum = (per_size[stream.class_index] * stream.size)[late].mean()
    assert run.response_hours[late].mean() <= 1.12 * optimum


def test_it_follows_a_doubling_and_still_keeps_the_budget() -> None:
    drawn = draw_stream(CLASSES, 5000, seed=8)
    stream = drawn.sped_up(float(drawn.arrival_hours[2500]), 2.0)
    fleet = replace(FLEET, budget_gpus=75.0)
    run = run_events(stream, fleet, OnlineWidth())
    assert run.average_gpus <= 1.03 * fleet.budget_gpus


def test_a_knowledge_of_nothing_is_empty() -> None:
    knowledge = Knowledge(CLASSES)
    assert knowledge.estimates(0.0) == {}
    knowledge.learn(Arrived(1.0, 0, 1))
    assert knowledge.estimates(1.0) == {}
    knowledge.learn(Progressed(2.0, 0, 1, 0, 2, 1.0, 1.5))
    assert list(knowledge.estimates(2.0)) == [1]
