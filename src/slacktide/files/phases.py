"""The work of a job or a class as its phases: one, unless several are listed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from slacktide.core.errors import InputError
from slacktide.core.speedup import Speedup
from slacktide.core.types import Phase
from slacktide.core.units import parse_work, parse_work_gpu_hours
from slacktide.core.yaml_fields import Fields, scalar, section
from slacktide.core.yaml_tree import Mistakes, Scalar, Series, Tree, describe
from slacktide.files import keys
from slacktide.files.scaling import speedup
from slacktide.physics.pace import UNKNOWN_SPREAD, USUAL_SPREAD

PHASE_KEYS = ("work", "speedup")

_WORK = scalar(keys.positive(parse_work_gpu_hours))


def phases(fields: Fields, scaling: Speedup, read: Callable[[Tree], float] = _WORK) -> tuple[Phase, ...]:
    """Read the work of a job or a class as its phases; none of them where there is a mistake.

    `read` reads the work of one that names no phases.
    """
    if "phases" in fields:
        if "work" in fields:
            fields.note("work", "must be given once, got phases too; leave work to the phases")
        return fields.read("phases", lambda tree: _phase_list(tree, scaling, fields.mistakes), ())
    fields.require("work", "4 gpu-hours")
    work = fields.read("work", read, math.nan)
    return () if math.isnan(work) else (Phase(work, scaling),)


def guessed_gpu_hours(scaling: Speedup, widths: Sequence[int], deadline_hours: float) -> float:
    """Return the work of a job of which nobody knows it: half of what its deadline leaves time for."""
    return 0.5 * deadline_hours * max(scaling(width) for width in widths)


def work_spread(fields: Fields) -> float:
    """Return how far the work of a job may be off: the usual spread where its file does not say."""
    entry = fields.section.entries.get("work")
    if entry is None or not isinstance(entry.value, Scalar):
        return USUAL_SPREAD
    if entry.value.text == keys.UNKNOWN:
        return UNKNOWN_SPREAD
    try:
        said = parse_work(entry.value.text).spread
    except InputError:
        return USUAL_SPREAD  # the mistake is told where the work is read
    return USUAL_SPREAD if said is None else said


def _phase_list(tree: Tree, scaling: Speedup, mistakes: Mistakes) -> tuple[Phase, ...]:
    found = []
    for item in items(tree, "phases"):
        try:
            fields = Fields(section(item), mistakes, PHASE_KEYS, prefix="phases.")
        except InputError as error:
            mistakes.add(item.place, f"phases: {error}")
            continue
        fields.require("work", "4 gpu-hours")
        work = fields.read("work", _WORK, math.nan)
        own = fields.read("speedup", speedup(mistakes), scaling)
        if not math.isnan(work):
            found.append(Phase(work, own))
    return tuple(found)


def items(tree: Tree, of: str) -> tuple[Tree, ...]:
    """Return the entries of a list that must not be empty; raises InputError."""
    if not isinstance(tree, Series) or not tree.items:
        came = "an empty list" if isinstance(tree, Series) else describe(tree)
        raise InputError(f"must be a list of {of}, each starting with '- ', got {came}")
    return tree.items
