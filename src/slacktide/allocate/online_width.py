"""The optimum for a stream, learned while it runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from slacktide.allocate.base import allocators
from slacktide.allocate.knowledge import Knowledge
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.result import ClassPlan
from slacktide.budget.widths import WidthsOf
from slacktide.deciding import Arrived, Fact, Finished, FleetView, Wanted
from slacktide.errors import InputError

DEAR_SHARE = 0.02
"""Overspending beyond this share of the budget is made good for whatever it costs in time."""
NEIGHBOUR = 1.5
"""The slope at a width is known when one within this factor was tried on either side."""
FAR_OFF = 2.0
"""A job that could be wider by this factor is worth widening ..."""
SHORT_RESTARTS = 5.0
"""... where it is expected to run for so many restarts more ..."""
YOUNG_JOBS = 20
"""... and no more than so many of its class are done."""
STEP = 1.25
"""How far from the planned width a trial is, as a factor."""


@allocators.register
@dataclass(frozen=True, slots=True)
class OnlineWidth:
    """Learn rates, work and speedups as jobs come and go, and keep to the budget while learning.

    Of a class it is told the name, the allowed widths and the restart time. Widths are those of the optimum
    for what is known so far; what was spent too much or too little is made good for over the time to come.
    """

    budget_gpus: float | None = None
    """GPUs on average; None takes the fleet's budget."""
    period_jobs: float = 25.0
    """Widths are computed anew after the time of so many arrivals; at the start more often."""
    repay_share: float = 0.15
    """Over- and underspending is made good for over this share of the time passed."""
    repay_jobs: float = 150.0
    """... and at least over the time of so many arrivals."""
    repay_most_share: float = 0.5
    """... at most this share of what the budget leaves beyond the least that all work needs."""
    margin_share: float = 0.01
    """What is kept back of the budget: estimates are wrong, and the bill comes later."""
    explore_every: int = 5
    """At most every so-manieth job of a class tries a neighbouring width, until the slope is known."""

    def __post_init__(self) -> None:
        for name in ("period_jobs", "repay_share", "repay_jobs", "repay_most_share", "explore_every"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be > 0, got {getattr(self, name):g}")

    def begin(self, fleet: Fleet) -> OnlineRun:
        """Start to learn."""
        budget = fleet.budget_gpus if self.budget_gpus is None else self.budget_gpus
        if not math.isfinite(budget):
            raise InputError("online-width must be given a budget, got none; set budget_gpus")
        return OnlineRun(self, budget * (1.0 - self.margin_share), Knowledge(fleet.classes))


@dataclass(slots=True)
class Turn:
    """Which way the next job of a class goes."""

    paths: tuple[tuple[int, ...], ...]
    """The narrow way and the wide one; or one."""
    wide_share: float = 0.0
    owed: float = 0.5
    """Grows by the share with each job; a whole one is a job on the wide way."""
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
    turns: dict[int, Turn] = field(default_factory=dict)
    """[class]"""
    paths: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """[job]: its width in each phase, settled when it came."""
    new: list[tuple[int, int]] = field(default_factory=list)
    """Jobs that came since the last decision, with their class."""
    target_gpus: float = math.nan
    """What is planned for: the budget less what is to be made good for."""

    def learn(self, fact: Fact) -> None:
        """Take in what happened."""
        self.knowledge.learn(fact)
        if isinstance(fact, Arrived):
            self.new.append((fact.id, fact.kind))
        elif isinstance(fact, Finished):
            self.paths.pop(fact.id, None)

    def remember(self) -> Mapping[str, Any]:
        """Return all that it knows as JSON values."""
        return {
            "knowledge": self.knowledge.remember(),
            "wake_hours": self.wake_hours,
            "turns": [[index, asdict(turn)] for index, turn in self.turns.items()],
            "paths": [[job, list(path)] for job, path in self.paths.items()],
            "new": [list(each) for each in self.new],
            "target_gpus": None if math.isnan(self.target_gpus) else self.target_gpus,
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Know what was written down, and nothing else."""
        self.knowledge.recall(memory["knowledge"])
        self.wake_hours = memory["wake_hours"]
        self.turns = {index: Turn.recalled(one) for index, one in memory["turns"]}
        self.paths = {job: tuple(path) for job, path in memory["paths"]}
        self.new = [(job, index) for job, index in memory["new"]]
        target_gpus = memory["target_gpus"]
        self.target_gpus = math.nan if target_gpus is None else target_gpus

    def decide(self, view: FleetView) -> Wanted:
        if view.now_hours >= self.wake_hours:
            self._plan(view)
        for job, one in self.new:
            self.paths[job] = self._path(self.knowledge.classes[one], one)
        self.new.clear()
        places = zip(view.jobs.ids.tolist(), view.jobs.phase.tolist(), strict=True)
        return Wanted(np.array([self.paths[job][phase] for job, phase in places], dtype=np.int64))

    def _plan(self, view: FleetView) -> None:
        """Compute all widths anew from what is known."""
        pace = self.knowledge.pace
        wait_jobs = min(self.given.period_jobs, 1 + pace.count / 8)
        self.wake_hours = view.now_hours + wait_jobs / pace.per_hour(view.now_hours)
        known = self.knowledge.estimates(view.now_hours)
        if not known:
            return
        widths = WidthsOf(list(known.values()))
        self.target_gpus = self._target(view, known, widths.least_budget_gpus)
        plan = widths.optimal_widths(self.target_gpus)
        for index, one in zip(known, plan.classes, strict=True):
            self._turn(index, one)
        self._catch_up(view, known)

    def _target(self, view: FleetView, known: dict[int, JobClass], least_gpus: float) -> float:
        """Return what to plan for: the budget less what was spent too much, over the time to repay it."""
        gap = 1.0 / self.knowledge.pace.per_hour(view.now_hours)
        repay_hours = max(self.given.repay_share * view.now_hours, self.given.repay_jobs * gap)
        allowed = self.budget_gpus * view.now_hours
        overspent = view.spent_gpu_hours + self._committed(view, known) - allowed
        slack = max(self.budget_gpus - least_gpus, 0.0)
        most = slack if overspent > DEAR_SHARE * allowed else self.given.repay_most_share * slack
        repay = min(max(overspent / repay_hours, -most), most)
        return max(self.budget_gpus - repay, least_gpus * (1 + 1e-9))

    def _catch_up(self, view: FleetView, known: dict[int, JobClass]) -> None:
        """Widen jobs that began in ignorance, step by step as their progress tells what a step is worth.

        Only while few of the class are done: later a width that is far off is a plan that wavers, and to
        follow it would cost a restart each time.
        """
        jobs = view.jobs
        columns = (jobs.ids, jobs.kind, jobs.phase, jobs.gpus)
        for job, index, phase, gpus in zip(*(column.tolist() for column in columns), strict=True):
            if index not in known or not gpus or self.knowledge.known[index].finished.get(0) >= YOUNG_JOBS:
                continue
            way, now = self.turns[index].paths[0], known[index].phases[phase]
            long_left = now.work_gpu_hours / now.speedup(gpus) > SHORT_RESTARTS * known[index].restart_hours
            if way[phase] >= FAR_OFF * gpus and long_left:
                self.paths[job] = way

    def _turn(self, index: int, one: ClassPlan) -> None:
        turn = self.turns.setdefault(index, Turn(()))
        turn.paths = tuple(tuple(int(gpus) for gpus in path.widths) for path in one.paths)
        turn.wide_share = one.paths[-1].share if len(one.paths) > 1 else 0.0

    def _committed(self, view: FleetView, known: dict[int, JobClass]) -> float:
        """Return the GPU-hours that the jobs present will still need, as far as one can say.

        Each is taken to be only at the start of its phase: true for exponential sizes, too much for equal
        ones, too little for heavy tails.
        """
        costs: dict[tuple[int, int, int], float] = {}
        total = 0.0
        columns = (view.jobs.kind, view.jobs.phase, view.jobs.gpus)
        for key in zip(*(column.tolist() for column in columns), strict=True):
            index, phase, gpus = key
            if key not in costs:
                costs[key] = _cost(known.get(index), phase, gpus, self.turns.get(index))
            total += costs[key]
        return total

    def _path(self, declared: JobClass, index: int) -> tuple[int, ...]:
        """Settle the way of a new job."""
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
        """Return a way a little wider or narrower where that would teach the slope, else the same."""
        known = self.knowledge.known[index]
        for factor in (STEP, 1 / STEP):
            trial = tuple(nearest(known.grid, gpus, factor) for gpus in path)
            for phase, (gpus, other) in enumerate(zip(path, trial, strict=True)):
                tried = known.curves[phase].tried
                low, high = sorted((gpus * NEIGHBOUR ** (1 if factor > 1 else -1), gpus))
                if other != gpus and not any(low <= one <= high and one != gpus for one in tried):
                    return trial
        return path


def nearest(grid: list[int], gpus: int, factor: float) -> int:
    """Return the allowed width nearest to a multiple of a width, on that side of it; itself at the end."""
    beyond = [one for one in grid if (one > gpus if factor > 1 else one < gpus)]
    return min(beyond, key=lambda one: abs(one - gpus * factor), default=gpus)


def _cost(one: JobClass | None, phase: int, gpus: int, turn: Turn | None) -> float:
    if one is None:
        return 0.0
    path = turn.paths[0] if turn and turn.paths else (one.widths[0],) * len(one.phases)
    total, held = 0.0, gpus
    for place in range(phase, len(one.phases)):
        width = gpus if place == phase and gpus else path[place]
        pause = one.restart_hours if width != held else 0.0
        total += pause * width + one.phases[place].work_gpu_hours * width / one.phases[place].speedup(width)
        held = width
    return total
