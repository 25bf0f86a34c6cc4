"""The fleet file: what a team writes about its stream of jobs and its budget, read and checked.

Every mistake is reported with its file, line and column, what must hold and what was found; all
independent mistakes are reported together, one per line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import JobClass, JobTemplate
from slacktide.budget.fleet import Fleet
from slacktide.core.errors import FileError, InputError, shown
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.register import Spec
from slacktide.core.units import Budget
from slacktide.core.yaml_fields import Fields, root, scalar
from slacktide.core.yaml_tree import Mistakes, Section, parse_tree, read_text
from slacktide.files import keys
from slacktide.files.fleet.classes import class_list
from slacktide.files.fleet.keys import StreamSettings, WrittenBudget, budget, price, quota, stream_settings

FLEET_KEYS = ("budget", "price", "market", "on_demand", "classes", "stream", "policy")
"""All keys of a fleet file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """The contents of a fleet file."""

    classes: tuple[JobClass, ...]  # the part of each class that counts in a stream
    budget: str  # the budget as written, such as `20000 usd/month`
    budget_gpus: float
    """GPUs that may be rented on average over time; infinite where only money limits them, on a market."""
    allowance: Allowance | None = None
    """What may be spent in each period, for a budget in money; it starts when a run of the fleet starts."""
    market: str | None = None
    """The market that the jobs share: its name, or the path of a trace; None: on demand at one price."""
    on_demand_gpus: int = UNLIMITED_GPUS  # how many on-demand GPUs the jobs may hold at a time, on a market
    templates: tuple[JobTemplate, ...] = ()
    """Each class with its deadlines and values, for a fleet on a market."""
    usd_per_gpu_hour: float | None = None
    """What a GPU-hour costs on average; None when the file names no price."""
    stream: StreamSettings = field(default_factory=StreamSettings)
    policy: Spec | None = None
    """The allocator that decides for the jobs of the fleet, as written; None where the file names none."""
    path: str = "<text>"

    @property
    def fleet(self) -> Fleet | None:
        """What an allocator may know from the start; None where there are no classes."""
        if not self.classes:
            return None
        return Fleet(
            self.classes,
            self.budget_gpus,
            node_gpus=self.stream.node_gpus,
            provisioning_hours=self.stream.provisioning_hours,
            idle_grace_hours=self.stream.idle_grace_hours,
        )


def read_fleet_file(path: str | Path) -> FleetFile:
    """Read a fleet file; raises FileError with the place of every mistake."""
    return parse_fleet(read_text(path), path=path)


def parse_fleet(text: str, *, path: str | Path = "<text>") -> FleetFile:
    """Read the text of a fleet file; `path` names it in messages and its folder anchors other paths."""
    mistakes = Mistakes(path)
    tree = root(parse_tree(text, mistakes), path, kind="fleet", least="budget and classes")
    fields = Fields(_not_a_job(tree, path), mistakes, FLEET_KEYS)
    fields.require("budget", "16 gpus")
    if "market" not in fields:
        fields.require("classes", "[{name: bert, arrivals: 3/hour, work: 4 gpu-hours}]")
    written = fields.read("budget", budget(mistakes), None)
    usd = fields.read("price", price(mistakes), math.nan if "price" in fields else None)
    market = fields.read("market", scalar(keys.market(Path(path).parent)), None)
    on_demand = fields.read("on_demand", scalar(quota), UNLIMITED_GPUS)
    if "on_demand" in fields and "market" not in fields:
        fields.note("on_demand", "must come with a market, got none; name 'market:', or leave it out")
    classes = fields.read("classes", class_list(mistakes, market="market" in fields), ())
    stream = fields.read("stream", stream_settings(mistakes), StreamSettings())
    policy = fields.read("policy", keys.allocator(Path(path).parent), None)
    gpus = math.nan
    if written is not None:
        try:
            gpus = _average_gpus(written, usd, market="market" in fields)
        except InputError as error:
            fields.note("budget", str(error))
    mistakes.check()
    assert written is not None, "a file without a budget is a mistake"
    return FleetFile(
        classes=tuple(one.plain for one in classes),
        budget=written.text,
        budget_gpus=gpus,
        allowance=written.allowance,
        market=market,
        on_demand_gpus=on_demand,
        templates=tuple(one.template for one in classes),
        usd_per_gpu_hour=usd,
        stream=stream,
        policy=policy,
        path=str(path),
    )


def _average_gpus(written: WrittenBudget, usd_per_gpu_hour: float | None, *, market: bool) -> float:
    """Return the GPUs of a budget on average; on a market, whose prices change, money alone is the limit."""
    if market and written.average.gpus is not None:
        raise InputError(
            "with a market a budget must be money per period, such as 20000 usd/month, got "
            f"{shown(written.text)}; a market's prices say what GPUs cost"
        )
    if market and usd_per_gpu_hour is None:
        return math.inf
    return gpus_of(written.average, usd_per_gpu_hour)


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
    """Raise FileError for a job file, which is easily given by mistake."""
    if "classes" not in tree.entries and {"deadline", "resources"} & tree.entries.keys():
        message = "a fleet file must name budget and classes, got a job file; plan it with 'slacktide plan'"
        raise FileError(message, path=path, line=tree.place.line, column=tree.place.column)
    return tree
