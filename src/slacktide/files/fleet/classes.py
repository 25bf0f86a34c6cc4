"""Reads the classes of a fleet file: the work of each kind of job, how often it arrives and how it scales."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from slacktide.budget.classes import JobClass, JobTemplate
from slacktide.core.errors import InputError, shown
from slacktide.core.speedup import Linear
from slacktide.core.types import ANY_WIDTH, Job, PoolChoice
from slacktide.core.units import (
    MAX_PER_HOUR,
    parse_arrivals_per_hour,
    parse_duration_hours,
    parse_money_usd,
    parse_range,
    parse_size_gb,
)
from slacktide.core.yaml_fields import Fields, number, scalar, section
from slacktide.core.yaml_tree import Mistakes, Scalar, Section, Series, Tree, describe
from slacktide.files import keys
from slacktide.files.job import check_worth, usual_end
from slacktide.files.resources import Resources, resources
from slacktide.files.work import items, phases, speedup

PLAIN_KEYS = ("name", "arrivals_per_hour", "arrivals", "work", "phases", "speedup", "restart", "widths")
MARKET_KEYS = (
    "deadline",
    "value",
    "worthless_after",
    "patience",
    "priority",
    "checkpoint",
    "resources",
)
"""Keys of a class that only count on a market."""
CLASS_KEYS = (*PLAIN_KEYS, *MARKET_KEYS)  # all keys of a class
CHECKPOINT_KEYS = ("every", "size")


class ReadClass(NamedTuple):
    """A class of a fleet file."""

    plain: JobClass  # the part that counts in a stream served on demand at one price
    template: JobTemplate  # all of it, for a fleet on a market


def class_list(mistakes: Mistakes, *, market: bool) -> Callable[[Tree], tuple[ReadClass, ...]]:
    """Return a reader of the list of classes; mistakes inside one are noted at their own places.

    Without a market, deadlines and the other keys that only count there are mistakes.
    """

    def read(tree: Tree) -> tuple[ReadClass, ...]:
        found = []
        lines: dict[str, int] = {}
        for place, item in enumerate(items(tree, "classes"), start=1):
            fields = _fields(item, place, mistakes)
            if fields is not None:
                found.append(_read_class(fields, market))
                _check_once(fields, lines)
        return tuple(one for one in found if one is not None)

    return read


def _fields(item: Tree, place: int, mistakes: Mistakes) -> Fields | None:
    if not isinstance(item, Section):
        mistakes.add(item.place, f"classes: must be mappings of keys to values, got {describe(item)}")
        return None
    entry = item.entries.get("name")
    name = entry.value.text if entry and isinstance(entry.value, Scalar) else ""
    return Fields(item, mistakes, CLASS_KEYS, prefix=f"classes.{name[:60] or place}.")


def _check_once(fields: Fields, lines: dict[str, int]) -> None:
    entry = fields.section.entries.get("name")
    if entry is None or not isinstance(entry.value, Scalar):
        return
    first = lines.setdefault(entry.value.text, entry.place.line)
    if first != entry.place.line:
        fields.note(
            "name", f"must differ from all others, got {shown(entry.value.text)} again after line {first}"
        )


def _read_class(fields: Fields, market: bool) -> ReadClass | None:
    """Read one class; None if a mistake makes it unusable."""
    if not market:
        check_heeded(fields)
    gpus = class_resources(fields)
    plain = _job_class(fields, gpus)
    return None if plain is None else ReadClass(plain, template(fields, plain, gpus))


def _job_class(fields: Fields, gpus: Resources | None) -> JobClass | None:
    """Read the part of a class that counts in a stream; None if a mistake makes it unusable."""
    fields.require("name", "bert")
    name = fields.read("name", scalar(keys.name), "")
    arrivals = _arrivals(fields)
    assumed = Linear()
    scaling = fields.read("speedup", speedup(fields.mistakes), assumed)
    parts = phases(fields, scaling)
    restart = fields.read("restart", scalar(parse_duration_hours), 0.0)
    widths = fields.read("widths", _widths, ANY_WIDTH) if gpus is None else gpus.widths
    if math.isnan(arrivals) or not parts:
        return None
    one = parts[0]
    try:
        job = Job(
            name=name,
            work_gpu_hours=one.work_gpu_hours,
            speedup=one.speedup,
            phases=parts if len(parts) > 1 else (),
            restart_hours=restart,
            widths=widths,
        )
    except InputError as error:
        # All else was checked as it was read: only the speedup and the widths together can be refused.
        fields.note("speedup" if "speedup" in fields else "phases", str(error))
        return None
    return JobClass(job, arrivals, speedup_said=all(part.speedup is not assumed for part in parts))


def _arrivals(fields: Fields) -> float:
    """Read how often jobs come, in either form; not-a-number after a mistake."""
    if "arrivals" in fields and "arrivals_per_hour" in fields:
        fields.note("arrivals", "must be given once, got arrivals_per_hour too; keep one of them")
    elif "arrivals_per_hour" not in fields:
        fields.require("arrivals", "3/hour")
    plain = fields.read("arrivals_per_hour", scalar(keys.positive(_per_hour)), math.nan)
    return fields.read("arrivals", scalar(keys.positive(parse_arrivals_per_hour)), plain)


def _per_hour(text: str) -> float:
    if not (found := number(text)) <= MAX_PER_HOUR:
        raise InputError(f"must be <= {MAX_PER_HOUR:g}, got {shown(text)}")
    return found


def _widths(tree: Tree) -> tuple[int, ...]:
    """Read `1..8`, `8`, `{1,2,4,8}` or `[1,2,4,8]`."""
    if isinstance(tree, Series):
        return parse_range("{" + ",".join(scalar(str)(item) for item in tree.items) + "}")
    # To YAML a set in braces is a mapping of keys without values.
    if isinstance(tree, Section) and all(
        isinstance(entry.value, Scalar) and entry.value.null for entry in tree.entries.values()
    ):
        return parse_range("{" + ",".join(tree.entries) + "}")
    return scalar(parse_range)(tree)


def check_heeded(fields: Fields) -> None:
    """Note every key that has no effect where everything is on demand at one price."""
    for key in MARKET_KEYS:
        if key in fields:
            fields.note(
                key, "must come with 'market:' in the fleet file, got none; name one, or leave it out"
            )


def class_resources(fields: Fields) -> Resources | None:
    """Read the GPUs of a class; None where it names only widths, or none."""
    if "resources" in fields and "widths" in fields:
        fields.note("widths", "must be given once, got resources too; write them as accelerators: H100:1..8")
    return fields.read("resources", resources(fields.mistakes), None)


def template(fields: Fields, one: JobClass, gpus: Resources | None) -> JobTemplate:
    """Read the rest of a class after its part for streams; mistakes are noted at their places."""
    duration = scalar(keys.positive(parse_duration_hours))
    deadline = fields.read("deadline", scalar(_due), math.nan if "deadline" in fields else math.inf)
    worthless_after = fields.read("worthless_after", duration, None)
    value = fields.read("value", scalar(keys.positive(parse_money_usd)), 0.0)
    every_hours, size_gb = fields.read("checkpoint", _checkpoint(fields.mistakes), (0.0, 0.0))
    patience = fields.read("patience", scalar(keys.wait), math.nan)
    weight = fields.read("priority", scalar(keys.weight), 1.0)
    check_worth(fields, deadline, worthless_after)
    if math.isnan(deadline) or (worthless_after is not None and not worthless_after >= deadline):
        return JobTemplate(one.job, one.arrivals_per_hour)  # the mistake has been noted
    job = replace(
        one.job,
        deadline_hours=deadline,
        value_usd=value,
        worthless_after_hours=worthless_after,
        after_deadline=usual_end(deadline, worthless_after),
        checkpoint_hours=every_hours,
        checkpoint_gb=size_gb,
        pools=_pools(gpus),
    )
    return JobTemplate(job, one.arrivals_per_hour, weight, patience)


def _due(text: str) -> float:
    return math.inf if text == "none" else keys.positive(parse_duration_hours)(text)


def _pools(gpus: Resources | None) -> tuple[PoolChoice, ...]:
    """Return the pools a class may use; a GPU type without a place means every place that has it."""
    if gpus is None:
        return ()
    return gpus.pools or (PoolChoice(gpus.gpu, "", gpus.widths),)


def _checkpoint(mistakes: Mistakes) -> Callable[[Tree], tuple[float, float]]:
    """Return a reader of how often jobs checkpoint and how large a checkpoint is; `none`: they do not."""

    def read(tree: Tree) -> tuple[float, float]:
        if isinstance(tree, Scalar):
            if tree.text == "none":
                return math.inf, 0.0
            raise InputError(
                f"must be 'none' or a mapping such as {{every: 10m, size: 50 GB}}, got {tree.text}"
            )
        fields = Fields(section(tree), mistakes, CHECKPOINT_KEYS, prefix="checkpoint.")
        return (
            fields.read("every", scalar(parse_duration_hours), 0.0),
            fields.read("size", scalar(parse_size_gb), 0.0),
        )

    return read
