"""The contract of an allocator, as checks that anyone can run on their own.

    from slacktide.checks import check_allocator
    check_allocator(MyAllocator())

Each check takes an allocator and one case and raises CheckFailed with a sentence when the promise does not
hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from slacktide.allocators.view import (
    AnyAllocator,
    FleetView,
    Learning,
    Remembering,
    Sizing,
    begin,
    needs_market,
    needs_sizes,
)
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, draw_stream
from slacktide.budget.widths import least_budget_gpus
from slacktide.checks.allocators.allocator_memory import must_decide_the_same_again, must_go_on_from_memory
from slacktide.checks.allocators.site_allocator import SITE_CHECKS
from slacktide.checks.allocators.site_cases import site_cases
from slacktide.checks.base import CheckFailed, must_agree, run_all
from slacktide.checks.cases import WIDTHS, random_speedup
from slacktide.core.arrays import Ints
from slacktide.core.errors import InputError
from slacktide.core.types import Job, Phase
from slacktide.results.fleets.stream import StreamRun
from slacktide.simulation.fleet.run import RunOptions, Watch, run_events


@dataclass(frozen=True, slots=True)
class StreamCase:
    """A fleet and a stream of its jobs."""

    fleet: Fleet
    stream: Stream

    def __str__(self) -> str:
        return f"{len(self.stream)} jobs of {self.fleet}"


AllocatorCheck = Callable[[AnyAllocator, StreamCase, np.random.Generator], None]


class SeenDecision(NamedTuple):
    """What was decided when, for whom."""

    now_hours: float
    ids: tuple[int, ...]
    widths: tuple[int, ...]


def requests_only_what_is_allowed(
    allocator: AnyAllocator, case: StreamCase, rng: np.random.Generator
) -> None:
    """Every job gets one whole width, 0 or one its class may have; a cluster is never shared out twice."""
    sized = isinstance(begin(allocator, case.fleet), Sizing)

    def look(view: FleetView, widths: Ints) -> None:
        for job, width in enumerate(widths.tolist()):
            one = case.fleet.classes[view.jobs.kind[job]]
            if width not in (0, *one.widths):
                raise CheckFailed(f"a width must be 0 or in {one.widths}, got {width} in {case}")
        if sized and widths.sum() > view.rented_gpus:
            raise CheckFailed(
                f"widths must add up to at most the {view.rented_gpus} GPUs of the cluster, "
                f"got {widths.sum()} at {view.now_hours:g} h in {case}"
            )

    _run(allocator, case, look)


def finishes_every_job(allocator: AnyAllocator, case: StreamCase, rng: np.random.Generator) -> None:
    """No job waits forever."""
    run = _run(allocator, case)
    if not np.isfinite(run.response_hours).all():
        raise CheckFailed(f"every job must finish eventually, got one that never does in {case}")


def decides_the_same_again(allocator: AnyAllocator, case: StreamCase, rng: np.random.Generator) -> None:
    """The same stream gets the same decisions, whatever ran before, also after pickling."""
    message = f"the same stream must get the same decisions in {case}"
    must_decide_the_same_again(allocator, lambda one: decisions(one, case), message)


def cannot_see_the_future(allocator: AnyAllocator, case: StreamCase, rng: np.random.Generator) -> None:
    """Two streams that agree up to a job get the same decisions until it comes."""
    if len(case.stream) < 3:
        return
    first = int(rng.integers(1, len(case.stream) - 1))
    one, other = decisions(allocator, case), decisions(allocator, _other_future(case, first, rng))
    until = float(case.stream.arrival_hours[first - 1])
    must_agree(one, other, until, f"an allocator must not see the future beyond job {first} in {case}")


def does_not_know_sizes(allocator: AnyAllocator, case: StreamCase, rng: np.random.Generator) -> None:
    """An allocator that does not declare `needs_sizes` decides the same, however much work jobs have left."""
    if needs_sizes(allocator):
        return
    until = float(rng.uniform(0.3, 1.0)) * case.stream.hours
    run = _run(allocator, case)
    other = _larger(case, run, until)
    message = f"an allocator must not know the sizes of unfinished jobs at {until:g} h in {case}"
    must_agree(decisions(allocator, case), decisions(allocator, other), until, message)


def goes_on_from_what_it_wrote_down(
    allocator: AnyAllocator, case: StreamCase, rng: np.random.Generator
) -> None:
    """What one that learns writes down at any moment is all that a new one needs to decide the same."""
    run = begin(allocator, case.fleet)
    if not isinstance(run, Remembering):
        if isinstance(run, Learning):
            raise CheckFailed(f"an allocator that learns must have remember and recall, got {run!r} without")
        return
    must_go_on_from_memory(allocator, case.fleet, lambda one: decisions(one, case), case, rng)


ALLOCATOR_CHECKS: tuple[AllocatorCheck, ...] = (
    requests_only_what_is_allowed,
    finishes_every_job,
    decides_the_same_again,
    cannot_see_the_future,
    does_not_know_sizes,
    goes_on_from_what_it_wrote_down,
)


def check_allocator(allocator: AnyAllocator, *, examples: int = 20, seed: int = 0) -> None:
    """Run every check on this many random cases; raises CheckFailed at the first broken promise.

    One that declares `needs_market` is tried on fleets on a market, all others on streams without one.
    """
    if needs_market(allocator):
        run_all(SITE_CHECKS, allocator, lambda: site_cases(seed, examples), seed)
    else:
        run_all(ALLOCATOR_CHECKS, allocator, lambda: stream_cases(seed, examples), seed)


def stream_cases(seed: int, count: int) -> Iterator[StreamCase]:
    """Yield random cases; the same seed yields the same ones."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield random_stream_case(rng)


def random_stream_case(rng: np.random.Generator) -> StreamCase:
    """Make a fleet of a few classes with all that makes life hard, and a short stream of its jobs."""
    classes = tuple(_random_class(rng, str(number)) for number in range(rng.integers(1, 5)))
    fleet = Fleet(
        classes,
        budget_gpus=max(8.0, least_budget_gpus(classes) * float(rng.uniform(1.1, 4.0))),
        node_gpus=int(rng.choice([1, 1, 4])),
        provisioning_hours=float(rng.choice([0.0, 0.0, 0.3])),
        idle_grace_hours=float(rng.choice([0.0, 0.2])),
    )
    stream = draw_stream(
        classes,
        int(rng.integers(1, 120)),
        arrivals=str(rng.choice(["poisson", "bursty"])),
        sizes=str(rng.choice(["exponential", "pareto", "fixed"])),
        seed=int(rng.integers(2**31)),
    )
    return StreamCase(fleet, stream)


def _random_class(rng: np.random.Generator, name: str) -> JobClass:
    return JobClass(
        arrivals_per_hour=float(rng.uniform(0.5, 6.0)),
        job=Job(
            name=name,
            phases=tuple(
                Phase(float(rng.uniform(0.1, 3.0)), random_speedup(rng)) for _ in range(rng.choice([1, 1, 3]))
            ),
            restart_hours=float(rng.choice([0.0, 0.0, 0.1, 1.0])),
            widths=WIDTHS[rng.integers(len(WIDTHS))],
        ),
    )


def decisions(allocator: AnyAllocator, case: StreamCase) -> list[SeenDecision]:
    """Return all that an allocator decides in a case."""
    found: list[SeenDecision] = []

    def look(view: FleetView, widths: Ints) -> None:
        found.append(SeenDecision(view.now_hours, tuple(view.jobs.ids.tolist()), tuple(widths.tolist())))

    _run(allocator, case, look)
    return found


def _run(allocator: AnyAllocator, case: StreamCase, watch: Watch | None = None) -> StreamRun:
    """Run a case; one that cannot be followed breaks its contract."""
    try:
        return run_events(case.stream, case.fleet, allocator, RunOptions(watch=watch))
    except InputError as error:
        raise CheckFailed(f"{error}, in {case}") from error


def _other_future(case: StreamCase, first: int, rng: np.random.Generator) -> StreamCase:
    """Return a case in which other jobs come from a job on, at other times."""
    stream = case.stream
    gaps = np.diff(stream.arrival_hours[first - 1 :]) * rng.uniform(0.2, 3.0) + 1e-6
    late = stream.arrival_hours[first - 1] + np.cumsum(gaps)
    classes = rng.integers(0, len(case.fleet.classes), len(late))
    return StreamCase(
        case.fleet,
        Stream(
            np.concatenate((stream.arrival_hours[:first], late)),
            np.concatenate((stream.class_index[:first], classes)),
            np.concatenate((stream.size[:first], rng.permutation(stream.size[first:]) * 1.7)),
        ),
    )


def _larger(case: StreamCase, run: StreamRun, until: float) -> StreamCase:
    """Return a case in which the last phase of jobs that are not done by a time is longer."""
    stream = case.stream
    done = stream.arrival_hours + run.response_hours <= until
    phased = np.array([len(one.phases) > 1 for one in case.fleet.classes])[stream.class_index]
    # A size scales all phases, and an earlier one may have been seen to end: those jobs are left alone.
    size = np.where(done | phased, stream.size, stream.size * 3.0)
    return StreamCase(case.fleet, Stream(stream.arrival_hours, stream.class_index, size))
