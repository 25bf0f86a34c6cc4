"""Files to start from: a commented job or fleet file that can be used as it is and is easy to change."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from slacktide.app.jobs.feasible import check_feasible
from slacktide.budget.widths import least_budget_gpus
from slacktide.core.errors import FileError, InputError
from slacktide.core.speedup import Amdahl
from slacktide.core.units import Accelerators, format_duration, parse_accelerators, parse_work_gpu_hours
from slacktide.files import keys
from slacktide.files.fleet.fleet import parse_fleet
from slacktide.files.job import parse_job
from slacktide.market.synthetic import PROFILES

Value = TypeVar("Value")

PARALLEL_SHARE = 0.97
BUSY_SHARE = 0.7
"""The share of the time to the deadline that the work takes on all GPUs; the rest is slack."""
RESTART_HOURS, CHECKPOINT_HOURS = 4 / 60, 10 / 60
SHORT_SHARE = 1 / 20  # restarts and checkpoint intervals are at most this share of the time to the deadline
USUAL_DAYS = 30  # how long a synthetic market is by default
LONGER = 3.0  # a market for plans is this many times as long as the time to the deadline
ROOM = 2.0  # the budget of a fleet is this many times the least on which its work gets done

COMMENT_COLUMN = 36  # where comments begin, unless the line is longer

# ` ## ` begins a comment, which `aligned` puts into one column with the others.
JOB_TEXT = """\
# A training job. Each line says what it means; change the values, then:
#   slacktide plan {file}          what it would cost and when it would finish; spends nothing
#   slacktide backtest {file}      policies compared on the market's past
#   slacktide run {file}           run it

name: {name} ## appears in reports, folders and machine names
run: python train.py ## the command, started once per GPU
# setup: pip install torch ## run once on each new machine, before the command
# workdir: . ## the folder to run in; by default the folder of this file
# envs: {{BATCH_SIZE: 512}} ## environment variables of the command
# secrets: {{WANDB_API_KEY: }} ## the same; read where the job is submitted, and never shown

resources:
  accelerators: {gpus} ## the GPU, and how many: 1..8 any number, {{1,2,4,8}} only these, 4 exactly four
work: {work} ## how long the job takes on a single GPU
speedup: {{amdahl: {parallel}}} ## the share of the work that runs in parallel, or measured:
# speedup: {{table: {{1: 1, 2: 1.9, 4: 3.5, 8: 6.2}}}} ## GPUs, and how many times as fast as one

deadline: {deadline} ## from the start, or a time such as 2030-05-01T18:00Z; finishing later is a failure
# value: 600 usd ## what a result on time is worth; with the next line the deadline is soft
# worthless_after: 18h ## by then the value has fallen to nothing
# max_cost: 300 usd ## checkpoint and stop rather than spend more

restart: {restart} ## no progress for this long after workers join
checkpoint: {{every: {every}, grace: 30s}} ## how often; time to stop in. Saves nothing? Delete this line
# retries: {{failures: 3}} ## how many times the job is restarted after its own failures

policy: auto ## what decides: `slacktide policies` lists them; module:Class is one of your own
market: {market} ## synthetic prices; or the path of a trace, see `slacktide market import`
"""

FLEET_TEXT = """\
# Jobs that keep arriving, and one budget for all of them. Change the values, then:
#   slacktide budget {file}        how wide each class should run, and what that buys
#   slacktide simulate {file}      policies compared on a stream of such jobs
# `slacktide fleet learn past.csv` writes such a file from a table of past jobs.

budget: {budget} ## an average over time; or money: 40 usd/hour, 20000 usd/month
price: 2.50 usd ## what a GPU-hour costs, or a mixture:
# price: {{spot: 2 usd, on_demand: 7 usd, spot_share: 0.8}}
# policy: fixed-width ## what decides while jobs run; module:Class is one of your own

classes:
  - name: {name} ## letters, digits, '.', '_' and '-'
    arrivals: 2/hour ## how often such a job arrives, in the long run; or 20/day
    work: 2 gpu-hours ## mean work of a job, on one GPU
    speedup: {{amdahl: 0.9}} ## the share of the work that runs in parallel
    restart: 2m ## no progress for this long after a start or a change of width
    widths: {widths} ## how many GPUs: 1..8 any number, {{1,2,4,8}} only these

  - name: training
    arrivals: 1/day
    work: 40 gpu-hours
    speedup: {{amdahl: 0.97}} ## or measured: {{table: {{1: 1, 2: 1.9, 4: 3.5, 8: 6.2}}}}
    restart: 4m
    widths: {widths}

stream: ## the machines, and how `slacktide simulate` generates jobs
  node_gpus: 1 ## GPUs are rented in nodes of this many
  provisioning: 4m ## from requesting a node until it is ready
  idle_grace: 5m ## how long an idle node is kept
  arrivals: poisson ## or bursty
  sizes: lognormal ## or exponential, fixed, pareto
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """The request for a file to start from."""

    path: str
    fleet: bool = False
    name: str | None = None
    gpus: str = "H100:1..8"
    work: str | None = None  # None: as much as leaves some slack before the deadline
    deadline: str = "16h"


def starter_text(wanted: Starter) -> str:
    """Return the text of a file that `plan` (for a fleet: `budget`) accepts as it is.

    Raises InputError or InfeasibleError if no such file can be made.
    """
    name = None if wanted.name is None else _option("--name", keys.name, wanted.name)
    gpus = _option("--gpus", parse_accelerators, wanted.gpus)
    if wanted.fleet:
        return _fleet(wanted, name or "fine-tuning", gpus)
    return _job(wanted, name or "my-job", gpus)


def write_starter(wanted: Starter) -> None:
    """Write the file; an existing one is never overwritten. Raises as `starter_text`, and FileError."""
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
        JOB_TEXT.format(
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
    text = FLEET_TEXT.format(file=wanted.path, name=name, widths=widths, budget="{budget}")
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
    """Return as much work as leaves slack before the deadline, rounded to two digits."""
    whole = BUSY_SHARE * hours * Amdahl(PARALLEL_SHARE)(gpus)
    return f"{float(f'{whole:.2g}'):g} gpu-hours"


def _short(hours: float, usual: float) -> float:
    """Return a usual duration in hours, or a shorter one, in whole seconds, if the deadline is near."""
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
