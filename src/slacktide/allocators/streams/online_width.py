"""Online width: learns a stream's classes while it runs, and gives jobs the widths that are best for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from slacktide.allocators.base import allocators
from slacktide.allocators.streams.class_estimates import Estimate, Knowledge
from slacktide.allocators.streams.repayment import Repaying, Way, committed_gpu_hours
from slacktide.allocators.view import Arrived, Fact, Finished, FleetView, OldMemory, Wanted
from slacktide.budget.classes import JobClass
from slacktide.budget.estimates.rates import CHANGES_PER_JOB, ArrivalRate
from slacktide.budget.fleet import Fleet
from slacktide.budget.widths import ClassPlan, WidthsOf
from slacktide.core.errors import InputError, UnknownNameError

NEIGHBOUR = 1.5
"""The slope at a width is known when its neighbour on either side was tried, or one within this factor."""
FAR_OFF = 2.0  # a job that could be wider by this factor is worth widening ...
SHORT_RESTARTS = 5.0
"""... where it is expected to run for this many restarts more ..."""
YOUNG_JOBS = 20
"""... and no more than this many of its class are done."""
STEP = 1.25  # how far from the planned width a trial is, as a factor
POSITIVE = (
    "period_jobs", "changes_per_job", "repay_jobs", "repay_roots", "repay_most_share", "explore_every",
)  # fmt: skip
"""The parameters that must be greater than 0."""
FORM = 2  # the form in which it writes down what it knows; the first had no number
SOURCES = {"speedups": ("learn", "measured"), "work": ("declared", "learn")}
"""Where what is known of jobs may come from."""


@allocators.register
@dataclass(frozen=True, slots=True)
class OnlineWidth:
    """Learn rates, work and speedups as jobs come and go, and keep to the budget while learning.

    Of a class it knows the name, the allowed widths and the restart time, and the speedup where the fleet
    file says one. Widths are those of the optimum for what is known so far; what was spent too much or too
    little is made up for slowly.
    """

    budget_gpus: float | None = None  # GPUs on average; None takes the fleet's budget
    speedups: str = "measured"
    """`measured` believes the speedups of the fleet file and tries out widths only of classes without one;
    `learn` believes none."""
    work: str = "learn"
    """`learn` estimates the work of jobs from those that came; `declared` believes what each says."""
    period_jobs: float = 25.0
    """Widths are computed again after the time of this many arrivals; at the start more often."""
    changes_per_job: float = CHANGES_PER_JOB
    """How likely it is with each arrival that the pace has changed for good."""
    repay_jobs: float = 40.0
    """Over- and underspending is made up for at least over the time of this many arrivals ..."""
    repay_roots: float = 4.0
    """... and over this many times the root of all arrivals so far, times the root of their dispersion ..."""
    repay_most_share: float = 0.2
    """... at most this share of what the budget leaves beyond the least that all work needs."""
    margin_share: float = 0.01
    """What is kept back of the budget: estimates are wrong, and the bill comes later."""
    explore_every: int = 5
    """At most one in this many jobs of a class tries a neighbouring width, until the slope is known."""

    def __post_init__(self) -> None:
        for name in POSITIVE:
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be > 0, got {getattr(self, name):g}")
        if not self.changes_per_job < 1:
            raise InputError(f"changes_per_job must be < 1, got {self.changes_per_job:g}")
        for name, known in SOURCES.items():
            if getattr(self, name) not in known:
                raise UnknownNameError(name, getattr(self, name), known)

    @property
    def needs_sizes(self) -> bool:
        """Whether it must know how much work each job has."""
        return self.work == "declared"

    def begin(self, fleet: Fleet) -> OnlineRun:
        """Return the allocator of one run, which learns from then on."""
        budget = fleet.budget_gpus if self.budget_gpus is None else self.budget_gpus
        if not math.isfinite(budget):
            raise InputError("online-width must be given a budget, got none; set budget_gpus")
        believe = self.speedups == "measured"
        knowledge = Knowledge(fleet.classes, believe, ArrivalRate(self.changes_per_job))
        return OnlineRun(self, budget * (1.0 - self.margin_share), knowledge)


@dataclass(slots=True)
class Turn:
    """Which way the next job of a class goes."""

    paths: tuple[tuple[int, ...], ...]  # the narrow way and the wide one; or one
    wide_share: float = 0.0
    owed: float = 0.5  # grows by the share with each job; a whole one is a job on the wide way
    since_trial: int = 0

    @classmethod
    def recalled(cls, memory: Mapping[str, Any]) -> Turn:
        """Return the turn that was written down."""
        return cls(**{**memory, "paths": tuple(tuple(path) for path in memory["paths"])})


@dataclass(slots=True)
class OnlineRun:
    """Plans from what it knows, gives each job its way when it comes, and watches the spending."""

    given: OnlineWidth
    budget_gpus: float
    knowledge: Knowledge
    wake_hours: float = 0.0
    turns: dict[int, Turn] = field(default_factory=dict)  # [class]
    paths: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """[job]: its width in each phase, settled when it came."""
    new: list[tuple[int, int]] = field(default_factory=list)
    """Jobs that came since the last decision, with their class."""
    target_gpus: float = math.nan  # what is planned for: the budget less what is to be made good for

    def learn(self, fact: Fact) -> None:
        """Take in what happened."""
        self.knowledge.learn(fact)
        if isinstance(fact, Arrived):
            self.new.append((fact.id, fact.kind))
        elif isinstance(fact, Finished):
            self.paths.pop(fact.id, None)
            if self.new:  # it may have come and gone between two decisions
                self.new = [each for each in self.new if each[0] != fact.id]

    def remember(self) -> Mapping[str, Any]:
        """Return all that it knows as JSON values."""
        return {
            "form": FORM,
            "knowledge": self.knowledge.remember(),
            "wake_hours": self.wake_hours,
            "turns": [[index, asdict(turn)] for index, turn in self.turns.items()],
            "paths": [[job, list(path)] for job, path in self.paths.items()],
            "new": [list(each) for each in self.new],
            "target_gpus": None if math.isnan(self.target_gpus) else self.target_gpus,
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Know what was written down, and nothing else; raises OldMemory for what another version wrote."""
        if memory.get("form") != FORM:
            raise OldMemory(
                f"what online-width wrote down must be of form {FORM}, got {memory.get('form', 1)}, which "
                "another version wrote; give it all facts of the stream again"
            )
        self.knowledge.recall(memory["knowledge"])
        self.wake_hours = memory["wake_hours"]
        self.turns = {index: Turn.recalled(one) for index, one in memory["turns"]}
        self.paths = {job: tuple(path) for job, path in memory["paths"]}
        self.new = [(job, index) for job, index in memory["new"]]
        target_gpus = memory["target_gpus"]
        self.target_gpus = math.nan if target_gpus is None else target_gpus

    def decide(self, view: FleetView) -> Wanted:
        if self.needs_sizes:
            self._listen(view)
        if self.wake_hours == 0.0:
            self._go_on(view)
        if view.now_hours >= self.wake_hours:
            self._plan(view)
        for job, one in self.new:
            self.paths[job] = self._path(self.knowledge.classes[one], one)
        self.new.clear()
        places = zip(view.jobs.ids.tolist(), view.jobs.phase.tolist(), strict=True)
        return Wanted(np.array([self.paths[job][phase] for job, phase in places], dtype=np.int64))

    @property
    def needs_sizes(self) -> bool:
        """Whether it must know how much work each job has."""
        return self.given.needs_sizes

    def _listen(self, view: FleetView) -> None:
        """Take in the work that the jobs that came since the last decision declare."""
        assert view.jobs.work_gpu_hours is not None
        for job, one in self.new:
            self.knowledge.known[one].says(float(view.jobs.work_gpu_hours[_place(view, job)]))

    def _go_on(self, view: FleetView) -> None:
        """Let jobs that already run at the first decision keep their widths."""
        held = dict(zip(view.jobs.ids.tolist(), view.jobs.gpus.tolist(), strict=True))
        for job, one in self.new:
            if held[job]:
                self.paths[job] = (held[job],) * len(self.knowledge.classes[one].phases)
        self.new = [(job, index) for job, index in self.new if job not in self.paths]

    def _plan(self, view: FleetView) -> None:
        """Compute all widths again from what is known, and set when to do so next."""
        pace = self.knowledge.pace
        wait_jobs = min(self.given.period_jobs, 1 + pace.count / 8)
        self.wake_hours = view.now_hours + wait_jobs / pace.per_hour(view.now_hours)
        known = self.knowledge.estimates(view.now_hours)
        if not known:
            return
        widths = WidthsOf([one.job_class for one in known.values()])
        self.target_gpus = self._target(view, known, widths.least_budget_gpus)
        plan = widths.optimal_widths(self.target_gpus)
        for index, one in zip(known, plan.classes, strict=True):
            self._turn(index, one)
        self._catch_up(view, known)

    def _target(self, view: FleetView, known: Mapping[int, Estimate], least_gpus: float) -> float:
        """Return the GPUs to plan for: the budget, and a little of what was saved or overspent so far."""
        ways: dict[int, Way] = {index: turn.paths[0] for index, turn in self.turns.items() if turn.paths}
        spent = view.spent_gpu_hours + committed_gpu_hours(view, known, ways)
        held = self.budget_gpus * view.now_hours - spent
        given = self.given
        repaying = Repaying(given.repay_jobs, given.repay_roots, given.repay_most_share)
        return repaying.target_gpus(held, self.budget_gpus, least_gpus, self.knowledge.pace, view.now_hours)

    def _catch_up(self, view: FleetView, known: Mapping[int, Estimate]) -> None:
        """Widen jobs that started before their class was known, as their progress shows what that is worth.

        Only while few jobs of the class are done: later, a planned width that is far off comes from a plan
        that wavers, and following it would cost a restart each time.
        """
        jobs, seen = view.jobs, self.knowledge.known
        young = {index for index in known if seen[index].sizes.finished_jobs < YOUNG_JOBS}
        if not young:
            return
        columns = (jobs.ids, jobs.kind, jobs.phase, jobs.gpus)
        for job, index, phase, gpus in zip(*(column.tolist() for column in columns), strict=True):
            if index not in young or not gpus:
                continue
            one = known[index].job_class
            way, now = self.turns[index].paths[0], one.phases[phase]
            long_left = now.work_gpu_hours / now.speedup(gpus) > SHORT_RESTARTS * one.restart_hours
            if way[phase] >= FAR_OFF * gpus and long_left:
                self.paths[job] = way

    def _turn(self, index: int, one: ClassPlan) -> None:
        turn = self.turns.setdefault(index, Turn(()))
        turn.paths = tuple(tuple(int(gpus) for gpus in path.widths) for path in one.paths)
        turn.wide_share = one.paths[-1].share if len(one.paths) > 1 else 0.0

    def _path(self, declared: JobClass, index: int) -> tuple[int, ...]:
        """Return the widths of a new job by phase: in turn the narrow or the wide way, sometimes a trial."""
        turn = self.turns.get(index)
        if turn is None or not turn.paths:
            return (declared.widths[0],) * len(declared.phases)
        turn.owed += turn.wide_share
        wide = turn.owed >= 1.0
        turn.owed -= wide
        path = turn.paths[-1 if wide else 0]
        turn.since_trial += 1
        if turn.since_trial < self.given.explore_every:
            return path
        turn.since_trial = 0
        return self._trial(index, path)

    def _trial(self, index: int, path: tuple[int, ...]) -> tuple[int, ...]:
        """Return a slightly wider or narrower way if that would teach the slope, else the same."""
        known = self.knowledge.known[index]
        if known.believed:
            return path
        for factor in (STEP, 1 / STEP):
            trial = tuple(nearest(known.grid, gpus, factor) for gpus in path)
            for phase, (gpus, other) in enumerate(zip(path, trial, strict=True)):
                tried = known.curves[phase].tried
                low, high = sorted((gpus * NEIGHBOUR ** (1 if factor > 1 else -1), gpus))
                known_there = other == gpus or other in tried
                if not known_there and not any(low <= one <= high and one != gpus for one in tried):
                    return trial
        return path


def nearest(grid: list[int], gpus: int, factor: float) -> int:
    """Return the allowed width nearest to a multiple of a width, on that side of it; itself at the end."""
    beyond = [width for width in grid if (width > gpus if factor > 1 else width < gpus)]
    return min(beyond, key=lambda width: abs(width - gpus * factor), default=gpus)


def _place(view: FleetView, job: int) -> int:
    return int(np.searchsorted(view.jobs.ids, job))
