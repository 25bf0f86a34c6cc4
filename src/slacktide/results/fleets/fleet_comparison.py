"""Allocators side by side on the jobs and the market of a fleet, at one common spend."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np

from slacktide.budget.allowance import Allowance, Period
from slacktide.core.types import TIME_TOLERANCE_HOURS
from slacktide.results.fleets.fleet import FleetRun
from slacktide.results.fleets.stream import Responses


class JobFacts(NamedTuple):
    """What is known of a job in addition to what a run says of it."""

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
    again: bool = False  # whether the market was too short and began anew
    promised_gpus: float = 0.0
    """The work that the classes of the file promise per hour; 0 where there are none."""
    brought_gpus: float = 0.0  # the work that these jobs brought per hour
    left_out: int = 0  # jobs that came after the time that was simulated

    @property
    def period(self) -> Period:
        """The first period of the budget."""
        return self.allowance.period(0.0)

    @property
    def period_hours(self) -> float:
        """How long that is, from hour 0 on."""
        if self.allowance.renewal == "rolling":
            return self.allowance.period_hours
        return self.period.until_hours

    @property
    def load_ratio(self) -> float | None:
        """The load of these jobs over what the classes promise; None where they promise nothing."""
        return self.brought_gpus / self.promised_gpus if self.promised_gpus else None


class Measured(NamedTuple):
    """What a run came to, or what two runs come to between them."""

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
        """Sum up a run; the response is of jobs without a deadline that were done."""
        due = ~run.best_effort & run.admitted
        in_time = run.finish_hours <= run.deadline_hours + TIME_TOLERANCE_HOURS
        served = run.best_effort & run.admitted
        done = np.isfinite(run.finish_hours)
        responses = Responses.of(run.response_hours[served & done])
        return cls(
            mean_hours=responses.mean_hours,
            p95_hours=responses.p95_hours,
            met=int((due & in_time).sum()),
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
    run: FleetRun  # its run; of a tuned one that of the nearest of its settings
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
    common_of: str  # whose spending that is; empty: the budget's
    rows: tuple[FleetRow, ...]
    story: FleetRun  # the first allocator's run, with all that was held and why
    less: Budgeted | None = None
    more: Budgeted | None = None  # the first allocator with a smaller and a larger budget
