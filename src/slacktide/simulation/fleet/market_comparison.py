"""Allocators on one fleet side by side at one common spend.

A nominal budget says little: one allocator spends all of it, another half. The first that is given only the
budget says what is spent; every other is run with all its settings, and what the best of them come to at
that spend, chosen in hindsight, stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from slacktide.allocators.base import allocators
from slacktide.allocators.view import Allocator, AnyAllocator, needs_market
from slacktide.core.errors import InputError, shown
from slacktide.core.register import Spec
from slacktide.results.fleets.fleet import FleetRun
from slacktide.results.fleets.fleet_comparison import Budgeted, FleetRow, Measured
from slacktide.simulation.fleet.market_run import run_fleet
from slacktide.simulation.fleet.market_tuning import best_at, measured, settings_of
from slacktide.simulation.fleet.scene import FleetScene
from slacktide.simulation.fleet.stream_comparison import stream_label

Progress = Callable[[int, int], None]


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
    settings: tuple[str, ...]
    """In words, one for each; nothing for one that is not tuned."""
    runs: tuple[FleetRun, ...]

    @property
    def tuned(self) -> bool:
        """Whether there is something to choose between."""
        return bool(self.settings)

    @property
    def measured(self) -> list[Measured]:
        """What each of the runs came to."""
        return [measured(run) for run in self.runs]

    def at(self, usd: float) -> Measured:
        """Return what it comes to at a spend, as near as its settings can come."""
        return best_at(self.measured, usd).of(self.measured)

    def row(self, usd: float, over_bound: float | None) -> FleetRow:
        """Return its row of the table."""
        if not self.tuned:
            return FleetRow(self.name, measured(self.runs[0]), self.runs[0], over_bound=over_bound)
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
    steps = _Steps(progress, sum(len(one.allocators) for one in made) + 3, len(scene.members))
    trials = [_tried(one, scene, steps) for one in made]
    reference = next((trial for trial in trials if not trial.tuned), None)
    common = reference.runs[0].spent_usd if reference else budget_usd
    known = bounds or {}
    first = trials[0]
    chosen = first.chosen(common)
    story = steps.run(partial(_fresh, scene, chosen, name=stream_label(chosen), keep=True))
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
    return TriedAllocator(allocators.name_of(made[0]) if words else stream_label(made[0]), made, words, ())


def _tried(one: TriedAllocator, scene: FleetScene, steps: _Steps) -> TriedAllocator:
    runs = [steps.run(partial(_fresh, scene, each, name=stream_label(each))) for each in one.allocators]
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
    return run_fleet(scene, deepcopy(allocator), name=name, keep=keep, progress=progress)


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
    return Budgeted(usd, measured(steps.run(partial(_fresh, other, first.allocators[0]))))


@dataclass(slots=True)
class _Steps:
    """Tells how far a row of runs is."""

    progress: Progress | None
    total: int
    jobs: int
    done: int = field(default=0)

    def run(self, one: Callable[..., FleetRun]) -> FleetRun:
        """Do one run."""
        found = one(progress=self._within) if self.progress else one()
        self.skip()
        return found

    def skip(self) -> None:
        """Count a run as done."""
        self.done += 1
        self._within(0, 0)

    def _within(self, done: int, total: int) -> None:
        if self.progress:
            self.progress(self.done * self.jobs + done, self.total * self.jobs)
