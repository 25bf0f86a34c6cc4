"""Learning a stream: rates, work, speedups, and a policy that spends what it may."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slacktide.allocators.site.spot import Spot
from slacktide.allocators.streams.class_estimates import Knowledge, LearnedSpeedup, thinned
from slacktide.allocators.streams.online_width import OnlineRun, OnlineWidth
from slacktide.allocators.streams.repayment import Repaying, committed_gpu_hours, left_gpu_hours
from slacktide.allocators.view import (
    Arrived,
    Fact,
    Finished,
    FleetView,
    JobColumns,
    OldMemory,
    Progressed,
    Wanted,
)
from slacktide.budget.classes import JobClass
from slacktide.budget.estimates.rates import ArrivalRate
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, draw_stream
from slacktide.budget.widths import optimal_widths
from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup
from slacktide.core.types import Job, Phase
from slacktide.policies.view import View
from slacktide.simulation.fleet.run import run_events

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
LEARNING = OnlineWidth(speedups="learn")


def test_a_curve_knows_what_was_tried_and_guesses_between() -> None:
    curve, law = LearnedSpeedup(), Amdahl(0.9)
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
    curve = LearnedSpeedup()
    curve.learn(4, 1.0, 3.0)
    low, here, high = curve.rates([2, 4, 8])
    assert low < here < high
    assert here / low <= 2
    assert high / here <= 2


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
        self.needs_sizes = run.needs_sizes
        self.told: list[Fact | tuple[FleetView, list[int]]] = []

    @property
    def wake_hours(self) -> float:
        return self.run.wake_hours

    def learn(self, fact: Fact) -> None:
        self.told.append(fact)
        self.run.learn(fact)

    def decide(self, view: FleetView) -> Wanted:
        copy = view._replace(jobs=JobColumns._make(None if one is None else one.copy() for one in view.jobs))
        wanted = self.run.decide(view)
        self.told.append((copy, wanted.on_demand_gpus.tolist()))
        return wanted


def spied(fleet: Fleet, stream: Stream) -> Spy:
    spy = Spy(LEARNING.begin(fleet))
    run_events(stream, fleet, spy)
    return spy


def learned(fleet: Fleet, stream: Stream) -> dict[int, JobClass]:
    found = spied(fleet, stream).run.knowledge.estimates(stream.hours)
    return {index: estimate.job_class for index, estimate in found.items()}


def test_the_same_events_again_make_the_same_policy() -> None:
    spy = spied(FLEET, draw_stream(CLASSES, 400, seed=4))
    twin = LEARNING.begin(FLEET)
    for told in spy.told:
        if isinstance(told, (Arrived, Progressed, Finished)):
            twin.learn(told)
        else:
            assert twin.decide(told[0]).on_demand_gpus.tolist() == told[1]
    assert twin == spy.run


def test_what_it_writes_down_is_all_it_knows() -> None:
    spy = spied(FLEET, draw_stream(CLASSES, 400, seed=4))
    for run in (spy.run, LEARNING.begin(FLEET)):
        twin = LEARNING.begin(FLEET)
        twin.recall(json.loads(json.dumps(run.remember(), allow_nan=False)))
        assert twin == run


def disguised(fleet: Fleet) -> Fleet:
    """Return a fleet that tells lies about all that the online policy must find out by itself."""
    lie: Speedup = Linear()
    classes = tuple(
        JobClass(replace(one.job, phases=tuple(Phase(9.0, lie) for _ in one.phases)), arrivals_per_hour=77.0)
        for one in fleet.classes
    )
    return replace(fleet, classes=classes)


def lying(fleet: Fleet, *, said: bool) -> Fleet:
    """Return a fleet whose rates and work are lies; its speedups are true, and somebody said so or not."""
    phases = (tuple(Phase(9.0, phase.speedup) for phase in one.phases) for one in fleet.classes)
    classes = tuple(
        JobClass(replace(one.job, phases=parts), arrivals_per_hour=77.0, speedup_said=said)
        for one, parts in zip(fleet.classes, phases, strict=True)
    )
    return replace(fleet, classes=classes)


def test_it_is_not_told_rates_work_or_speedups() -> None:
    stream = draw_stream(CLASSES, 600, seed=5)
    honest, lied_to = Spy(LEARNING.begin(FLEET)), Spy(LEARNING.begin(disguised(FLEET)))
    runs = [run_events(stream, FLEET, spy) for spy in (honest, lied_to)]
    assert np.array_equal(runs[0].response_hours, runs[1].response_hours)


def test_speedups_that_somebody_said_are_believed_and_no_width_is_tried_out() -> None:
    stream = draw_stream(CLASSES, 600, seed=5)
    spy = Spy(OnlineWidth().begin(lying(FLEET, said=True)))
    run = run_events(stream, FLEET, spy)
    for index, known in spy.run.knowledge.known.items():
        assert known.believed
        assert not known.curves[0].tried
        assert spy.run.knowledge.estimates(stream.hours)[index].job_class.phases[0].speedup == (
            CLASSES[index].phases[0].speedup
        )
    never = replace(OnlineWidth(), explore_every=10**9)
    assert np.array_equal(run.response_hours, run_events(stream, FLEET, never).response_hours)


def test_speedups_that_nobody_said_are_learned() -> None:
    stream = draw_stream(CLASSES, 600, seed=5)
    learned_by_itself = run_events(stream, FLEET, LEARNING)
    unsaid = run_events(stream, FLEET, Spy(OnlineWidth().begin(lying(FLEET, said=False))))
    assert np.array_equal(learned_by_itself.response_hours, unsaid.response_hours)


def test_work_that_jobs_declare_is_believed_before_any_is_done() -> None:
    stream = draw_stream(CLASSES, 300, sizes="lognormal", seed=11)
    spy = Spy(OnlineWidth(work="declared").begin(FLEET))
    run_events(stream, FLEET, spy)
    found = spy.run.knowledge.estimates(stream.hours)
    for index, one in enumerate(CLASSES):
        sizes = stream.size[stream.class_index == index]
        assert found[index].job_class.work_gpu_hours == pytest.approx(
            one.work_gpu_hours * sizes.mean(), rel=0.05
        )


def test_what_a_job_declares_it_will_still_need() -> None:
    run = OnlineWidth(work="declared").begin(FLEET)
    run.learn(Arrived(1.0, 0, 0))
    view = view_of(kind=0, gpus=0, work_gpu_hours=6.0)
    run.decide(view)
    known = run.knowledge.estimates(1.0)
    assert known[0].job_class.work_gpu_hours == pytest.approx(6.0)
    later = view._replace(jobs=view.jobs._replace(progress_gpu_hours=np.array([2.0])))
    assert left_gpu_hours(later, known).tolist() == [4.0]


def test_what_is_committed_is_the_work_left_at_the_width_that_is_held() -> None:
    knowledge = Knowledge(CLASSES, believe=True)
    knowledge.learn(Arrived(0.5, 0, 0))
    for job in range(1, 40):
        knowledge.learn(Arrived(1.0, job, 0))
        knowledge.learn(Progressed(1.0, job, 0, 0, 1, 2.0, 2.0))
        knowledge.learn(Finished(1.0, job, 0))
    view = view_of(kind=0, gpus=4, work_gpu_hours=None)
    # All that finished had two GPU-hours of work, so this one is taken to have two as well.
    assert committed_gpu_hours(view, knowledge.estimates(1.0), {}) == pytest.approx(2 * 4 / Amdahl(0.9)(4))


def view_of(*, kind: int, gpus: int, work_gpu_hours: float | None) -> FleetView:
    """Return a view of one job that has just come."""
    work = None if work_gpu_hours is None else np.array([work_gpu_hours])
    zero, whole = np.zeros(1), np.zeros(1, dtype=np.int64)
    jobs = JobColumns(whole, whole + kind, whole, whole, zero, whole, whole + gpus, zero, zero, work)
    return FleetView(1.0, FLEET, jobs, range(1), 0, 0, 0.0, Spot(), Nobody())


class Nobody:
    """Shows no rows."""

    def name(self, place: int) -> str:
        raise NotImplementedError

    def view(self, place: int, spot: Spot) -> View:
        raise NotImplementedError


def test_an_account_is_made_up_for_slowly_and_never_below_the_least() -> None:
    pace = ArrivalRate()
    for number in range(1, 401):
        pace.arrived(number / 10)
    repaying = Repaying(least_jobs=40.0, roots=4.0, most_share=0.2)
    jobs = max(40.0, 4.0 * np.sqrt(pace.dispersion * 400))

    def target(held_gpu_hours: float, least_gpus: float = 10.0) -> float:
        return repaying.target_gpus(held_gpu_hours, 20.0, least_gpus, pace, 40.0)

    assert target(0.0) == 20.0
    assert target(1.0) == pytest.approx(20.0 + pace.per_hour(40.0) / jobs)
    assert target(-1.0) == pytest.approx(20.0 - pace.per_hour(40.0) / jobs)
    assert [target(1e9), target(-1e9)] == pytest.approx([22.0, 18.0])
    assert target(-1e9, least_gpus=30.0) == pytest.approx(30.0)


def test_the_next_width_is_tried_once_however_far_it_is() -> None:
    """Allowed widths may be so far apart that none is near another: these are not tried for ever."""
    run = spied(FLEET, draw_stream(CLASSES, 1500, seed=6)).run
    way = run.turns[1].paths[0]
    assert run._trial(1, way) == way


def test_what_an_earlier_version_wrote_down_is_refused_and_nothing_is_changed() -> None:
    spy = spied(FLEET, draw_stream(CLASSES, 60, seed=4))
    before = spy.run.remember()
    with pytest.raises(OldMemory, match="must be of form 2, got 1"):
        spy.run.recall({"knowledge": {"pace": {"since_hours": 0.0, "count": 3, "ends_hours": []}}})
    assert spy.run.remember() == before


def test_a_job_that_runs_already_when_it_is_told_of_goes_on_so() -> None:
    run = LEARNING.begin(FLEET)
    run.learn(Arrived(0.1, 0, 0))
    for job in range(1, 40):
        run.learn(Arrived(0.5, job, 0))
        run.learn(Progressed(0.9, job, 0, 0, 3, 0.4, 1.0))
        run.learn(Finished(0.9, job, 0))
    assert run.decide(view_of(kind=0, gpus=3, work_gpu_hours=None)).on_demand_gpus.tolist() == [3]
    assert list(run.paths) == [0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"speedups": "mesured"}, "did you mean 'measured'"),
        ({"work": "guessed"}, "work must be one of"),
        ({"changes_per_job": 1.0}, "changes_per_job must be < 1"),
        ({"repay_roots": 0.0}, "repay_roots must be > 0"),
    ],
    ids=str,
)
def test_parameters_that_cannot_be_meant_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        OnlineWidth(**given)


def test_a_job_that_began_in_ignorance_is_widened_later() -> None:
    drawn = draw_stream(CLASSES, 600, seed=9)
    sizes = drawn.size.copy()
    sizes[0] = 40.0
    stream = Stream(drawn.arrival_hours, drawn.class_index, sizes)
    run = run_events(stream, FLEET, LEARNING)
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
    run = run_events(stream, fleet, LEARNING)
    between_phases = int((stream.class_index == 1).sum())
    assert run.resizes < between_phases + 0.03 * len(stream)


def test_exploration_ends() -> None:
    run = spied(FLEET, draw_stream(CLASSES, 4000, seed=6)).run
    for known in run.knowledge.known.values():
        assert len(known.curves[0].tried) <= 25


@pytest.mark.parametrize("arrivals", ["poisson", "bursty"])
def test_it_spends_the_budget_and_comes_near_the_optimum(arrivals: str) -> None:
    stream = draw_stream(CLASSES, 5000, arrivals=arrivals, seed=7)
    run = run_events(stream, FLEET, LEARNING)
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
    run = run_events(stream, fleet, LEARNING)
    assert run.average_gpus <= 1.03 * fleet.budget_gpus


def test_a_knowledge_of_nothing_is_empty() -> None:
    knowledge = Knowledge(CLASSES)
    assert knowledge.estimates(0.0) == {}
    knowledge.learn(Arrived(1.0, 0, 1))
    assert knowledge.estimates(1.0) == {}
    knowledge.learn(Progressed(2.0, 0, 1, 0, 2, 1.0, 1.5))
    assert list(knowledge.estimates(2.0)) == [1]
