"""The fleet file: what a team writes about its stream of jobs and its budget, read and checked.

Every mistake is answered with file, line and column, what must hold and what came; all
independent mistakes are reported together, one per line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from slacktide.budget.classes import JobClass
from slacktide.errors import FileError, InputError
from slacktide.jobfile import keys
from slacktide.jobfile.fleet_classes import class_list
from slacktide.jobfile.fleet_keys import StreamSettings, price, stream_settings
from slacktide.register import Spec
from slacktide.units import Budget, parse_budget
from slacktide.yaml_fields import Fields, root, scalar
from slacktide.yaml_tree import Mistakes, Section, parse_tree, read_text

FLEET_KEYS = ("budget", "price", "classes", "stream", "policy")
"""All keys of a fleet file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """All that a fleet file says."""

    classes: tuple[JobClass, ...]
    budget: str
    """The budget as written, such as `20000 usd/month`."""
    budget_gpus: float
    """GPUs that may be rented on average over time."""
    usd_per_gpu_hour: float | None = None
    """What a GPU-hour costs on average; None when the file names no price."""
    stream: StreamSettings = field(default_factory=StreamSettings)
    policy: Spec | None = None
    """The allocator that decides for the jobs of the fleet, as written; None where the file names none."""
    path: str = "<text>"


def read_fleet_file(path: str | Path) -> FleetFile:
    """Read a fleet file; raises FileError with the place of every mistake."""
    return parse_fleet(read_text(path), path=path)


def parse_fleet(text: str, *, path: str | Path = "<text>") -> FleetFile:
    """Read the text of a fleet file; `path` names it in messages and its folder anchors other paths."""
    mistakes = Mistakes(path)
    tree = root(parse_tree(text, mistakes), path, kind="fleet", least="budget and classes")
    fields = Fields(_not_a_job(tree, path), mistakes, FLEET_KEYS)
    fields.require("budget", "16 gpus")
    fields.require("classes", "[{name: bert, arrivals: 3/hour, work: 4 gpu-hours}]")
    written = fields.read("budget", scalar(str.strip), "")
    budget = fields.read("budget", scalar(parse_budget), None)
    usd = fields.read("price", price(mistakes), math.nan if "price" in fields else None)
    classes = fields.read("classes", class_list(mistakes), ())
    stream = fields.read("stream", stream_settings(mistakes), StreamSettings())
    policy = fields.read("policy", keys.allocator(Path(path).parent), None)
    gpus = math.nan
    if budget is not None:
        try:
            gpus = gpus_of(budget, usd)
        except InputError as error:
            fields.note("budget", str(error))
    mistakes.check()
    return FleetFile(
        classes=classes,
        budget=written,
        budget_gpus=gpus,
        usd_per_gpu_hour=usd,
        stream=stream,
        policy=policy,
        path=str(path),
    )


def gpus_of(budget: Budget, usd_per_gpu_hour: float | None) -> float:
    """Return the GPUs that a budget rents on average; raises InputError if it is money without a price."""
    if budget.gpus is not None:
        gpus = budget.gpus
    elif usd_per_gpu_hour is None:
        raise InputError(
            "a budget in money must come with the price of a GPU-hour, got none; "
            "write for instance 'price: 2.50 usd'"
        )
    else:
        assert budget.usd_per_hour is not None
        gpus = budget.usd_per_hour / usd_per_gpu_hour
    if gpus <= 0:
        raise InputError("a budget must be > 0, got nothing to spend")
    return gpus


def _not_a_job(tree: Section, path: object) -> Section:
    """Refuse a job file, which is easily taken for a fleet's."""
    if "classes" not in tree.entries and {"deadline", "resources"} & tree.entries.keys():
        message = "a fleet file must name budget and classes, got a job file; plan it with 'slacktide plan'"
        raise FileError(message, path=path, line=tree.place.line, column=tree.place.column)
    return tree
