"""Comparison of allocators at equal actual spending, on a stream at one price or on a market.

A nominal budget says little: one allocator spends all of it, another half. On a stream each baseline is tuned
until it spends as nearly what the budget allows as it can; then the optimum is run on the same stream at what
the baseline spent. On a market the first allocator that is not tuned decides the common spend; every tuned
one is run with all its settings, and its best result at that spend, chosen in hindsight, is shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from slacktide.allocators.base import allocators
from slacktide.allocators.view import Allocator, AnyAllocator, needs_market
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, realised_classes
from slacktide.budget.widths import optimal_widths
from slacktide.core.errors import InfeasibleError, InputError, shown
from slacktide.core.own_class import Spec
from slacktide.results.fleet import Budgeted, FleetComparison, FleetMonth, FleetRow, FleetRun, Measured
from slacktide.results.stream import StreamComparison, StreamRow, StreamRun
from slacktide.simulation.fleet.run import Progress, RunOptions, run_fleet, simulate
from slacktide.simulation.fleet.scene import FleetScene
from slacktide.simulation.fleet.settled import is_independent
from slacktide.simulation.fleet.tuning import Knob, Mixture, Tuner, best_at, knobs_of, settings_of

HEAD_JOBS = 2000  # variants of an allocator are chosen on this many of the first jobs


def allocator_label(allocator: AnyAllocator) -> str:
    """Return an allocator's name with the parameters that are not at their defaults."""
    name = allocators.name_of(allocator)
    words = [
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in allocators.changed(allocator).items()
    ]
    return f"{name}({','.join(words)})" if words else name


def part_of(progress: Progress | None, number: int, total: int) -> Progress | None:
    """Return the progress of one of `total` runs, which reports to that of the whole in percent of a run."""
    if progress is None:
        return None
    progress(100 * number, 100 * total)
    return lambda done, jobs: progress(100 * number + 100 * done // jobs, 100 * total)


# ------------------------------------------------------------------- on a stream


def compare_streams(
    stream: Stream,
    fleet: Fleet,
    policies: Sequence[Spec | AnyAllocator],
    *,
    progress: Progress | None = None,
) -> StreamComparison:
    """Run allocators on a stream, each compared with the optimum at its own realised spending.

    An allocator given by its name alone is tuned until it spends the fleet's budget; one given with
    parameters runs as it is. Raises InputError for an allocator that cannot run, InfeasibleError for a
    budget that is too small.
    """
    optimum = Tuner(knobs_of("fixed-width", fleet)[0], stream, fleet)
    rows = []
    for number, spec in enumerate(policies):
        run_progress = part_of(progress, number, len(policies))
        if spec == "fixed-width":
            rows.append(_optimum_row(optimum))
            continue
        allocator, run = _tuned(stream, fleet, spec, run_progress)
        rows.append(StreamRow(allocator_label(allocator), run, at_equal_spending(optimum, run)))
    return StreamComparison(fleet, stream, tuple(rows))


def at_equal_spending(optimum: Tuner, run: StreamRun) -> StreamRun | None:
    """Return the optimum's run nearest in spending to another run; None where it spends over 1 % more."""
    found = optimum.spending(run.average_gpus)
    return None if found is None or found.average_gpus > run.average_gpus * 1.01 else found


def _optimum_row(optimum: Tuner) -> StreamRow:
    """Return the optimum at the budget, or at the least that it can spend if that is more."""
    run = optimum.spending(optimum.fleet.budget_gpus)
    shown_run = run or min(optimum.runs.values(), key=lambda run: run.average_gpus)
    value = next(value for value, run in optimum.runs.items() if run is shown_run)
    return StreamRow(allocator_label(optimum.knob.make(value)), shown_run, shown_run)


def _tuned(
    stream: Stream, fleet: Fleet, spec: Spec | AnyAllocator, progress: Progress | None
) -> tuple[AnyAllocator, StreamRun]:
    knobs = knobs_of(spec, fleet) if isinstance(spec, str) else []
    if not knobs:
        allocator = allocators.make(spec)
        return allocator, simulate(stream, fleet, allocator, progress=progress)
    knob, start = _best_variant(stream.head(HEAD_JOBS), fleet, knobs)
    tries = 40 if is_independent(fleet) and not knob.whole else 4
    value, run = Tuner(knob, stream, fleet).nearest(fleet.budget_gpus, start, tries=tries)
    return knob.make(value), run


def _best_variant(stream: Stream, fleet: Fleet, knobs: Sequence[Knob]) -> tuple[Knob, float]:
    """Return the knob and value with the least response, compared with the optimum's at equal spending."""
    best: tuple[float, Knob, float] | None = None
    classes = [one for one in realised_classes(fleet.classes, stream) if one is not None]
    for knob in knobs:
        start = fleet.budget_gpus if knob.high > 1 else 0.4
        value, run = Tuner(knob, stream, fleet).nearest(fleet.budget_gpus, start, tolerance=5e-3)
        try:
            frontier = optimal_widths(classes, run.average_gpus).mean_response_hours
        except InfeasibleError:
            continue
        off = abs(run.average_gpus / fleet.budget_gpus - 1.0)
        worth = run.mean_response_hours / frontier * (1.0 + off)
        if best is None or worth < best[0]:
            best = worth, knob, value
    if best is None:
        return knobs[0], min(max(fleet.budget_gpus, knobs[0].low), knobs[0].high)
    return best[1], best[2]


# ------------------------------------------------------------------- on a market


class TriedAllocator(NamedTuple):
    """An allocator with all its settings, and their runs."""

    name: str
    allocators: tuple[AnyAllocator, ...]
    settings: tuple[str, ...]  # in words, one for each; () for an allocator that is not tuned
    runs: tuple[FleetRun, ...] = ()

    @property
    def measured(self) -> list[Measured]:
        return [Measured.of(run) for run in self.runs]

    def at(self, usd: float) -> Mixture:
        """Return the best mixture of its runs at a spend; its only run if it is not tuned."""
        return best_at(self.measured, usd) if self.settings else Mixture(0, 0, 0.0)

    def row(self, usd: float) -> FleetRow:
        mixture, measured = self.at(usd), self.measured
        run = self.runs[mixture.nearest]
        if not self.settings:
            return FleetRow(self.name, measured[0], run)
        names = tuple(dict.fromkeys(self.settings[each] for each in (mixture.low, mixture.high)))
        return FleetRow(self.name, mixture.of(measured), run, len(self.runs), names)


def compare_fleet(
    scene: FleetScene,
    specs: Sequence[Spec | AnyAllocator],
    budget_usd: float,
    change_usd: float,
    month: FleetMonth,
    progress: Progress | None = None,
) -> FleetComparison:
    """Run allocators on a fleet, described in `month`, and put them side by side at one common spend.

    The common spend is what the first allocator that is not tuned spends; `budget_usd` if all are tuned.
    The first allocator is also tried with a period's budget that is `change_usd` less, and more.
    """
    made = [_variants(spec) for spec in specs]
    total, done = sum(len(one.allocators) for one in made) + 3, count()

    def run(on: FleetScene, allocator: AnyAllocator, *, keep: bool = False) -> FleetRun:
        options = RunOptions(
            name=allocator_label(allocator), keep=keep, progress=part_of(progress, next(done), total)
        )
        # A copy, because an allocator may keep state and is run several times.
        return run_fleet(on, deepcopy(allocator), options)

    def budgeted(change_usd: float) -> Budgeted:
        """Return the result of the first allocator with another budget: tuned to it, or run with it."""
        usd = scene.allowance.usd + change_usd
        if first.settings:
            next(done)
            found = first.at(common * usd / scene.allowance.usd).of(first.measured)
            return Budgeted(usd, found)
        other = replace(scene, allowance=replace(scene.allowance, usd=usd))
        return Budgeted(usd, Measured.of(run(other, first.allocators[0])))

    trials = [one._replace(runs=tuple(run(scene, each) for each in one.allocators)) for one in made]
    first, reference = trials[0], next((trial for trial in trials if not trial.settings), None)
    common = reference.runs[0].spent_usd if reference else budget_usd
    found = FleetComparison(
        month=month,
        deadlines=sum(one.due_hours < math.inf for one in scene.members),
        common_usd=common,
        common_of=reference.name if reference else "",
        rows=tuple(trial.row(common) for trial in trials),
        story=run(scene, first.allocators[first.at(common).nearest], keep=True),
        less=budgeted(-change_usd),
        more=budgeted(change_usd),
    )
    part_of(progress, total, total)
    return found


def _variants(spec: Spec | AnyAllocator) -> TriedAllocator:
    """Return an allocator with each of its settings; as given if it has none or came with parameters."""
    settings = settings_of(spec) if isinstance(spec, str) else []
    made = tuple(allocators.make({str(spec): one}) for one in settings) or (allocators.make(spec),)
    words = tuple(", ".join(f"{key} {value:g}" for key, value in one.items()) for one in settings)
    name = allocators.name_of(made[0])
    if not isinstance(made[0], Allocator) and not needs_market(made[0]):
        raise InputError(
            f"on a market an allocator must decide about spot and money, got {shown(name)}, which plans "
            "widths for one price; leave 'market:' out of the fleet file, or name another"
        )
    return TriedAllocator(name if words else allocator_label(made[0]), made, words)
