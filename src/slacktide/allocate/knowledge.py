"""What can be learned of a stream from the facts it is told: rates, work and speedups of each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slacktide.budget.classes import JobClass
from slacktide.budget.rates import Rate
from slacktide.deciding import Arrived, Fact, Finished, Progressed
from slacktide.speedup import Table
from slacktide.types import Job, Phase

PRIOR_EXPONENT = 0.8
"""A class of which one width is known is taken to speed up as n ** 0.8."""
REACH = 2.0
"""Widths are guessed at up to so many times the widest one that was tried."""
MEMORY_JOBS = 2000.0
"""How many jobs of a class count for its mean work, roughly."""
CANDIDATES_PER_DOUBLING = 8
"""How finely widths are considered; every allowed one where these are fewer."""


@dataclass(slots=True)
class Curve:
    """Progress per hour at the widths that were tried, and a guess at the others."""

    hours: dict[int, float] = field(default_factory=dict)
    work_gpu_hours: dict[int, float] = field(default_factory=dict)

    def learn(self, gpus: int, hours: float, work_gpu_hours: float) -> None:
        """Add what was seen at a width."""
        self.hours[gpus] = self.hours.get(gpus, 0.0) + hours
        self.work_gpu_hours[gpus] = self.work_gpu_hours.get(gpus, 0.0) + work_gpu_hours

    def remember(self) -> list[list[float]]:
        """Return the hours and the work at each width as JSON values."""
        return [[gpus, hours, self.work_gpu_hours[gpus]] for gpus, hours in self.hours.items()]

    @classmethod
    def recalled(cls, memory: Sequence[Sequence[Any]]) -> Curve:
        """Return the curve that was written down."""
        return cls({gpus: hours for gpus, hours, _ in memory}, {gpus: work for gpus, _, work in memory})

    @property
    def tried(self) -> list[int]:
        """The widths at which progress was seen, ascending."""
        return sorted(gpus for gpus, work in self.work_gpu_hours.items() if work > 0)

    def rates(self, widths: list[int]) -> list[float]:
        """Return the rates at some widths: straight lines in logarithms between those that were tried.

        Outside, the last line is followed as far as it may be: nothing speeds up more than in proportion.
        """
        tried = self.tried
        xs = np.log(tried)
        ys = np.log([self.work_gpu_hours[gpus] / self.hours[gpus] for gpus in tried])
        slopes = np.diff(ys) / np.diff(xs) if len(tried) > 1 else np.array([PRIOR_EXPONENT])
        low, high = float(np.clip(slopes[0], 0.0, 1.0)), float(np.clip(slopes[-1], -1.0, 1.0))
        at = np.log(widths)
        inside = np.interp(at, xs, ys)
        outside = low * np.minimum(at - xs[0], 0.0) + high * np.maximum(at - xs[-1], 0.0)
        found: list[float] = np.exp(inside + outside).tolist()
        return found


@dataclass(slots=True)
class Fading:
    """Sums in which what is long past counts less and less."""

    memory: float
    """How many additions count, roughly."""
    weight: float = 1.0
    sums: dict[int, float] = field(default_factory=dict)

    def age(self) -> None:
        """Let what was added so far count a little less than what comes."""
        self.weight *= 1.0 + 1.0 / self.memory
        if self.weight > 1e100:
            self.sums = {key: value / self.weight for key, value in self.sums.items()}
            self.weight = 1.0

    def add(self, key: int, amount: float) -> None:
        """Add to the sum of a key."""
        self.sums[key] = self.sums.get(key, 0.0) + self.weight * amount

    def get(self, key: int) -> float:
        """Return a sum, in units of what is added now."""
        return self.sums.get(key, 0.0) / self.weight

    def remember(self) -> Mapping[str, Any]:
        """Return the sums as JSON values."""
        return {"weight": self.weight, "sums": [list(each) for each in self.sums.items()]}

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Take the sums that were written down."""
        self.weight, self.sums = memory["weight"], dict(memory["sums"])


@dataclass(slots=True)
class Known:
    """What is known of one class."""

    declared: JobClass
    """Only its name, widths, restart time and number of phases are read."""
    work: Fading = field(default_factory=lambda: Fading(MEMORY_JOBS))
    """Work done in each phase."""
    finished: Fading = field(default_factory=lambda: Fading(MEMORY_JOBS))
    curves: list[Curve] = field(init=False)
    """[phase]"""
    grid: list[int] = field(init=False)
    """Allowed widths, not closer to one another than makes a difference."""

    def __post_init__(self) -> None:
        self.curves = [Curve() for _ in self.declared.phases]
        self.grid = thinned(self.declared.widths)

    def progressed(self, fact: Progressed) -> None:
        """Take in some progress of a job."""
        self.work.add(fact.phase, fact.work_gpu_hours)
        self.curves[fact.phase].learn(fact.gpus, fact.hours, fact.work_gpu_hours)

    def ended(self) -> None:
        """Take in that a job is done."""
        self.finished.add(0, 1.0)
        self.finished.age()
        self.work.age()

    def estimate(self, arrivals_per_hour: float) -> JobClass | None:
        """Return the class as it is known by now; None while no progress has been seen.

        Mean work is the work that was done over the jobs that were finished: in the long run that is right
        for any spread of sizes, and what unfinished jobs have done counts. A phase that nobody has reached
        is taken to be like the one before.
        """
        if not self.curves[0].tried:
            return None
        widths = self.candidates()
        phases: list[Phase] = []
        for phase, curve in enumerate(self.curves):
            if not curve.tried:
                phases.append(phases[-1])
                continue
            work = self.work.get(phase) / (self.finished.get(0) + 0.5)
            rates = zip(widths, curve.rates(widths), strict=True)
            phases.append(Phase(work, Table(tuple((float(gpus), rate) for gpus, rate in rates))))
        return JobClass(
            Job(
                name=self.declared.name,
                phases=tuple(phases),
                restart_hours=self.declared.restart_hours,
                widths=tuple(widths),
            ),
            arrivals_per_hour=arrivals_per_hour,
        )

    def remember(self) -> Mapping[str, Any]:
        """Return all that was seen of the class as JSON values."""
        return {
            "work": self.work.remember(),
            "finished": self.finished.remember(),
            "curves": [curve.remember() for curve in self.curves],
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Know of the class what was written down."""
        self.work.recall(memory["work"])
        self.finished.recall(memory["finished"])
        self.curves = [Curve.recalled(one) for one in memory["curves"]]

    def candidates(self) -> list[int]:
        """Return the widths to consider: those within reach of what was tried."""
        tried = {gpus for curve in self.curves for gpus in curve.tried}
        reach = REACH * max(tried)
        return sorted(tried | {gpus for gpus in self.grid if gpus <= reach})


def thinned(widths: tuple[int, ...]) -> list[int]:
    """Keep the widths that are at least an eighth of a doubling wider than the one kept before."""
    kept = [widths[0]]
    for gpus in widths:
        if gpus >= kept[-1] * 2 ** (1 / CANDIDATES_PER_DOUBLING):
            kept.append(gpus)
    return kept


@dataclass(slots=True)
class Knowledge:
    """Estimates for every class that has been seen."""

    classes: tuple[JobClass, ...]
    pace: Rate = field(default_factory=Rate)
    """Arrivals of all classes together: these tell soonest that something has changed."""
    arrivals: Fading = field(default_factory=lambda: Fading(MEMORY_JOBS))
    """Arrivals of each class, for its share of all."""
    known: dict[int, Known] = field(default_factory=dict)

    def learn(self, fact: Fact) -> None:
        """Take in what happened."""
        if isinstance(fact, Progressed):
            self.known[fact.kind].progressed(fact)
        elif isinstance(fact, Finished):
            self.known[fact.kind].ended()
        else:
            self._arrived(fact)

    def _arrived(self, fact: Arrived) -> None:
        if fact.kind not in self.known:
            self.known[fact.kind] = Known(self.classes[fact.kind])
        self.arrivals.add(fact.kind, 1.0)
        self.arrivals.age()
        self.pace.arrived(fact.now_hours)

    def estimates(self, now_hours: float) -> dict[int, JobClass]:
        """Return every class of which enough is known to plan for it."""
        total = sum(self.arrivals.get(index) for index in self.known)
        found = {}
        for index, known in self.known.items():
            share = self.arrivals.get(index) / total
            estimate = known.estimate(share * self.pace.per_hour(now_hours)) if now_hours > 0 else None
            if estimate is not None:
                found[index] = estimate
        return found

    def remember(self) -> Mapping[str, Any]:
        """Return all that is known as JSON values."""
        return {
            "pace": self.pace.remember(),
            "arrivals": self.arrivals.remember(),
            # In the order in which they were first seen: sums over them are taken in it.
            "known": [[index, known.remember()] for index, known in self.known.items()],
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Know what was written down, and nothing else."""
        self.pace = Rate.recalled(memory["pace"])
        self.arrivals.recall(memory["arrivals"])
        self.known = {}
        for index, one in memory["known"]:
            self.known[index] = Known(self.classes[index])
            self.known[index].recall(one)
