"""The contract of an allocator, with and without a market, as checks that anyone can run on their own.

    from slacktide.checks import check_allocator
    check_allocator(MyAllocator())

Each check takes an allocator and one case, and raises CheckFailed with a sentence if the promise does not
hold. A case is a stream of jobs at one price, or, for allocators that declare `needs_market`, jobs with
deadlines on a market: spot and on-demand GPUs in pools, and a budget.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from slacktide.allocators.view import (
    Admitting,
    AnyAllocator,
    FleetView,
    Learning,
    Pricing,
    Remembering,
    SiteView,
    Sizing,
    begin,
    keeps_deadlines,
    needs_market,
    needs_sizes,
)
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, draw_stream
from slacktide.budget.widths import least_budget_gpus
from slacktide.checks.allocators.site_cases import SiteCase, site_cases
from slacktide.checks.base import CheckFailed, must, run_all
from slacktide.checks.cases import WIDTHS, random_speedup
from slacktide.core.arrays import Ints
from slacktide.core.errors import InputError
from slacktide.core.types import Job, Phase
from slacktide.results.stream import StreamRun
from slacktide.simulation.fleet.market_kernel import Orders
from slacktide.simulation.fleet.run import RunOptions, Watch, run_events

ROUNDING_SHARE = 1e-9  # sums of money may exceed a budget by this share
CALLS = ("decide", "learn", "rent_gpus", "admit")  # the methods of an allocator that a run calls


class AnyCase(Protocol):
    """Jobs for an allocator, on a market or at one price: a `SiteCase` or a `StreamCase`."""

    @property
    def fleet(self) -> Fleet:
        """Return the classes of the jobs."""
        ...

    def run(self, allocator: AnyAllocator, watch: Watch | None = None) -> object:
        """Run the case; `watch` is called with each view and the decision made on it."""
        ...

    def with_other_future(self, rng: np.random.Generator) -> tuple[AnyCase, float, str] | None:
        """Return a case that differs only after a time, that time, and words for it; None if too short."""
        ...


class Decision(NamedTuple):
    """When an allocator decided, about which jobs, and what: widths, or pools with their GPUs."""

    now_hours: float
    ids: list[int]
    decided: list[Any]


def decisions(allocator: AnyAllocator, case: AnyCase) -> list[Decision]:
    """Run a case, and return all decisions of the allocator."""
    found: list[Decision] = []

    def look(view: FleetView, decided: Ints | Orders) -> None:
        found.append(Decision(view.now_hours, view.jobs.ids.tolist(), np.array(decided).tolist()))

    case.run(allocator, look)
    return found


def must_agree(
    one: Sequence[Decision], other: Sequence[Decision], message: str, until_hours: float = np.inf
) -> None:
    """Raise CheckFailed with this message unless all decisions up to a time are the same."""
    left, right = ([made for made in all_of if made.now_hours <= until_hours] for all_of in (one, other))
    # The first difference says more than different numbers of decisions, so it is reported first.
    for before, after in zip(left, right, strict=False):
        if before != after:
            raise CheckFailed(f"{message}, got {before} and {after}")
    must(len(left) == len(right), f"{message}, got {len(left)} and {len(right)} decisions")


@dataclass(frozen=True, slots=True)
class StreamCase:
    """A fleet, and a stream of its jobs at one price."""

    fleet: Fleet
    stream: Stream

    def __str__(self) -> str:
        return f"{len(self.stream)} jobs of {self.fleet}"

    def run(self, allocator: AnyAllocator, watch: Watch | None = None) -> StreamRun:
        """Run the case; raises CheckFailed for decisions that cannot be carried out."""
        try:
            return run_events(self.stream, self.fleet, allocator, RunOptions(watch=watch))
        except InputError as error:
            raise CheckFailed(f"{error}, in {self}") from error

    def with_other_future(self, rng: np.random.Generator) -> tuple[AnyCase, float, str] | None:
        """Return a case in which the jobs from some job on are others, at other times."""
        stream = self.stream
        if len(stream) < 3:
            return None
        first = int(rng.integers(1, len(stream) - 1))
        gaps = np.diff(stream.arrival_hours[first - 1 :]) * rng.uniform(0.2, 3.0) + 1e-6
        late = stream.arrival_hours[first - 1] + np.cumsum(gaps)
        classes = rng.integers(0, len(self.fleet.classes), len(late))
        other = Stream(
            np.concatenate((stream.arrival_hours[:first], late)),
            np.concatenate((stream.class_index[:first], classes)),
            np.concatenate((stream.size[:first], rng.permutation(stream.size[first:]) * 1.7)),
        )
        return StreamCase(self.fleet, other), float(stream.arrival_hours[first - 1]), f"job {first}"


AllocatorCheck = Callable[[AnyAllocator, StreamCase, np.random.Generator], None]
SiteCheck = Callable[[AnyAllocator, SiteCase, np.random.Generator], None]


def decides_the_same_again(allocator: AnyAllocator, case: AnyCase, rng: np.random.Generator) -> None:
    """The same jobs get the same decisions, whatever ran before, also after pickling."""
    first = decisions(allocator, case)
    # Made after the first run, so that the copy includes anything that run left behind in the allocator.
    twin: AnyAllocator = pickle.loads(pickle.dumps(allocator))
    for again in (allocator, twin):
        must_agree(first, decisions(again, case), f"the same jobs must get the same decisions in {case}")


def cannot_see_the_future(allocator: AnyAllocator, case: AnyCase, rng: np.random.Generator) -> None:
    """Two cases that agree up to a time get the same decisions until then."""
    if (found := case.with_other_future(rng)) is not None:
        other, until, beyond = found
        message = f"an allocator must not see the future beyond {beyond} in {case}"
        must_agree(decisions(allocator, case), decisions(allocator, other), message, until)


def continues_from_what_it_saved(allocator: AnyAllocator, case: AnyCase, rng: np.random.Generator) -> None:
    """What an allocator saves at any moment is enough for a new one to continue with the same decisions."""
    run = begin(allocator, case.fleet)
    if not isinstance(run, Remembering):
        if isinstance(run, Learning):
            raise CheckFailed(f"an allocator that learns must have remember and recall, got {run!r} without")
        return
    # There is no call 0: this allocator is never replaced, and only counts its calls.
    stayed = moving(allocator, case.fleet, at=0)
    first = decisions(stayed, case)
    moved = moving(allocator, case.fleet, at=int(rng.integers(1, stayed.calls + 1)))
    message = f"an allocator must continue from what it saved after {moved.at} calls in {case}"
    must_agree(first, decisions(moved, case), message)


class Moving:
    """Runs an allocator, and after call number `at` replaces it with a new one that recalls what it saved."""

    def __init__(self, allocator: AnyAllocator, fleet: Fleet, at: int) -> None:
        self.allocator, self.fleet, self.at = allocator, fleet, at
        self.calls = 0
        """How often a method of the allocator was called so far."""
        self.run: Any = begin(allocator, fleet)
        self.needs_sizes = needs_sizes(self.run)

    def decide(self, view: FleetView) -> Any:
        """Decide as the allocator does; `moving` adds its other methods in the same way."""
        return self.called("decide", view)

    def called(self, name: str, *given: Any) -> Any:
        """Pass on a call, and then replace the allocator if it was call number `at`."""
        answer = getattr(self.run, name)(*given)
        self.calls += 1
        if self.calls == self.at:
            # Through JSON, as in a journal: tuples come back as lists, and NaN is not allowed.
            saved = json.dumps(self.run.remember(), allow_nan=False)
            self.run = begin(self.allocator, self.fleet)
            self.run.recall(json.loads(saved))
        return answer


def moving(allocator: AnyAllocator, fleet: Fleet, at: int) -> Moving:
    """Return a `Moving` with those methods that the allocator has; it is replaced after call number `at`."""
    run = begin(allocator, fleet)

    def passed_on(name: str) -> Callable[..., Any]:
        return lambda self, *given: self.called(name, *given)

    # A run finds out what an allocator can do from the methods of its class, so each gets its own class.
    can: dict[str, Any] = {name: passed_on(name) for name in CALLS if hasattr(run, name)}
    if isinstance(run, Learning):
        can["wake_hours"] = property(lambda self: float(self.run.wake_hours))
    kind: type[Moving] = type("Moving", (Moving,), can)
    return kind(allocator, fleet, at)


def requests_only_what_is_allowed(
    allocator: AnyAllocator, case: StreamCase, rng: np.random.Generator
) -> None:
    """Every job gets 0 GPUs or a width of its class; an allocator that sizes a cluster stays within it."""
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

    case.run(allocator, look)


def finishes_every_job(allocator: AnyAllocator, case: StreamCase, rng: np.random.Generator) -> None:
    """Every job finishes: none waits forever."""
    run = case.run(allocator)
    finished = np.isfinite(run.response_hours).all()
    must(finished, f"every job must finish eventually, got one that never does in {case}")


def does_not_know_sizes(allocator: AnyAllocator, case: StreamCase, rng: np.random.Generator) -> None:
    """An allocator without `needs_sizes` decides the same, however much work its jobs have left."""
    if needs_sizes(allocator):
        return
    until = float(rng.uniform(0.3, 1.0)) * case.stream.hours
    run = case.run(allocator)
    other = _larger(case, run, until)
    message = f"an allocator must not know the sizes of unfinished jobs at {until:g} h in {case}"
    must_agree(decisions(allocator, case), decisions(allocator, other), message, until)


def _larger(case: StreamCase, run: StreamRun, until: float) -> StreamCase:
    """Return a case in which jobs that are not done by a time have more work."""
    stream = case.stream
    done = stream.arrival_hours + run.response_hours <= until
    phased = np.array([len(one.phases) > 1 for one in case.fleet.classes])[stream.class_index]
    # Jobs with several phases keep their size: it scales all phases, and the end of one may have been seen.
    size = np.where(done | phased, stream.size, stream.size * 3.0)
    return StreamCase(case.fleet, Stream(stream.arrival_hours, stream.class_index, size))


def requests_only_widths_and_pools_of_a_job(
    allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator
) -> None:
    """Every job gets no GPUs, or a width that it may have in a pool that it may be in."""

    def look(view: FleetView, orders: Orders) -> None:
        site = _site(view)
        for place, kind in enumerate(site.jobs.kind):
            pool = orders.pool[place]
            gpus = int(orders.spot_gpus[place] + orders.on_demand_gpus[place])
            allowed = np.unique(site.kinds.fit[kind, pool])
            if gpus > 0 and len(allowed) == 1:
                raise CheckFailed(
                    f"a job must be in a pool that it may be in, got {site.pools[pool].name} in {case}"
                )
            if gpus not in (0, *allowed):
                raise CheckFailed(f"a width must be 0 or in {allowed[allowed > 0]}, got {gpus} in {case}")

    case.run(allocator, look)


def never_wants_more_spot_than_is_offered(
    allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator
) -> None:
    """All jobs together want no more spot of a pool than it offers, so that none gets less than decided."""

    def look(view: FleetView, orders: Orders) -> None:
        pools = _site(view).pools
        wanted = np.bincount(orders.pool, weights=orders.spot_gpus, minlength=len(pools))
        for pool, gpus in zip(pools, wanted, strict=True):
            if gpus > pool.quote.spot_gpus:
                raise CheckFailed(
                    f"spot that is wanted of {pool.name} must add up to at most the {pool.quote.spot_gpus} "
                    f"GPUs offered, got {gpus:g} at {view.now_hours:g} h in {case}"
                )

    case.run(allocator, look)


def finishes_every_job_in_the_end(allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator) -> None:
    """With enough money, every admitted job finishes on a market that has plenty of spot in the end."""
    calm = case.calmed()
    run = calm.run(allocator)
    finished = np.isfinite(run.finish_hours[run.admitted]).all()
    must(finished, f"every job must finish eventually, got one that never does in {calm}")


def keeps_hard_deadlines(allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator) -> None:
    """Admitted jobs meet hard deadlines; an allocator that promises deadlines meets all feasible ones."""
    admits = isinstance(begin(allocator, case.fleet), Admitting)
    if not (admits or keeps_deadlines(allocator)):
        return
    run = case.run(allocator)
    for job in run.late:
        if admits or case.feasible[job]:
            raise CheckFailed(
                f"a job must be done by its hard deadline, {run.deadline_hours[job]:g} h, got "
                f"{run.finish_hours[job]:g} h for job {job} in {case}"
            )


def keeps_deadlines_with_few_on_demand_gpus(
    allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator
) -> None:
    """An allocator that admits jobs keeps their deadlines even if the fleet may hold few on-demand GPUs.

    No allocator holds more of them than the fleet may.
    """
    few = case.with_few_on_demand_gpus(rng)
    quota = few.scene.on_demand_gpus
    run = few.run(allocator)
    if int(run.moments.on_demand_gpus.max(initial=0)) > quota:
        raise CheckFailed(f"at most {quota} on-demand GPUs must be held, got more in {few}")
    if isinstance(begin(allocator, case.fleet), Admitting) and len(run.late):
        raise CheckFailed(
            f"jobs that were admitted must be in time with {quota} on-demand GPUs, got {run.late} late "
            f"in {few}"
        )


def keeps_to_the_budget(allocator: AnyAllocator, case: SiteCase, rng: np.random.Generator) -> None:
    """An allocator that admits jobs or puts a price on money never spends more than a period's budget."""
    if not isinstance(begin(allocator, case.fleet), Admitting | Pricing):
        return
    most = case.run(allocator).most_spent_share
    kept = most <= 1.0 + ROUNDING_SHARE
    must(kept, f"no more than the budget must be spent, got {most:.6f} of it in {case}")


def _site(view: FleetView) -> SiteView:
    assert view.site is not None
    return view.site


ALLOCATOR_CHECKS: tuple[AllocatorCheck, ...] = (
    requests_only_what_is_allowed, finishes_every_job, decides_the_same_again, cannot_see_the_future,
    does_not_know_sizes, continues_from_what_it_saved,
)  # fmt: skip
SITE_CHECKS: tuple[SiteCheck, ...] = (
    requests_only_widths_and_pools_of_a_job, never_wants_more_spot_than_is_offered,
    finishes_every_job_in_the_end, keeps_hard_deadlines, keeps_deadlines_with_few_on_demand_gpus,
    keeps_to_the_budget, decides_the_same_again, cannot_see_the_future, continues_from_what_it_saved,
)  # fmt: skip


def check_allocator(allocator: AnyAllocator, *, examples: int = 20, seed: int = 0) -> None:
    """Run every check on `examples` random cases; raises CheckFailed at the first broken promise.

    An allocator that declares `needs_market` is checked on fleets with a market, any other on streams.
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
    """Make a difficult fleet of a few classes, and a short stream of its jobs."""
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
