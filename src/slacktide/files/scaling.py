"""How a file says that a job scales: `{amdahl: 0.97}`, three other forms, or a CSV file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from slacktide.core.errors import InputError, shown
from slacktide.core.speedup import Amdahl, Linear, Power, Speedup, Table
from slacktide.core.units import parse_range
from slacktide.core.yaml_fields import Fields, number, scalar, section
from slacktide.core.yaml_tree import Entry, Mistakes, Section, Tree, describe, parse_tree
from slacktide.files import keys
from slacktide.files.measured import Choice, read_measured

_FORMS = ("amdahl", "linear", "power", "table", "csv")
_EXAMPLE = (
    "{amdahl: 0.97}, {linear: {alpha: 0.9, beta: 0.1}}, {power: 0.8}, {table: {1: 1, 2: 1.9}} "
    "or {csv: runs.csv}"
)


def speedup(mistakes: Mistakes) -> Callable[[Tree], Speedup]:
    """Return a reader of all forms; mistakes inside one are noted at their own places."""

    def read(tree: Tree) -> Speedup:
        if not isinstance(tree, Section) or len(tree.entries) != 1:
            several = isinstance(tree, Section) and ", ".join(tree.entries)
            raise InputError(f"must be {_EXAMPLE}, got {several or describe(tree)}")
        fields = Fields(tree, mistakes, _FORMS, prefix="speedup.")
        (form,) = tree.entries
        return fields.read(form, lambda value: _form(form, value, mistakes), Linear())

    return read


def _form(form: str, tree: Tree, mistakes: Mistakes) -> Speedup:
    if form == "amdahl":
        return Amdahl(scalar(number)(tree))
    if form == "power":
        return Power(scalar(number)(tree))
    if form == "linear":
        return _linear(_mapping(tree, "alpha and beta"), mistakes)
    if form == "table":
        return _table(_mapping(tree, "widths to speedups"), mistakes)
    if form == "csv":
        return _measured(tree, mistakes)
    # An unknown form has been noted as an unknown key.
    return Linear()


def read_table(text: str, path: str) -> Table:
    """Read a speedup that is in a CSV file, such as `csv: runs.csv`; raises FileError where it cannot be."""
    mistakes = Mistakes(path)
    tree = parse_tree(text, mistakes)
    found = Linear() if tree is None else speedup(mistakes)(tree)
    mistakes.check()
    assert isinstance(found, Table)
    return found


def _linear(tree: Section, mistakes: Mistakes) -> Linear:
    fields = Fields(tree, mistakes, ("alpha", "beta"), prefix="speedup.linear.")
    return Linear(fields.read("alpha", scalar(number), 1.0), fields.read("beta", scalar(number), 0.0))


def _table(tree: Section, mistakes: Mistakes) -> Speedup:
    points = []
    for width, entry in tree.entries.items():
        try:
            points.append(_point(width, entry))
        except InputError as error:
            mistakes.add(entry.place, f"speedup.table: {error}")
    # Without one good point the mistakes above say why; a complaint about none would only repeat it.
    return Table(tuple(points)) if points else Linear()


def _point(width: str, entry: Entry) -> tuple[float, float]:
    if not width.isdecimal():
        raise InputError(f"a width must be a whole number of GPUs, got {shown(width)}")
    (gpus,) = parse_range(width)
    rate = scalar(number)(entry.value)
    if rate <= 0:
        raise InputError(f"the speedup at {gpus} GPUs must be > 0, got {rate:g}")
    return float(gpus), rate


def _measured(tree: Tree, mistakes: Mistakes) -> Speedup:
    """Read `{csv: runs.csv}`, or `{csv: {file: runs.csv, where: {model: bert}}}` for some rows of it."""
    if not isinstance(tree, Section):
        return _from_csv(scalar(keys.words)(tree), Choice(), mistakes)
    fields = Fields(tree, mistakes, ("file", "where", "rate", "time"), prefix="speedup.csv.")
    fields.require("file", "runs.csv")
    file = fields.read("file", scalar(keys.words), None)
    choice = Choice(
        where=fields.read("where", _conditions, {}),
        rate=fields.read("rate", scalar(keys.words), None),
        time=fields.read("time", scalar(keys.words), None),
    )
    return _from_csv(file, choice, mistakes) if file is not None else Linear()


def _conditions(tree: Tree) -> dict[str, str]:
    return {name: scalar(keys.words)(entry.value) for name, entry in section(tree).entries.items()}


def _from_csv(file: str, choice: Choice, mistakes: Mistakes) -> Table:
    """Read measured rates as speedups over one GPU; paths are relative to the file that names them."""
    (series,) = read_measured(Path(mistakes.path).parent / file, choice)
    (narrowest, slowest), *_ = points = series.points
    # What was not measured on one GPU is counted as if it scaled perfectly up to the narrowest width.
    return Table(tuple((gpus, rate / slowest * narrowest) for gpus, rate in points))


def _mapping(tree: Tree, of: str) -> Section:
    if not isinstance(tree, Section) or not tree.entries:
        raise InputError(f"must be a mapping of {of}, got {describe(tree)}")
    return tree
