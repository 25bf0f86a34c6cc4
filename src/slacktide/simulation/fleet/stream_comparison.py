"""Allocators side by side, at equal realised spending.

A nominal budget says little: one allocator spends all of it, another half. So each baseline is turned until
it really spends what the budget allows, as near as its knob can come; then the optimum is run on the same
stream at exactly what the baseline spent, and their mean responses are compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from slacktide.allocators.base import allocators
from slacktide.allocators.view import AnyAllocator
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream, realised_classes
from slacktide.budget.widths import optimal_widths
from slacktide.core.errors import InfeasibleError
from slacktide.core.register import Spec
from slacktide.results.fleets.stream import StreamComparison, StreamRow, StreamRun
from slacktide.simulation.fleet.settled import is_independent
from slacktide.simulation.fleet.stream_run import Progress, simulate
from slacktide.simulation.fleet.tuning import Tuner
from slacktide.simulation.fleet.tuning_parameters import Knob, knobs_of

HEAD_JOBS = 2000
"""Variants of an allocator are chosen on this many of the first jobs."""


def compare_streams(
    stream: Stream,
    fleet: Fleet,
    policies: Sequence[Spec | AnyAllocator],
    *,
    progress: Progress | None = None,
) -> StreamComparison:
    """Run allocators on a stream, each beside the optimum at its own realised spending.

    One given by its bare name is turned until it spends the fleet's budget; one given with parameters
    runs as it is. Raises InputError for one that cannot run, InfeasibleError for a budget that is too
    small.
    """
    optimum = Tuner(knobs_of("fixed-width", fleet)[0], stream, fleet)
    rows = []
    for number, spec in enumerate(policies):
        run_progress = _part(progress, number, len(policies))
        if spec == "fixed-width":
            rows.append(_optimum_row(optimum))
            continue
        allocator, run = _tuned(stream, fleet, spec, run_progress)
        rows.append(StreamRow(stream_label(allocator), run, at_equal_spending(optimum, run)))
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
    return StreamRow(stream_label(optimum.knob.make(value)), found, found)


def stream_label(allocator: AnyAllocator) -> str:
    """Return an allocator's name with the parameters that are not at their defaults."""
    name = allocators.name_of(allocator)
    words = [f"{key}={_short(value)}" for key, value in allocators.changed(allocator).items()]
    return f"{name}({','.join(words)})" if words else name


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


def _part(progress: Progress | None, number: int, total: int) -> Progress | None:
    """Make the progress of one run a part of the whole."""
    if progress is None:
        return None
    progress(100 * number, 100 * total)
    return lambda done, jobs: progress(100 * number + 100 * done // jobs, 100 * total)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
