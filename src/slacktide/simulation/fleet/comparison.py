"""Allocators side by side at equal realised spending, on a stream at one price or on a market.

A nominal budget says little: one allocator spends all of it, another half. On a stream each baseline is tuned
until it really spends what the budget allows, as near as it can come; then the optimum is run on the same
stream at exactly what the baseline spent. On a market the first allocator that is given only the budget
decides what is spent; every other is run with all its settings, and what the best of them come to at that
spend, chosen in hindsight, is shown next to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from slacktide.allocators.base import allocators
from slacktide.allocators.view import Allocator, AnyAllocator, needs_market
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, realised_classes
from slacktide.budget.widths import optimal_widths
from slacktide.core.errors import InfeasibleError, InputError, shown
from slacktide.core.own_class import Spec
from slacktide.results.fleets.fleet import FleetRun
from slacktide.results.fleets.fleet_comparison import Budgeted, FleetRow, Measured
from slacktide.results.fleets.stream import StreamComparison, StreamRow, StreamRun
from slacktide.simulation.fleet.run import Progress, RunOptions, run_fleet, simulate
from slacktide.simulation.fleet.scene import FleetScene
from slacktide.simulation.fleet.settled import is_independent
from slacktide.simulation.fleet.tuning import Tuner, best_at
from slacktide.simulation.fleet.tuning_parameters import Knob, knobs_of, settings_of

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
    """Make the progress of one of some runs a part of the whole, in percent of a run."""
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

    One given by its bare name is tuned until it spends the fleet's budget; one given with parameters
    runs as it is. Raises InputError for one that cannot run, InfeasibleError for a budget that is too
    small.
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
    """Return the optimum's run that spends what another run did, or as little less as can be found."""
    if not is_independent(optimum.fleet):
        return optimum.best_within(run.average_gpus)
    found = optimum.nearest(run.average_gpus, run.average_gpus, tolerance=1e-6, tries=60)[1]
    return None if found.average_gpus > run.average_gpus * 1.01 else found


def _optimum_row(optimum: Tuner) -> StreamRow:
    """Return the optimum on the budget; on the least that it can spend where that is more."""
    budget = optimum.fleet.budget_gpus
    if is_independent(optimum.fleet):
        run: StreamRun | None = optimum.nearest(budget, budget, tolerance=1e-6, tries=60)[1]
    else:
        run = optimum.best_within(budget)
    found = run or min(optimum.runs.values(), key=lambda one: one.average_gpus)
    value = next(one for one, run in optimum.runs.items() if run is found)
    return StreamRow(allocator_label(optimum.knob.make(value)), found, found)


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
    """Choose among variants by what they are worth at their spending, on the first jobs of a stream."""
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


class Compared(NamedTuple):
    """What a comparison found."""

    common_usd: float
    common_of: str
    rows: tuple[FleetRow, ...]
    story: FleetRun
    less: Budgeted
    more: Budgeted


class TriedAllocator(NamedTuple):
    """An allocator with all its settings, and their runs."""

    name: str
    allocators: tuple[AnyAllocator, ...]
    settings: tuple[str, ...]  # in words, one for each; nothing for one that is not tuned
    runs: tuple[FleetRun, ...]

    @property
    def tuned(self) -> bool:
        """Whether there is something to choose between."""
        return bool(self.settings)

    @property
    def measured(self) -> list[Measured]:
        """What each of the runs came to."""
        return [Measured.of(run) for run in self.runs]

    def at(self, usd: float) -> Measured:
        """Return what it comes to at a spend, as near as its settings can come."""
        return best_at(self.measured, usd).of(self.measured)

    def row(self, usd: float, over_bound: float | None) -> FleetRow:
        """Return its row of the table."""
        if not self.tuned:
            return FleetRow(self.name, Measured.of(self.runs[0]), self.runs[0], over_bound=over_bound)
        mixture = best_at(self.measured, usd)
        names = tuple(dict.fromkeys(self.settings[each] for each in (mixture.low, mixture.high)))
        nearest = self.runs[mixture.nearest]
        return FleetRow(self.name, mixture.of(self.measured), nearest, len(self.runs), names, over_bound)

    def chosen(self, usd: float) -> AnyAllocator:
        """Return the allocator that is nearest to a spend."""
        return self.allocators[best_at(self.measured, usd).nearest if self.tuned else 0]


def compare_fleet(
    scene: FleetScene,
    specs: Sequence[Spec | AnyAllocator],
    budget_usd: float,
    change_usd: float,
    *,
    bounds: Mapping[str, float] | None = None,
    progress: Progress | None = None,
) -> Compared:
    """Run allocators on a fleet and put them side by side at one common spend.

    That is what the first that is not tuned spends, or `budget_usd` where all are. `change_usd` is by how
    much less and more a period's budget is tried for the first; `bounds` says by name how a mean response
    compares with a lower bound, where one is known.
    """
    made = [_variants(spec) for spec in specs]
    steps = _Steps(progress, sum(len(one.allocators) for one in made) + 3)
    trials = [_tried(one, scene, steps) for one in made]
    reference = next((trial for trial in trials if not trial.tuned), None)
    common = reference.runs[0].spent_usd if reference else budget_usd
    known = bounds or {}
    first = trials[0]
    chosen = first.chosen(common)
    story = steps.run(partial(_fresh, scene, chosen, name=allocator_label(chosen), keep=True))
    less, more = (_budgeted(first, scene, common, sign * change_usd, steps) for sign in (-1.0, 1.0))
    return Compared(
        common,
        reference.name if reference else "",
        tuple(trial.row(common, known.get(trial.name)) for trial in trials),
        story,
        less,
        more,
    )


def _variants(spec: Spec | AnyAllocator) -> TriedAllocator:
    """Return an allocator with each of its settings; as it is where it has none, or was given some."""
    settings = settings_of(spec) if isinstance(spec, str) else []
    made = tuple(allocators.make({str(spec): one}) for one in settings) or (allocators.make(spec),)
    words = tuple(", ".join(f"{key} {value:g}" for key, value in one.items()) for one in settings)
    if not isinstance(made[0], Allocator) and not needs_market(made[0]):
        name = allocators.name_of(made[0])
        raise InputError(
            f"on a market an allocator must decide about spot and money, got {shown(name)}, which plans "
            "widths for one price; leave 'market:' out of the fleet file, or name another"
        )
    return TriedAllocator(allocators.name_of(made[0]) if words else allocator_label(made[0]), made, words, ())


def _tried(one: TriedAllocator, scene: FleetScene, steps: _Steps) -> TriedAllocator:
    runs = [steps.run(partial(_fresh, scene, each, name=allocator_label(each))) for each in one.allocators]
    return one._replace(runs=tuple(runs))


def _fresh(
    scene: FleetScene,
    allocator: AnyAllocator,
    *,
    name: str = "",
    keep: bool = False,
    progress: Progress | None = None,
) -> FleetRun:
    """Run an allocator that remembers nothing of other runs."""
    # A copy: an allocator may keep state from its first decision on, and its settings are run again.
    return run_fleet(scene, deepcopy(allocator), RunOptions(name=name, keep=keep, progress=progress))


def _budgeted(
    first: TriedAllocator, scene: FleetScene, common: float, change_usd: float, steps: _Steps
) -> Budgeted:
    """Return what the first allocator comes to with another budget: tuned to it, or run with it."""
    allowance = scene.allowance
    usd = allowance.usd + change_usd
    if first.tuned:
        found = first.at(common * usd / allowance.usd)
        steps.skip()
        return Budgeted(usd, found)
    other = replace(scene, allowance=replace(allowance, usd=usd))
    return Budgeted(usd, Measured.of(steps.run(partial(_fresh, other, first.allocators[0]))))


@dataclass(slots=True)
class _Steps:
    """Counts the runs of a comparison that are done."""

    progress: Progress | None
    total: int
    done: int = field(default=0)

    def run(self, one: Callable[..., FleetRun]) -> FleetRun:
        """Do one run."""
        found = one(progress=part_of(self.progress, self.done, self.total))
        self.skip()
        return found

    def skip(self) -> None:
        """Count a run as done."""
        self.done += 1
        part_of(self.progress, self.done, self.total)
