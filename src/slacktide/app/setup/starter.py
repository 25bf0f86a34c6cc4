"""Files to start from: a commented job or fleet file that can be used as it is, and is easily changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from slacktide.app.jobs.feasible import check_feasible
from slacktide.app.setup import starter_texts as texts
from slacktide.budget.widths import least_budget_gpus
from slacktide.core.errors import FileError, InputError
from slacktide.core.speedup import Amdahl
from slacktide.core.units import Accelerators, format_duration, parse_accelerators, parse_work_gpu_hours
from slacktide.files import keys
from slacktide.files.fleet.fleet import parse_fleet
from slacktide.files.job import parse_job
from slacktide.market.synthetic.profiles import PROFILES

Value = TypeVar("Value")

PARALLEL_SHARE = 0.97
BUSY_SHARE = 0.7
"""The share of the time to the deadline that the work takes on all GPUs on demand: the rest is slack."""
RESTART_HOURS, CHECKPOINT_HOURS = 4 / 60, 10 / 60
SHORT_SHARE = 1 / 20
"""Restarts and checkpoint intervals are at most this share of the time to the deadline."""
USUAL_DAYS = 30
"""How long a synthetic market is by default."""
LONGER = 3.0
"""A market for plans is this many times as long as the time to the deadline."""
ROOM = 2.0
"""The budget of a fleet is this many times the least on which its work gets done."""

COMMENT_COLUMN = 36
"""Where comments begin, unless the line is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """The request for a file to start from."""

    path: str
    fleet: bool = False
    name: str | None = None
    gpus: str = "H100:1..8"
    work: str | None = None
    """Otherwise as much as leaves some slack to the deadline."""
    deadline: str = "16h"


def starter_text(wanted: Starter) -> str:
    """Return the text of a file that `plan` (of a fleet: `budget`) takes as it is.

    Raises InputError or InfeasibleError if no such file can be made.
    """
    name = None if wanted.name is None else _option("--name", keys.name, wanted.name)
    gpus = _option("--gpus", parse_accelerators, wanted.gpus)
    if wanted.fleet:
        return _fleet(wanted, name or "fine-tuning", gpus)
    return _job(wanted, name or "my-job", gpus)


def write_starter(wanted: Starter) -> None:
    """Write the file, unless one is there: that is never overwritten. Raises as `starter_text`."""
    text, target = starter_text(wanted), Path(wanted.path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InputError(
            f"{target} must not exist yet, but it does; name another file, or move it away"
        ) from error
    except OSError as error:
        raise FileError(f"must be writable, got: {error.strerror}", path=target) from error


def _job(wanted: Starter, name: str, gpus: Accelerators) -> str:
    hours = _option("--deadline", keys.moment(datetime.now(UTC)), wanted.deadline)
    work = _work(hours, max(gpus.widths))
    if wanted.work is not None:
        _option("--work", parse_work_gpu_hours, wanted.work)
        work = wanted.work
    text = aligned(
        texts.JOB.format(
            file=wanted.path,
            name=name,
            gpus=wanted.gpus,
            work=work,
            parallel=PARALLEL_SHARE,
            deadline=wanted.deadline,
            restart=format_duration(_short(hours, RESTART_HOURS)),
            every=format_duration(_short(hours, CHECKPOINT_HOURS)),
            market=_market(gpus.gpu, hours),
        )
    )
    check_feasible(parse_job(text, path=wanted.path).job)
    return text


def _fleet(wanted: Starter, name: str, gpus: Accelerators) -> str:
    widths = wanted.gpus.partition(":")[2] or "1"
    text = texts.FLEET.format(file=wanted.path, name=name, widths=widths, budget="{budget}")
    trial = parse_fleet(text.replace("{budget}", "1 gpus"), path=wanted.path)
    budget = math.ceil(ROOM * least_budget_gpus(trial.classes))
    return aligned(text.replace("{budget}", f"{budget} gpus"))


def _option(name: str, read: Callable[[str], Value], text: str) -> Value:
    """Read the value of an option; an error names the option."""
    try:
        return read(text)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def _work(hours: float, gpus: int) -> str:
    """Return as much work as leaves slack to the deadline, in two digits."""
    whole = BUSY_SHARE * hours * Amdahl(PARALLEL_SHARE)(gpus)
    return f"{float(f'{whole:.2g}'):g} gpu-hours"


def _short(hours: float, usual: float) -> float:
    """Return a usual duration, or a shorter one where the deadline is near, in whole seconds."""
    return min(usual, math.floor(hours * SHORT_SHARE * 3600) / 3600)


def _market(gpu: str, hours: float) -> str:
    """Return the synthetic market that is most like a GPU's, long enough for the deadline."""
    named = next((name for name in PROFILES if name == gpu.lower()), "h100")
    days = math.ceil(LONGER * hours / 24)
    return f"synthetic:{named}" + (f"?days={days}" if days > USUAL_DAYS else "")


def aligned(text: str) -> str:
    """Put the comments of a text into one column."""
    parts = (line.partition(" ## ") for line in text.splitlines())
    return "".join(
        f"{code:<{COMMENT_COLUMN}} # {note}\n" if mark else f"{code}\n" for code, mark, note in parts
    )
