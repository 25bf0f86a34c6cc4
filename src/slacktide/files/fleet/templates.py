"""What a class of a fleet file says that only a market heeds: deadlines, worth, patience, GPUs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from slacktide.budget.classes import JobClass
from slacktide.budget.templates import Template
from slacktide.core.errors import InputError
from slacktide.core.types import PoolChoice
from slacktide.core.units import parse_duration_hours, parse_money_usd, parse_size_gb
from slacktide.core.yaml_fields import Fields, scalar, section
from slacktide.core.yaml_tree import Mistakes, Scalar, Tree
from slacktide.files import keys
from slacktide.files.job import check_worth, usual_end
from slacktide.files.resources import Resources, resources

MARKET_KEYS = (
    "deadline",
    "value",
    "worthless_after",
    "patience",
    "priority",
    "checkpoint",
    "resources",
)
"""Keys of a class that only a market heeds."""
CHECKPOINT_KEYS = ("every", "size")


def check_heeded(fields: Fields) -> None:
    """Note every key that nothing heeds where all is on demand at one price."""
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


def template(fields: Fields, one: JobClass, gpus: Resources | None) -> Template:
    """Read the rest of a class whose plain part has been read; mistakes are noted at their places."""
    duration = scalar(keys.positive(parse_duration_hours))
    deadline = fields.read("deadline", scalar(_due), math.nan if "deadline" in fields else math.inf)
    worthless_after = fields.read("worthless_after", duration, None)
    value = fields.read("value", scalar(keys.positive(parse_money_usd)), 0.0)
    every_hours, size_gb = fields.read("checkpoint", _checkpoint(fields.mistakes), (0.0, 0.0))
    patience = fields.read("patience", scalar(keys.wait), math.nan)
    weight = fields.read("priority", scalar(keys.weight), 1.0)
    check_worth(fields, deadline, worthless_after)
    if math.isnan(deadline) or (worthless_after is not None and not worthless_after >= deadline):
        return Template(one.job, one.arrivals_per_hour)  # the mistake has been noted
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
    return Template(job, one.arrivals_per_hour, weight, patience)


def _due(text: str) -> float:
    return math.inf if text == "none" else keys.positive(parse_duration_hours)(text)


def _pools(gpus: Resources | None) -> tuple[PoolChoice, ...]:
    """Return where jobs of a class may be; a class that names a GPU type means it wherever there is one."""
    if gpus is None:
        return ()
    return gpus.pools or (PoolChoice(gpus.gpu, "", gpus.widths),)


def _checkpoint(mistakes: Mistakes) -> Callable[[Tree], tuple[float, float]]:
    """Return a reader of how often jobs save themselves and how large that is; `none`: they do not."""

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
