"""Reads what a job or a class needs: its GPUs, its work in one or several phases, and its speedup by GPUs.

A speedup is `{amdahl: 0.97}`, one of three other forms, or a CSV file of measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from slacktide.budget.fit import normalised
from slacktide.core.errors import InputError, shown
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.types import Phase, PoolChoice
from slacktide.core.units import Accelerators, parse_range, parse_work, parse_work_gpu_hours
from slacktide.core.yaml_fields import Fields, Reader, items, number, scalar, section, text_of
from slacktide.core.yaml_tree import KeyValue, Mistakes, Scalar, Section, Tree, describe, parse_tree
from slacktide.files import keys
from slacktide.files.measured import RowSelection, read_measured
from slacktide.physics.pace import UNKNOWN_SPREAD, USUAL_SPREAD

_EXAMPLE = (
    "{amdahl: 0.97}, {linear: {alpha: 0.9, beta: 0.1}}, {power: 0.8}, {table: {1: 1, 2: 1.9}} "
    "or {csv: runs.csv}"
)


def speedup(tree: Tree, mistakes: Mistakes) -> Speedup:
    """Read any form of a speedup."""
    if not isinstance(tree, Section) or len(tree.entries) != 1:
        several = isinstance(tree, Section) and ", ".join(tree.entries)
        raise InputError(f"must be {_EXAMPLE}, got {several or describe(tree)}")
    fields = Fields(tree, mistakes, _FORMS, prefix="speedup.")
    (form,) = tree.entries
    # An unknown form has been noted as an unknown key.
    return fields.read(form, _FORMS[form], Linear()) if form in _FORMS else Linear()


def read_table(text: str, path: str) -> Table:
    """Read a speedup written as `csv: runs.csv`; raises FileError if its file cannot be read."""
    mistakes = Mistakes(path)
    tree = parse_tree(text, mistakes)
    found = Linear() if tree is None else speedup(tree, mistakes)
    mistakes.check()
    assert isinstance(found, Table)
    return found


def _linear(tree: Tree, mistakes: Mistakes) -> Speedup:
    fields = Fields(_mapping(tree, "alpha and beta"), mistakes, ("alpha", "beta"), prefix="speedup.linear.")
    return Linear(fields.read("alpha", scalar(number), 1.0), fields.read("beta", scalar(number), 0.0))


def _table(tree: Tree, mistakes: Mistakes) -> Speedup:
    points = []
    for width, entry in _mapping(tree, "widths to speedups").entries.items():
        try:
            points.append(_point(width, entry))
        except InputError as error:
            mistakes.add(entry.place, f"speedup.table: {error}")
    # Without a correct point, the mistakes above say why; an error about an empty table would only repeat it.
    return Table(tuple(points)) if points else Linear()


def _point(width: str, entry: KeyValue) -> tuple[float, float]:
    if not width.isdecimal():
        raise InputError(f"a width must be a whole number of GPUs, got {shown(width)}")
    (gpus,) = parse_range(width)
    rate = number(text_of(entry.value))
    if rate <= 0:
        raise InputError(f"the speedup at {gpus} GPUs must be > 0, got {rate:g}")
    return float(gpus), rate


def _measured(tree: Tree, mistakes: Mistakes) -> Speedup:
    """Read `{csv: runs.csv}`, or `{csv: {file: runs.csv, where: {model: bert}}}` for some rows of it."""
    if not isinstance(tree, Section):
        return _from_csv(keys.words(text_of(tree)), RowSelection(), mistakes)
    fields = Fields(tree, mistakes, ("file", "where", "rate", "time"), prefix="speedup.csv.")
    fields.require("file", "runs.csv")
    file = fields.read("file", scalar(keys.words), None)
    choice = RowSelection(
        where=fields.read("where", _conditions, {}),
        rate=fields.read("rate", scalar(keys.words), None),
        time=fields.read("time", scalar(keys.words), None),
    )
    return _from_csv(file, choice, mistakes) if file is not None else Linear()


def _conditions(tree: Tree, _: Mistakes) -> dict[str, str]:
    return {name: keys.words(text_of(entry.value)) for name, entry in section(tree).entries.items()}


def _from_csv(file: str, choice: RowSelection, mistakes: Mistakes) -> Table:
    """Read measured rates as speedups over one GPU; paths are relative to the file that names them."""
    (series,) = read_measured(mistakes.folder / file, choice)
    return Table(normalised(series.points))


def _mapping(tree: Tree, of: str) -> Section:
    if not isinstance(tree, Section) or not tree.entries:
        raise InputError(f"must be a mapping of {of}, got {describe(tree)}")
    return tree


_FORMS: Mapping[str, Reader[Speedup]] = {
    "amdahl": scalar(lambda text: Amdahl(number(text))),
    "linear": _linear,
    "power": scalar(lambda text: Power(number(text))),
    "table": _table,
    "csv": _measured,
}
PHASE_KEYS = ("work", "speedup")

_WORK = scalar(keys.positive(parse_work_gpu_hours))


def phases(fields: Fields, scaling: Speedup, read: Reader[float] = _WORK) -> tuple[Phase, ...]:
    """Read the work of a job or a class as its phases; returns none if there is a mistake.

    `read` reads the value of `work` where no phases are listed.
    """
    if "phases" in fields:
        # Two statements of the same work could disagree, and neither would be obviously right.
        if "work" in fields:
            fields.note("work", "must be given once, got phases too; leave work to the phases")
        return fields.read("phases", lambda tree, mistakes: _phase_list(tree, scaling, mistakes), ())
    fields.require("work", "4 gpu-hours")
    work = fields.read("work", read, math.nan)
    return () if math.isnan(work) else (Phase(work, scaling),)


def guessed_gpu_hours(scaling: Speedup, widths: Sequence[int], deadline_hours: float) -> float:
    """Return the work to assume if it is unknown: half of what can be done by the deadline at full width."""
    return 0.5 * deadline_hours * max(scaling(width) for width in widths)


def work_spread(fields: Fields) -> float:
    """Return how far a job's work may be off, as a share of it; the usual spread if its file gives none."""
    entry = fields.section.entries.get("work")
    if entry is None or not isinstance(entry.value, Scalar):
        return USUAL_SPREAD
    if entry.value.text == keys.UNKNOWN:
        return UNKNOWN_SPREAD
    try:
        spread = parse_work(entry.value.text).spread
    except InputError:
        return USUAL_SPREAD  # reported where the work itself is read
    return USUAL_SPREAD if spread is None else spread


def _phase_list(tree: Tree, scaling: Speedup, mistakes: Mistakes) -> tuple[Phase, ...]:
    found = []
    for item in items(tree, "a list of phases, each starting with '- '"):
        fields = Fields.of_item(item, mistakes, PHASE_KEYS, "phases")
        if fields is None:
            continue
        fields.require("work", "4 gpu-hours")
        work = fields.read("work", _WORK, math.nan)
        own = fields.read("speedup", speedup, scaling)
        if not math.isnan(work):
            found.append(Phase(work, own))
    return tuple(found)


MAX_SPEED = 1000.0  # no GPU in use is this many times as fast as another one
MAX_CHOICES = 256
_MAX_INFRA = 200

_RESOURCE_KEYS = ("accelerators", "infra", "any_of")
_CHOICE_KEYS = ("accelerators", "infra", "speed")


class Resources(NamedTuple):
    """The GPU that work is counted on, all allowed widths, and the pools to choose from if any are named."""

    gpu: str
    widths: tuple[int, ...]
    pools: tuple[PoolChoice, ...] = ()


ONE_GPU = Resources("GPU", (1,))
"""Stands in for resources that could not be read, so that the rest of the file is still checked."""


def resources(tree: Tree, mistakes: Mistakes) -> Resources:
    """Read one GPU type, or a choice of several."""
    fields = Fields(tree, mistakes, _RESOURCE_KEYS, prefix="resources.")
    if "any_of" not in fields:
        fields.require("accelerators", "H100:1..8")
    gpus = fields.read("accelerators", keys.accelerators, None)
    infra = fields.read("infra", scalar(_infra), "")
    if "any_of" in fields:
        choices = fields.read("any_of", lambda tree, mistakes: _choices(tree, mistakes, gpus, infra), ())
        return _union(choices) if choices else ONE_GPU
    if gpus is None:
        return ONE_GPU
    return Resources(*gpus, (PoolChoice(gpus.gpu, infra, gpus.widths),) if infra else ())


def _choices(tree: Tree, mistakes: Mistakes, gpus: Accelerators | None, infra: str) -> tuple[PoolChoice, ...]:
    """Read a list of choices; what a choice leaves out is taken from the keys next to `any_of`."""
    listed = items(tree, "a list such as [{accelerators: H100:1..8}]")
    if len(listed) > MAX_CHOICES:
        raise InputError(f"must be a list of at most {MAX_CHOICES} choices, got {len(listed)}")
    read = [_choice(item, which, mistakes, gpus, infra) for which, item in enumerate(listed, start=1)]
    return tuple(choice for choice in read if choice is not None)


def _choice(
    tree: Tree, which: int, mistakes: Mistakes, gpus: Accelerators | None, infra: str
) -> PoolChoice | None:
    fields = Fields.of_item(tree, mistakes, _CHOICE_KEYS, f"resources.any_of[{which}]")
    if fields is None:
        return None
    if gpus is None:
        fields.require("accelerators", "H100:1..8")
    own = fields.read("accelerators", keys.accelerators, gpus)
    place = fields.read("infra", scalar(_infra), infra)
    speed = fields.read("speed", scalar(_speed), 1.0)
    return None if own is None else PoolChoice(own.gpu, place, own.widths, speed)


def _union(choices: Sequence[PoolChoice]) -> Resources:
    """Join choices; work is counted on the GPU of the first choice with speed 1, else of the first choice."""
    reference = next((choice for choice in choices if choice.speed == 1.0), choices[0])
    widths = sorted({width for choice in choices for width in choice.widths})
    return Resources(reference.gpu, tuple(widths), tuple(choices))


def _infra(text: str) -> str:
    """Read a cloud, region or zone: names or `*`, separated by `/`."""
    parts = text.strip().split("/")
    if len(text) > _MAX_INFRA or not all(part.strip() == part and part for part in parts):
        raise InputError(f"must be a cloud, region or zone, such as gcp/us-central1-a, got {shown(text)}")
    return text.strip()


def _speed(text: str) -> float:
    if not 0 < (found := number(text)) <= MAX_SPEED:
        raise InputError(f"must be > 0 and <= {MAX_SPEED:g}, got {shown(text)}; 1 is the reference GPU")
    return found
