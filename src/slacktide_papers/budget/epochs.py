"""BOA Constrictor's comparison in its own setting: restarts by application, speedups that change, rounds.

The reference knows all phases and resizes only between them. The autoscaler is taken apart: as it was
published, given the speedups, given the restarts too, with shorter restarts and with none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from slacktide.allocators.base import SettledWays, SettledWidths
from slacktide.allocators.streams.fixed_width import ways_of
from slacktide.budget.classes import JobClass
from slacktide.budget.stream import Stream, realised_classes
from slacktide.budget.widths import WidthsOf
from slacktide.core.arrays import Floats, Ints
from slacktide_papers.budget import rows
from slacktide_papers.budget.applications import (
    BY_APPLICATION,
    HALF_MINUTE,
    MODELS,
    NO_RESTARTS,
    NOISE_GROWTH,
    PHASES,
    STATISTICAL_SHARE,
    flat,
    hull_error,
    phased,
    restart_hours_of,
)
from slacktide_papers.budget.cases import Case, Size
from slacktide_papers.budget.families import Family, Try, budgets_of, equi, fixed_width, one_width
from slacktide_papers.budget.fleets import TRAINING_CLASSES
from slacktide_papers.budget.goodput import BELIEVED_RESTART_HOURS, GoodputAutoscaler

DRAWN_JOBS = 85  # as many as BOA Constrictor has
CLUSTERS = (0.5, 0.7, 1.0, 1.4, 1.9, 2.6)
"""Sizes of fixed clusters in multiples of the load; equal shares waste GPUs, so bills are 1.5 to 3.7."""


def epoch_cases(recorded: Sequence[Case], size: Size, seed: int) -> list[Case]:
    """Return the drawn streams and the recorded ones, with phases and with restarts by application."""
    known = applications(recorded)
    draws = [drawn_case(known, draw, seed) for draw in range(size.draws)]
    return [*draws, *(_phased_case(case, size.recorded_jobs) for case in recorded)]


def applications(recorded: Sequence[Case]) -> tuple[JobClass, ...]:
    """Return one class for each model: as measured if recorded streams have all of them, else synthetic."""
    measured = {one.name: one for case in recorded for one in case.classes}
    synthetic = {one.name: one for one in TRAINING_CLASSES}
    if all(model.application in measured for model in MODELS):
        return tuple(measured[model.application] for model in MODELS)
    return tuple(synthetic[model.synthetic] for model in MODELS)


def drawn_case(known: Sequence[JobClass], draw: int, seed: int) -> Case:
    """Draw 85 jobs, 20 an hour on average: the mix is always the same; which job comes when is drawn."""
    rates = np.array([model.jobs_per_hour for model in MODELS])
    rng = np.random.default_rng((seed, draw))
    kinds = rng.permutation(np.repeat(np.arange(len(rates)), shared_out(rates, DRAWN_JOBS)))
    hours = np.cumsum(rng.exponential(1.0 / rates.sum(), size=DRAWN_JOBS))
    stream = Stream(hours, kinds, np.ones(DRAWN_JOBS))
    return _phased_case(Case(f"{rows.DRAWN} {draw + 1}", stream, tuple(known)), DRAWN_JOBS)


def shared_out(rates: Floats, count: int) -> Ints:
    """Share a number of jobs out by rates: whole ones, the largest remainders rounded up."""
    exact = count * rates / rates.sum()
    found: Ints = np.floor(exact).astype(np.int64)
    found[np.argsort(found - exact, kind="stable")[: count - int(found.sum())]] += 1
    return found


def _phased_case(case: Case, most_jobs: int) -> Case:
    """Return the first jobs of a stream, whose classes have phases and the rates of just these jobs."""
    stream = case.stream.head(most_jobs)
    present = np.unique(stream.class_index)
    stream = dataclasses.replace(stream, class_index=np.searchsorted(present, stream.class_index))
    classes = realised_classes([phased(case.classes[one]) for one in present], stream)
    return Case(case.name, stream, tuple(one for one in classes if one is not None), BY_APPLICATION)


def epoch_tasks(cases: Sequence[Case], size: Size) -> list[tuple[Case, str, Family]]:
    """Return what runs where: all with restarts by application, autoscalers with other restarts, too."""
    return [
        (made, rows.EPOCHS, family)
        for case in cases
        for made, families in (
            (case, _families(case, size)),
            _elsewhere(case.on(HALF_MINUTE), size, rows.RESTARTS_KNOWN),
            _elsewhere(case.on(NO_RESTARTS), size, rows.AS_PUBLISHED, rows.RESTARTS_KNOWN),
        )
        for family in families
    ]


def _families(case: Case, size: Size) -> list[Family]:
    scalers = [_autoscaler(series, size) for series in SCALERS]
    others = [
        per_application(case, size),
        one_width(case, size),
        equi(case, size._replace(clusters=CLUSTERS)),
    ]
    return [fixed_width(case, size), *scalers, *others]


def _elsewhere(case: Case, size: Size, *series: str) -> tuple[Case, list[Family]]:
    """Return a case compared with its reference and some autoscalers."""
    return case, [fixed_width(case, size), *(_autoscaler(one, size) for one in series)]


SCALERS: Mapping[str, tuple[bool, float | None]] = {
    rows.AS_PUBLISHED: (True, BELIEVED_RESTART_HOURS),
    rows.SPEEDUPS_KNOWN: (False, BELIEVED_RESTART_HOURS),
    rows.RESTARTS_KNOWN: (False, None),
}
"""Whether speedups are learned, and how long restarts are believed to take; None: their real length."""


def _autoscaler(series: str, size: Size) -> Family:
    learns, restart_hours = SCALERS[series]
    return Family(
        series,
        tuple(
            (Try(f"efficiency {e:g}", GoodputAutoscaler(e, learns=learns, restart_hours=restart_hours)),)
            for e in size.targets
        ),
    )


def per_application(case: Case, size: Size) -> Family:
    """One width for each application, the best for one measured speedup of the whole job: no phases."""
    known = tuple(flat(one) for one in case.classes)
    plans = WidthsOf(known)
    tries = []
    for budget in budgets_of(known, size.budgets):
        ways = ways_of(plans.optimal_widths(budget))
        each = SettledWays(np.repeat(ways.narrow, PHASES), np.repeat(ways.wide, PHASES), ways.wide_share)
        tries.append((Try(f"{budget:.4g} GPUs", SettledWidths(each), budget),))
    return Family(rows.PER_APPLICATION, tuple(tries))


def said_of_phases(known: Sequence[JobClass]) -> str:
    """Say what the 85 jobs are, and how nearly the phases of each application add up to the whole job."""
    names = ", ".join(one.name for one in known)
    seconds = [f"{restart_hours_of(one.name) * 3600:.0f}" for one in known]
    restarts = f"{', '.join(seconds[:-1])} and {seconds[-1]} s"
    parts = [f"{one.name} {hull_error(one, phased(one)):.1%}".replace("%", " %") for one in known]
    return (
        f"The {DRAWN_JOBS} jobs are drawn from these applications: {names}. Two things about them are "
        f"assumed, not measured. Restarts take {restarts}, by model size. And speedups by phase are made "
        f"from the times of whole jobs: the gradient noise scale grows {NOISE_GROWTH:g} times over {PHASES} "
        f"phases, and {STATISTICAL_SHARE * 100:.0f} % of what is lost on many GPUs is samples that "
        f"large batches waste; hulls make jobs faster than those times by at most: {', '.join(parts)}."
    )
