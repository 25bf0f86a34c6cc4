"""The results of a fleet's run for readers: each job's outcome, and the fleet's money over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from slacktide.core.types import TIME_TOLERANCE_HOURS, Reason, Refusal
from slacktide.results.fleets.fleet import FleetRun, HeldStretches
from slacktide.results.fleets.fleet_comparison import FleetMonth, JobFacts

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
    refusal: Refusal | None = None  # why it could not be promised, and the nearest that could

    @property
    def response_hours(self) -> float:
        """From its submission to its end."""
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
    reserved_usd: float  # kept for deadlines that were promised, should all spot be gone
    projected_usd: float  # what the whole period would cost at the pace so far
    usd_per_job_hour: float
    """What an hour of a job's waiting was worth; not a number where the allocator has no such price."""

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


def by_class(found: Sequence[JobOutcome]) -> list[ClassOutcome]:
    """Sum up what became of jobs, class by class in the order of their first job."""
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
