"""The fleet file: what a team writes about its classes of jobs and its budget, read and checked.

Every mistake is reported with its file, line and column, what must hold and what was found; all
independent mistakes are reported together, one per line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

from slacktide.budget.allowance import Allowance
from slacktide.budget.classes import JobClass, JobTemplate
from slacktide.budget.fleet import Fleet
from slacktide.core.errors import FileError, InputError, shown
from slacktide.core.quotes import UNLIMITED_GPUS
from slacktide.core.register import Spec
from slacktide.core.speedup import Linear
from slacktide.core.types import ANY_WIDTH, Job, PoolChoice
from slacktide.core.units import (
    MAX_PER_HOUR,
    Budget,
    parse_arrivals_per_hour,
    parse_duration_hours,
    parse_money_usd,
    parse_range,
    parse_size_gb,
)
from slacktide.core.yaml_fields import Fields, items, number, root, scalar, text_of
from slacktide.core.yaml_tree import Mistakes, Scalar, Section, Series, Tree, describe, parse_tree, read_text
from slacktide.files import keys
from slacktide.files.fleet.keys import StreamSettings, WrittenBudget, budget, price, quota, stream_settings
from slacktide.files.job import check_worth, usual_end
from slacktide.files.work import Resources, phases, resources, speedup

FLEET_KEYS = ("budget", "price", "market", "on_demand", "classes", "stream", "policy")
"""All keys of a fleet file."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFile:
    """The contents of a fleet file."""

    classes: tuple[JobClass, ...]  # the part of each class that matters without a market
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
    tree = parse_tree(text, mistakes)
    # A job file is easily given by mistake.
    if (
        isinstance(tree, Section)
        and "classes" not in tree.entries
        and not {"deadline", "resources"}.isdisjoint(tree.entries)
    ):
        message = "a fleet file must name budget and classes, got a job file; plan it with 'slacktide plan'"
        raise FileError(message, path=path, line=tree.place.line, column=tree.place.column)
    fields = root(tree, mistakes, FLEET_KEYS, kind="fleet", least="budget and classes")
    fields.require("budget", "16 gpus")
    if "market" not in fields:
        fields.require("classes", "[{name: bert, arrivals: 3/hour, work: 4 gpu-hours}]")
    written = fields.read("budget", budget, None)
    usd = fields.read("price", price, math.nan if "price" in fields else None)
    market = fields.read("market", keys.market, None)
    on_demand = fields.read("on_demand", scalar(quota), UNLIMITED_GPUS)
    if "on_demand" in fields and "market" not in fields:
        fields.note("on_demand", "must come with a market, got none; name 'market:', or leave it out")
    classes = fields.read("classes", lambda tree, _: _class_list(tree, mistakes, "market" in fields), ())
    stream = fields.read("stream", stream_settings, StreamSettings())
    policy = fields.read("policy", keys.allocator, None)
    gpus = math.nan
    if written is not None:
        try:
            gpus = _average_gpus(written, usd, market="market" in fields)
        except InputError as error:
            fields.note("budget", str(error))
    mistakes.check()
    assert written is not None, "a file without a budget is a mistake"
    return FleetFile(
        classes=tuple(plain for plain, _ in classes),
        budget=written.text,
        budget_gpus=gpus,
        allowance=written.allowance,
        market=market,
        on_demand_gpus=on_demand,
        templates=tuple(template for _, template in classes),
        usd_per_gpu_hour=usd,
        stream=stream,
        policy=policy,
        path=str(path),
    )


def _average_gpus(written: WrittenBudget, usd_per_gpu_hour: float | None, *, market: bool) -> float:
    """Return the GPUs that a budget pays for on average; infinite on a market whose file names no price."""
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


def _class_list(tree: Tree, mistakes: Mistakes, market: bool) -> tuple[tuple[JobClass, JobTemplate], ...]:
    """Read each class: the part that matters at one price on demand, and all of it for a market.

    Without a market, deadlines and the other keys that matter only there are mistakes.
    """
    found, lines = list[tuple[JobClass, JobTemplate]](), dict[str, int]()
    for place, item in enumerate(items(tree, "a list of classes, each starting with '- '"), start=1):
        if not isinstance(item, Section):
            mistakes.add(item.place, f"classes: must be mappings of keys to values, got {describe(item)}")
            continue
        entry = item.entries.get("name")
        name = entry.value.text if entry and isinstance(entry.value, Scalar) else ""
        fields = Fields(item, mistakes, CLASS_KEYS, prefix=f"classes.{name[:60] or place}.")
        gpus = _class_resources(fields, market)
        plain = _job_class(fields, gpus)
        if plain is not None:
            found.append((plain, _template(fields, plain, gpus)))
        if entry and isinstance(entry.value, Scalar):
            first = lines.setdefault(name, entry.place.line)
            if first != entry.place.line:
                must = "must differ from all others"
                fields.note("name", f"{must}, got {shown(name)} again after line {first}")
    return tuple(found)


def _job_class(fields: Fields, gpus: Resources | None) -> JobClass | None:
    """Read the part of a class that matters without a market; None if a mistake makes it unusable."""
    fields.require("name", "bert")
    name = fields.read("name", scalar(keys.name), "")
    arrivals = _arrivals(fields)
    assumed = Linear()
    scaling = fields.read("speedup", speedup, assumed)
    parts = phases(fields, scaling)
    restart = fields.read("restart", scalar(parse_duration_hours), 0.0)
    widths = fields.read("widths", _widths, ANY_WIDTH) if gpus is None else gpus.widths
    if math.isnan(arrivals) or not parts:
        return None
    first = parts[0]
    try:
        job = Job(
            name=name,
            work_gpu_hours=first.work_gpu_hours,
            speedup=first.speedup,
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
    if not (arrivals := number(text)) <= MAX_PER_HOUR:
        raise InputError(f"must be <= {MAX_PER_HOUR:g}, got {shown(text)}")
    return arrivals


def _widths(tree: Tree, _: Mistakes) -> tuple[int, ...]:
    """Read `1..8`, `8`, `{1,2,4,8}` or `[1,2,4,8]`."""
    if isinstance(tree, Series):
        return parse_range("{" + ",".join(map(text_of, tree.items)) + "}")
    # To YAML a set in braces is a mapping of keys without values.
    if isinstance(tree, Section) and all(
        isinstance(entry.value, Scalar) and entry.value.null for entry in tree.entries.values()
    ):
        return parse_range("{" + ",".join(tree.entries) + "}")
    return parse_range(text_of(tree))


def _class_resources(fields: Fields, market: bool) -> Resources | None:
    """Read the `resources` of a class, None if it has none; note keys that need a market."""
    for key in MARKET_KEYS if not market else ():
        if key in fields:
            must = "must come with 'market:' in the fleet file"
            fields.note(key, f"{must}, got none; name one, or leave it out")
    if "resources" in fields and "widths" in fields:
        fields.note("widths", "must be given once, got resources too; write them as accelerators: H100:1..8")
    return fields.read("resources", resources, None)


def _template(fields: Fields, plain: JobClass, gpus: Resources | None) -> JobTemplate:
    """Read the rest of a class, which matters on a market; mistakes are noted at their places."""
    duration = scalar(keys.positive(parse_duration_hours))
    deadline = fields.read("deadline", scalar(_due), math.nan if "deadline" in fields else math.inf)
    worthless_after = fields.read("worthless_after", duration, None)
    value = fields.read("value", scalar(keys.positive(parse_money_usd)), 0.0)
    every_hours, size_gb = fields.read("checkpoint", _checkpoint, (0.0, 0.0))
    patience = fields.read("patience", scalar(keys.wait), math.nan)
    weight = fields.read("priority", scalar(keys.weight), 1.0)
    check_worth(fields, deadline, worthless_after)
    if math.isnan(deadline) or (worthless_after is not None and not worthless_after >= deadline):
        return JobTemplate(plain.job, plain.arrivals_per_hour)  # the mistake has been noted
    job = replace(
        plain.job,
        deadline_hours=deadline,
        value_usd=value,
        worthless_after_hours=worthless_after,
        after_deadline=usual_end(deadline, worthless_after),
        checkpoint_hours=every_hours,
        checkpoint_gb=size_gb,
        # A GPU type without a place means every place that has it.
        pools=gpus.pools or (PoolChoice(gpus.gpu, "", gpus.widths),) if gpus else (),
    )
    return JobTemplate(job, plain.arrivals_per_hour, weight, patience)


def _due(text: str) -> float:
    return math.inf if text == "none" else keys.positive(parse_duration_hours)(text)


def _checkpoint(tree: Tree, mistakes: Mistakes) -> tuple[float, float]:
    """Read the hours between checkpoints and the size of one in GB; `none`: infinite, no checkpoints."""
    if isinstance(tree, Scalar):
        if tree.text == "none":
            return math.inf, 0.0
        raise InputError(f"must be 'none' or a mapping such as {{every: 10m, size: 50 GB}}, got {tree.text}")
    fields = Fields(tree, mistakes, CHECKPOINT_KEYS, prefix="checkpoint.")
    every = fields.read("every", scalar(parse_duration_hours), 0.0)
    return every, fields.read("size", scalar(parse_size_gb), 0.0)
