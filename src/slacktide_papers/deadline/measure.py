"""One point of an experiment: contenders from the same starts, compared with the clairvoyant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from slacktide.core.arrays import Floats
from slacktide.core.types import Job
from slacktide.market.base import Pool
from slacktide.market.forecast.base import Forecaster
from slacktide.market.forecast.persistence import DEFAULT_FORECASTER
from slacktide.policies.view import Policy
from slacktide.results.run import Run, Runs
from slacktide.simulation import batch
from slacktide.simulation.batch import run_yardstick
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.playback import Setting
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


class Part(NamedTuple):
    """What can be worked out on its own: one contender of a cell, or the clairvoyant."""

    cell: int
    contender: int | None  # None: the clairvoyant


def measure(
    cells: Sequence[Cell], tick: Callable[[], None] = lambda: None, spread: Spread = HERE
) -> list[Point]:
    """Run every contender of all cells, compiled, and average; `tick` is called after each part."""
    # Several cells share their starts and differ in forecasts: the clairvoyant is solved once for them.
    alike = [(cell.pools, cell.deadline_hours, cell.starts) for cell in cells]
    bounds: dict[object, Part] = {}
    for number, key in enumerate(alike):
        bounds.setdefault(key, Part(number, None))
    runs = [Part(number, at) for number, cell in enumerate(cells) for at in range(len(cell.contenders))]
    todo = [*bounds.values(), *runs]
    found: dict[Part, Any] = {}
    for part, came in zip(todo, spread.each(do_part, tuple(cells), todo), strict=True):
        found[part] = came
        tick()
    return [
        point(cells[part.cell], _name(cells, part), found[part], found[bounds[alike[part.cell]]])
        for part in runs
    ]


def parts_of(cells: Sequence[Cell]) -> int:
    """Return into how many parts the measuring of cells is cut."""
    alike = {(cell.pools, cell.deadline_hours, cell.starts) for cell in cells}
    return len(alike) + sum(len(cell.contenders) for cell in cells)


def do_part(cells: Sequence[Cell], part: Part) -> list[Run] | Floats:
    """Return the runs of a contender, or the best utilities."""
    cell = cells[part.cell]
    if part.contender is None:
        best = [run_yardstick(*task)[0] for task in _tasks(cell)]
        return np.array([run.utility_usd for runs in best for run in runs])
    contender = cell.contenders[part.contender]
    return [run for task in _tasks(cell) for run in _runs(contender, *task)]


def _name(cells: Sequence[Cell], part: Part) -> str:
    assert part.contender is not None
    return cells[part.cell].contenders[part.contender].name


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
    return batch.run_compiled(job, pool, contender.policy, starts, name=contender.name, setting=setting)
