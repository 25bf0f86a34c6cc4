"""Results of fleet simulations: how long jobs took, what they cost, and which deadlines were met.

`FleetRun` is one run, `FleetComparison` are several at one spend, `outcomes` says what became of each job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import NamedTuple

import numpy as np

from slacktide.budget.allowance import Allowance, Period
from slacktide.core.arrays import Bools, Floats, Ints
from slacktide.core.types import TIME_TOLERANCE_HOURS, Reason, Refusal
from slacktide.results.stream import Responses


class SlotRecords(NamedTuple):
    """The fleet and its allocator's money at each slot of a run, as columns."""

    hours: Floats
    spent_usd: Floats  # in the period of the budget
    reserved_usd: Floats
    usd_per_job_hour: Floats
    """What an hour of a job's waiting is worth; NaN where the allocator has no such price."""
    waiting: Ints  # jobs that hold nothing
    present: Ints
    spot_gpus: Ints
    on_demand_gpus: Ints
    offered_gpus: Ints  # spot that all pools offer


class HeldStretches(NamedTuple):
    """All stretches in which a job held something, in the order in which they began; columns."""

    job: Ints
    slot: Ints
    from_hours: Floats
    to_hours: Floats
    pool: Ints
    spot_gpus: Ints
    on_demand_gpus: Ints
    usd: Floats
    pause_hours: Floats


@dataclass(frozen=True)
class FleetRun:
    """A fleet under one allocator; arrays are in the order of the jobs' submission."""

    policy: str
    submitted_hours: Floats
    deadline_hours: Floats  # on the clock of the run; infinite without one
    hard: Bools
    kind: Ints
    work_gpu_hours: Floats
    finish_hours: Floats  # on the clock of the run; infinite where a job was refused, stopped or never done
    cost_usd: Floats
    on_demand_usd: Floats
    spot_gpu_hours: Floats
    on_demand_gpu_hours: Floats
    pause_gpu_hours: Floats
    losses: Ints
    starts: Ints
    refused: dict[int, Refusal]  # jobs that could not be promised, by their number
    moments: SlotRecords
    most_spent_share: float  # the greatest share of a period's budget that was ever spent in it
    held: HeldStretches | None = field(default=None, repr=False)  # every stretch, if the run kept them
    reasons: Sequence[tuple[float, int, Reason]] = field(default=(), repr=False)
    """Each change of what a job was given: hours, the job's number, why; empty if the run kept none."""

    @property
    def best_effort(self) -> Bools:
        return ~np.isfinite(self.deadline_hours)

    @property
    def admitted(self) -> Bools:
        found = np.ones(len(self.kind), dtype=np.bool_)
        found[list(self.refused)] = False
        return found

    @property
    def response_hours(self) -> Floats:
        return np.asarray(self.finish_hours - self.submitted_hours)

    @cached_property
    def responses(self) -> Responses:
        """How long jobs without a deadline took."""
        return Responses.of(self.response_hours[self.best_effort & self.admitted])

    @property
    def in_time(self) -> Bools:
        return np.asarray(self.finish_hours <= self.deadline_hours + TIME_TOLERANCE_HOURS)

    @property
    def late(self) -> Ints:
        """The numbers of admitted jobs with a hard deadline that were not done by it."""
        return np.flatnonzero(self.hard & self.admitted & ~self.in_time)

    @property
    def spent_usd(self) -> float:
        return float(self.cost_usd.sum())

    @property
    def on_demand_share(self) -> float:
        return float(self.on_demand_usd.sum()) / self.spent_usd if self.spent_usd else 0.0

    @property
    def hours(self) -> float:
        """The time over which jobs came."""
        return float(self.submitted_hours[-1])


class JobFacts(NamedTuple):
    """What is known about a job in addition to what a run says about it."""

    name: str
    kind: str  # its class
    owner: str = ""
    value_usd: float = 0.0
    worthless_hours: float = 0.0  # when a late result is worth nothing, on the clock of the run


@dataclass(frozen=True, slots=True)
class FleetMonth:
    """What was simulated: jobs over a time, the market that they shared, and their money."""

    jobs: tuple[JobFacts, ...]  # in the order of their submission
    jobs_from: str  # where they came from: a file, or how they were drawn
    hours: float  # the time over which they came
    start: datetime  # the date of hour 0
    allowance: Allowance
    market: str
    market_start: datetime  # the market's own time at hour 0
    slot_hours: float
    again: bool = False  # whether the market was too short and started again
    promised_gpus: float = 0.0
    """The work that the classes of the file promise per hour; 0 where there are none."""
    brought_gpus: float = 0.0  # the work that these jobs brought per hour
    left_out: int = 0  # jobs that came after the time that was simulated

    @property
    def period(self) -> Period:
        return self.allowance.period(0.0)

    @property
    def period_hours(self) -> float:
        """The length of the first period of the budget, from hour 0 on."""
        if self.allowance.renewal == "rolling":
            return self.allowance.period_hours
        return self.period.until_hours

    @property
    def load_ratio(self) -> float | None:
        """The load of these jobs over what the classes promise; None where they promise nothing."""
        return self.brought_gpus / self.promised_gpus if self.promised_gpus else None


class Measured(NamedTuple):
    """The figures of a run, or interpolated ones between two runs."""

    mean_hours: float  # mean response of jobs without a deadline
    p95_hours: float
    met: float  # jobs with a deadline that were done by it
    late: float  # admitted jobs with a hard deadline that were not
    refused: float
    unfinished: float  # admitted jobs without a deadline that were never done
    spent_usd: float
    on_demand_share: float  # the share of the money that went to on-demand GPUs

    @classmethod
    def of(cls, run: FleetRun) -> Measured:
        """Summarise a run; the response is of jobs without a deadline that were done."""
        due = ~run.best_effort & run.admitted
        served = run.best_effort & run.admitted
        done = np.isfinite(run.finish_hours)
        responses = Responses.of(run.response_hours[served & done])
        return cls(
            mean_hours=responses.mean_hours,
            p95_hours=responses.p95_hours,
            met=int((due & run.in_time).sum()),
            late=len(run.late),
            refused=len(run.refused),
            unfinished=int((served & ~done).sum()),
            spent_usd=run.spent_usd,
            on_demand_share=run.on_demand_share,
        )


@dataclass(frozen=True, slots=True)
class FleetRow:
    """An allocator at the common spend, or as near to it as it can be."""

    policy: str
    measured: Measured
    run: FleetRun  # its run; if it was tuned, that with the nearest of its settings
    tried: int = 1  # how many settings it was tuned over
    settings: tuple[str, ...] = ()
    """The settings that were best at the common spend: two, where it lies between them; none: not tuned."""
    over_bound: float | None = None  # its mean response over the lower bound, where one is known


class Budgeted(NamedTuple):
    """What another budget of a period would have bought on the same jobs."""

    budget_usd: float
    measured: Measured


@dataclass(frozen=True, slots=True)
class FleetComparison:
    """Allocators on one month; the first of them is reported in full."""

    month: FleetMonth
    deadlines: int  # jobs with a deadline
    common_usd: float  # what each of them was tuned to spend
    common_of: str  # the allocator that spends this; empty: it is the budget
    rows: tuple[FleetRow, ...]
    story: FleetRun  # the first allocator's run, with its stretches and reasons
    less: Budgeted | None = None
    more: Budgeted | None = None  # the first allocator with a smaller and a larger budget


DONE, IN_TIME, LATE, REFUSED, UNFINISHED = "done", "in time", "late", "refused", "not done"


class JobOutcome(NamedTuple):
    """What became of one job, and why; times are on the clock of the run."""

    name: str
    kind: str
    owner: str
    submitted_hours: float
    deadline_hours: float  # infinite without one
    work_gpu_hours: float
    outcome: str  # `done`, `in time`, `late`, `refused` or `not done`
    finish_hours: float  # infinite where it never ended
    cost_usd: float
    spot_gpu_hours: float
    on_demand_gpu_hours: float
    starts: int
    losses: int
    value_usd: float  # what its result was worth when it came
    why: Reason | None = None  # what its allocator said last about it
    refusal: Refusal | None = None  # why it could not be promised, and what could be

    @property
    def response_hours(self) -> float:
        return self.finish_hours - self.submitted_hours

    @property
    def gpu_hours(self) -> float:
        """All that was paid for."""
        return self.spot_gpu_hours + self.on_demand_gpu_hours


def outcomes(month: FleetMonth, run: FleetRun) -> list[JobOutcome]:
    """Return what became of each job, in the order of their submission."""
    said = {job: why for _, job, why in run.reasons}
    return [_outcome(number, facts, run, said.get(number)) for number, facts in enumerate(month.jobs)]


def _outcome(number: int, facts: JobFacts, run: FleetRun, said: Reason | None) -> JobOutcome:
    finish, deadline = float(run.finish_hours[number]), float(run.deadline_hours[number])
    refusal = run.refused.get(number)
    return JobOutcome(
        name=facts.name,
        kind=facts.kind,
        owner=facts.owner,
        submitted_hours=float(run.submitted_hours[number]),
        deadline_hours=deadline,
        work_gpu_hours=float(run.work_gpu_hours[number]),
        outcome=REFUSED if refusal else _ended(finish, deadline),
        finish_hours=finish,
        cost_usd=float(run.cost_usd[number]),
        spot_gpu_hours=float(run.spot_gpu_hours[number]),
        on_demand_gpu_hours=float(run.on_demand_gpu_hours[number]),
        starts=int(run.starts[number]),
        losses=int(run.losses[number]),
        value_usd=_worth(facts, finish, deadline),
        why=said,
        refusal=refusal,
    )


def _ended(finish_hours: float, deadline_hours: float) -> str:
    if math.isinf(deadline_hours):
        return DONE if finish_hours < math.inf else UNFINISHED
    return IN_TIME if finish_hours <= deadline_hours + TIME_TOLERANCE_HOURS else LATE


def _worth(facts: JobFacts, finish_hours: float, deadline_hours: float) -> float:
    """Return what a result at a time is worth: less and less from its deadline until it is worthless."""
    if finish_hours <= deadline_hours + TIME_TOLERANCE_HOURS:
        return facts.value_usd if finish_hours < math.inf else 0.0
    if finish_hours >= facts.worthless_hours:
        return 0.0
    return facts.value_usd * (facts.worthless_hours - finish_hours) / (facts.worthless_hours - deadline_hours)


class MoneyAt(NamedTuple):
    """Where the money of a period stood at a moment."""

    hours: float
    gone_share: float  # the share of the period that had passed
    budget_usd: float
    line_usd: float  # what would have been spent by then on a straight line
    spent_usd: float
    reserved_usd: float  # kept for deadlines that were promised, in case all spot disappears
    projected_usd: float  # what the whole period would cost at the pace so far
    usd_per_job_hour: float
    """What an hour of a job's waiting was worth; NaN where the allocator has no such price."""

    @property
    def free_usd(self) -> float:
        """What was neither spent nor kept for promises."""
        return self.budget_usd - self.spent_usd - self.reserved_usd


def money_at(month: FleetMonth, run: FleetRun, share: float) -> MoneyAt:
    """Return where the money stood when this share of the first period had passed."""
    hours, budget = share * month.period_hours, month.period.budget_usd
    moments = run.moments
    place = int((moments.hours <= min(hours, month.period_hours - month.slot_hours / 2)).sum()) - 1
    spent = spent_until(run.held, hours) if run.held is not None else float(moments.spent_usd[place])
    ended = hours > moments.hours[-1] + month.slot_hours
    return MoneyAt(
        hours=hours,
        gone_share=share,
        budget_usd=budget,
        line_usd=share * budget,
        spent_usd=spent,
        reserved_usd=0.0 if ended else float(moments.reserved_usd[place]),
        projected_usd=spent / share,
        usd_per_job_hour=float(moments.usd_per_job_hour[place]),
    )


def spent_until(held: HeldStretches, hours: float) -> float:
    """Return what was spent up to a time; a stretch in the middle counts by the part that has passed."""
    length = held.to_hours - held.from_hours
    passed = ((hours - held.from_hours) / length).clip(0.0, 1.0)
    return float((held.usd * passed).sum())


class ClassOutcome(NamedTuple):
    """What became of the jobs of one class."""

    name: str
    jobs: int
    mean_hours: float  # mean response of those that were done
    p95_hours: float
    deadlines: int
    met: int
    refused: int
    cost_usd: float
    on_demand_gpu_hours: float
    gpu_hours: float

    @property
    def on_demand_share(self) -> float:
        return self.on_demand_gpu_hours / self.gpu_hours if self.gpu_hours else 0.0


def by_class(found: Sequence[JobOutcome]) -> list[ClassOutcome]:
    """Summarise what became of jobs, class by class in the order of their first job."""
    names = dict.fromkeys(one.kind for one in found)
    return [_class(name, [one for one in found if one.kind == name]) for name in names]


def _class(name: str, jobs: Sequence[JobOutcome]) -> ClassOutcome:
    hours = sorted(one.response_hours for one in jobs if one.finish_hours < math.inf)
    due = [one for one in jobs if one.deadline_hours < math.inf]
    return ClassOutcome(
        name=name,
        jobs=len(jobs),
        mean_hours=sum(hours) / len(hours) if hours else math.nan,
        p95_hours=hours[-(-95 * len(hours) // 100) - 1] if hours else math.nan,
        deadlines=len(due),
        met=sum(one.outcome == IN_TIME for one in due),
        refused=sum(one.outcome == REFUSED for one in jobs),
        cost_usd=sum(one.cost_usd for one in jobs),
        on_demand_gpu_hours=sum(one.on_demand_gpu_hours for one in jobs),
        gpu_hours=sum(one.gpu_hours for one in jobs),
    )
