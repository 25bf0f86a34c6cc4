"""Estimates a stream's classes from what happens in it: arrival rates, work and speedups of each class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from slacktide.allocators.view import Arrived, Fact, Finished, Progressed
from slacktide.budget.classes import JobClass
from slacktide.budget.estimates.rates import ArrivalRate
from slacktide.budget.estimates.sizes import MEMORY_JOBS, Fading, Sizes, Survival
from slacktide.core.speedup import Speedup, Table
from slacktide.core.types import Job, Phase

PRIOR_EXPONENT = 0.8  # a class of which only one width is known is assumed to speed up as n ** 0.8
REACH = 2.0  # widths are guessed at up to this multiple of the widest one that was tried
CANDIDATES_PER_DOUBLING = 8  # how finely widths are considered; every allowed one where these are fewer
SAID_WORK, SAID_JOBS = 0, 1  # keys of `ClassKnowledge.said`: the work that jobs declared, and their number


@dataclass(slots=True)
class LearnedSpeedup:
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
    def recalled(cls, memory: Sequence[Sequence[Any]]) -> LearnedSpeedup:
        """Return the curve that was written down."""
        return cls({gpus: hours for gpus, hours, _ in memory}, {gpus: work for gpus, _, work in memory})

    @property
    def tried(self) -> list[int]:
        """The widths at which progress was seen, ascending."""
        return sorted(gpus for gpus, work in self.work_gpu_hours.items() if work > 0)

    def rates(self, widths: list[int]) -> list[float]:
        """Return the rates at some widths: straight lines in logarithms between those that were tried.

        Outside, the last line continues, at most in proportion: no speedup grows faster than the width.
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


def thinned(widths: tuple[int, ...]) -> list[int]:
    """Keep the widths that are at least an eighth of a doubling wider than the one kept before."""
    kept = [widths[0]]
    for gpus in widths:
        if gpus >= kept[-1] * 2 ** (1 / CANDIDATES_PER_DOUBLING):
            kept.append(gpus)
    return kept


class Estimate(NamedTuple):
    """A class as it is estimated now."""

    job_class: JobClass
    sizes: Survival


@dataclass(slots=True)
class ClassKnowledge:
    """What is known of one class."""

    declared: JobClass
    """Its name, widths, restart time and number of phases are read, and its speedups where believed."""
    believed: bool = False  # whether its speedups are those that it came with; else they are learned
    work: Fading = field(default_factory=lambda: Fading(MEMORY_JOBS))
    """Work done in each phase, for the shares of the phases."""
    said: Fading = field(default_factory=lambda: Fading(MEMORY_JOBS))
    """The work that jobs declared when they arrived."""
    sizes: Sizes = field(default_factory=Sizes)
    curves: list[LearnedSpeedup] = field(init=False)
    """[phase]; nothing is learned where speedups are believed."""
    grid: list[int] = field(init=False)  # the allowed widths, without those that hardly differ

    def __post_init__(self) -> None:
        self.curves = [LearnedSpeedup() for _ in self.declared.phases]
        self.grid = thinned(self.declared.widths)

    def progressed(self, fact: Progressed) -> None:
        """Take in some progress of a job."""
        self.sizes.progressed(fact.id, fact.work_gpu_hours)
        self.work.add(fact.phase, fact.work_gpu_hours)
        if not self.believed:
            self.curves[fact.phase].learn(fact.gpus, fact.hours, fact.work_gpu_hours)

    def ended(self, job: int) -> None:
        """Take in that a job is done."""
        self.sizes.ended(job)
        self.work.age()

    def says(self, work_gpu_hours: float) -> None:
        """Take in the work that a job declares when it arrives."""
        self.said.age()
        self.said.add(SAID_WORK, work_gpu_hours)
        self.said.add(SAID_JOBS, 1.0)

    def estimate(self, arrivals_per_hour: float) -> Estimate | None:
        """Return the class as it is known by now; None while its work or its speed is unknown."""
        sizes = self.sizes.survival()
        work = self._mean_work(sizes)
        if not work > 0 or not (self.believed or self.curves[0].tried):
            return None
        widths = self.candidates()
        shares = self._shares()
        phases = tuple(
            Phase(work * share, speedup)
            for share, speedup in zip(shares, self._speedups(widths), strict=True)
        )
        job = Job(
            name=self.declared.name,
            phases=phases,
            restart_hours=self.declared.restart_hours,
            widths=tuple(widths),
        )
        return Estimate(JobClass(job, arrivals_per_hour), sizes)

    def _mean_work(self, sizes: Survival) -> float:
        """Return the mean work of a job: as jobs declared it, or as estimated from what was seen."""
        jobs = self.said.get(SAID_JOBS)
        return self.said.get(SAID_WORK) / jobs if jobs else sizes.mean_gpu_hours

    def _shares(self) -> list[float]:
        """Return each phase's share of the work; one that no job has reached is taken to be like the last."""
        works: list[float] = []
        for phase in range(len(self.declared.phases)):
            works.append(self.work.get(phase) or (works[-1] if works else 1.0))
        total = sum(works)
        return [work / total for work in works]

    def _speedups(self, widths: list[int]) -> list[Speedup]:
        """Return the speedup in each phase; for one that no job has reached, that of the phase before."""
        if self.believed:
            return [phase.speedup for phase in self.declared.phases]
        found: list[Speedup] = []
        for curve in self.curves:
            if curve.tried or not found:
                rates = zip(widths, curve.rates(widths), strict=True)
                found.append(Table(tuple((float(gpus), rate) for gpus, rate in rates)))
            else:
                found.append(found[-1])
        return found

    def candidates(self) -> list[int]:
        """Return the widths to consider: all if speedups are believed, else those in reach of tried ones."""
        if self.believed:
            return self.grid
        tried = {gpus for curve in self.curves for gpus in curve.tried}
        reach = REACH * max(tried)
        return sorted(tried | {gpus for gpus in self.grid if gpus <= reach})

    def remember(self) -> Mapping[str, Any]:
        """Return all that was seen of the class as JSON values."""
        return {
            "work": self.work.remember(),
            "said": self.said.remember(),
            "sizes": self.sizes.remember(),
            "curves": [curve.remember() for curve in self.curves],
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Replace all that was seen of the class by a memory."""
        self.work.recall(memory["work"])
        self.said.recall(memory["said"])
        self.sizes.recall(memory["sizes"])
        self.curves = [LearnedSpeedup.recalled(one) for one in memory["curves"]]


@dataclass(slots=True)
class Knowledge:
    """Estimates for every class that has been seen."""

    classes: tuple[JobClass, ...]
    believe: bool = False  # whether the speedups that classes came with are believed
    pace: ArrivalRate = field(default_factory=ArrivalRate)
    """Arrivals of all classes together: these show soonest that something has changed."""
    arrivals: Fading = field(default_factory=lambda: Fading(MEMORY_JOBS))
    """Arrivals of each class, for its share of all."""
    known: dict[int, ClassKnowledge] = field(default_factory=dict)

    def learn(self, fact: Fact) -> None:
        """Take in what happened."""
        if isinstance(fact, Progressed):
            self.known[fact.kind].progressed(fact)
        elif isinstance(fact, Finished):
            self.known[fact.kind].ended(fact.id)
        else:
            self._arrived(fact)

    def _arrived(self, fact: Arrived) -> None:
        if fact.kind not in self.known:
            self.known[fact.kind] = self._new(fact.kind)
        self.known[fact.kind].sizes.arrived(fact.id)
        self.arrivals.add(fact.kind, 1.0)
        self.arrivals.age()
        self.pace.arrived(fact.now_hours)

    def _new(self, index: int) -> ClassKnowledge:
        declared = self.classes[index]
        return ClassKnowledge(declared, believed=self.believe and declared.speedup_said)

    def estimates(self, now_hours: float) -> dict[int, Estimate]:
        """Return every class of which enough is known to plan for it."""
        if not now_hours > 0:
            return {}
        total = sum(self.arrivals.get(index) for index in self.known)
        per_hour = self.pace.per_hour(now_hours)
        found = {}
        for index, known in self.known.items():
            estimate = known.estimate(self.arrivals.get(index) / total * per_hour)
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
        """Replace all that is known by a memory."""
        self.pace.recall(memory["pace"])
        self.arrivals.recall(memory["arrivals"])
        self.known = {}
        for index, one in memory["known"]:
            self.known[index] = self._new(index)
            self.known[index].recall(one)
