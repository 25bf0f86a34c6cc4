"""One point of an experiment: contenders from the same starts, beside the clairvoyant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from slacktide.arrays import Floats
from slacktide.backtesting import batch
from slacktide.backtesting.compare import run_clairvoyant
from slacktide.backtesting.plain import DEFAULT_FORECASTER, Setting
from slacktide.deciding import Policy
from slacktide.forecast.base import Forecaster
from slacktide.market.base import Pool
from slacktide.results.run import Run
from slacktide.results.runs import Runs
from slacktide.types import Job
from slacktide_papers.deadline.places import job_of, starts_of
from slacktide_papers.deadline.rows import Point


class Contender(NamedTuple):
    """A policy with the forecasts it is given."""

    name: str
    policy: Policy
    forecaster: Forecaster = DEFAULT_FORECASTER


@dataclass(frozen=True, slots=True)
class Cell:
    """All contenders in one situation."""

    experiment: str
    panel: str
    x: float
    x_label: str
    pools: tuple[Pool, ...]
    deadline_hours: float
    starts: int
    contenders: tuple[Contender, ...]


def measure(cell: Cell) -> list[Point]:
    """Run every contender of a cell, compiled, and average."""
    bound = np.concatenate([_clairvoyant(*task) for task in _tasks(cell)])
    points = []
    for contender in cell.contenders:
        runs = [run for task in _tasks(cell) for run in _runs(contender, *task)]
        points.append(point(cell, contender.name, runs, bound))
    return points


def point(cell: Cell, series: str, runs: Sequence[Run], bound: Floats) -> Point:
    """Average the runs of one contender; `bound` is the clairvoyant's utility from each start."""
    utility = np.array([run.utility_usd for run in runs])
    most = float(bound.mean())
    share = float(utility.mean()) / most
    # The error of a ratio of means, from what each start adds to it.
    rest = float(np.std(utility - share * bound)) / most / len(runs) ** 0.5
    return Point(
        cell.experiment,
        cell.panel,
        cell.x,
        cell.x_label,
        series,
        utility_usd=float(utility.mean()),
        clairvoyant_usd=most,
        share=share,
        share_error=rest,
        cost_usd=float(np.mean([run.cost_usd for run in runs])),
        on_time_share=float(np.mean([run.on_time for run in runs])),
        runs=len(runs),
    )


def _tasks(cell: Cell) -> list[tuple[Job, Pool, tuple[int, ...]]]:
    jobs = [(job_of(pool, cell.deadline_hours), pool) for pool in cell.pools]
    return [(job, pool, starts_of(job, pool, cell.starts)) for job, pool in jobs]


def _runs(contender: Contender, job: Job, pool: Pool, starts: tuple[int, ...]) -> Runs:
    setting = Setting(forecaster=contender.forecaster)
    return batch.run_many(job, pool, contender.policy, starts, name=contender.name, setting=setting)


@lru_cache(maxsize=256)
def _clairvoyant(job: Job, pool: Pool, starts: tuple[int, ...]) -> Floats:
    """Return the best utilities; the same starts come back with other forecasts."""
    return np.array([run.utility_usd for run in run_clairvoyant(job, pool, starts)])
