"""The back end of local processes: a worker per GPU, real progress, money by the market's prices.

What a job has done comes from its own progress file and not from the physics; what it pays is GPUs times
price times hours, as everywhere. Grace and notice are seconds of the wall clock, however fast the
market runs, because processes do not run faster with it.
"""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

from slacktide import physics
from slacktide.backend.base import Failure, Order, Seen
from slacktide.backend.local.launch import Kind, Launch
from slacktide.backend.local.processes import Processes
from slacktide.backend.local.sighting import Sighting
from slacktide.errors import InputError
from slacktide.jobfile import JobFile, read_job_file
from slacktide.types import JobState

SPOT: Kind = "spot"
ON_DEMAND: Kind = "on-demand"
NOT_FOUND = (126, 127)
"""What a shell says of a command that is not there or may not be run."""
SLACK_S = 0.5
"""Added to the grace when the end of the money is near: signals and looks take time too."""


@dataclass(slots=True)
class _Known:
    terms: physics.Terms
    grace_s: float
    attempt: int = -1
    began_hours: float = 0.0
    """When its present set of workers was ordered."""
    said_before: float = math.nan
    """The share of the work that earlier workers had reported."""


class Local:
    """Holds GPUs as local worker processes."""

    def __init__(self, root: Path, owner: str, *, speed: float, notice_s: float) -> None:
        """Say where workers have their folders, whose they are, how fast the market's clock runs, and how
        long before the market takes workers it tells them.
        """
        self._root, self._speed, self._notice_s = root, speed, notice_s
        self._processes = Processes(root, owner)
        self._known: dict[str, _Known] = {}

    def enter(self, job: str, terms: physics.Terms, file: JobFile | None) -> None:
        """Get to know a job; raises InputError when it has no command or its folders cannot be used."""
        if file is None or file.run is None:
            raise InputError(f"job {job!r} must say what to run, got no 'run'; write 'run: python train.py'")
        grace_s = file.grace_hours * 3600.0
        own = self._root / job / "checkpoints"
        self._processes.register(launch_of(job, file, grace_s, own))
        self._known[job] = _Known(terms, grace_s)

    def hold(self, order: Order) -> None:
        """Have just these workers; a new attempt stops the old ones first."""
        kinds: tuple[Kind, ...] = ()
        if not order.ending:
            # On-demand workers get the low ranks: rank 0 often does more, and they are not taken away.
            kinds = (*repeat(ON_DEMAND, order.on_demand_gpus), *repeat(SPOT, order.spot_gpus))
        if order.attempt > 0:  # before the first attempt there is nothing to stop either
            self._processes.hold(order.job, order.attempt, kinds, time.monotonic() + order.delay_s)

    def look(self, order: Order, now_hours: float) -> Seen:
        """Read what the workers have reported, and price what was held."""
        known, sighting = self._known[order.job], self._processes.look(order.job)
        here = sighting.attempt == order.attempt
        self._notice(known, order, sighting)
        finished = here and not order.ending and _finished(sighting, order.gpus)
        state = self._state(known, order, sighting, now_hours)
        hours = now_hours - order.from_hours
        billed = hours
        if known.terms.whole_slots and finished:
            billed = (order.slot + 1) * known.terms.slot_hours - order.from_hours
        spot_usd = physics.usd_per_hour(order.quote, order.spot_gpus, 0) * billed
        on_demand_usd = physics.usd_per_hour(order.quote, 0, order.on_demand_gpus) * billed
        state = state._replace(cost_usd=order.state.cost_usd + spot_usd + on_demand_usd)
        if finished:
            state = _done(state, known.terms, now_hours)
        rate = float(known.terms.rate[order.gpus])
        gained = max(0.0, state.progress_gpu_hours - order.state.progress_gpu_hours)
        productive = min(hours, gained / rate) if rate > 0 else 0.0
        return Seen(
            state=state,
            to_hours=now_hours,
            spot_usd=spot_usd,
            on_demand_usd=on_demand_usd,
            pause_hours=hours - productive if order.gpus else 0.0,
            productive_hours=productive,
            failure=_failure(sighting) if here and order.gpus else None,
            silent_s=sighting.silent_s if here and sighting.phase == "running" else 0.0,
            gone=sighting.spot_gpus + sighting.on_demand_gpus == 0 and sighting.phase in ("none", "exited"),
        )

    def take(self, job: str, spot_left: int) -> None:
        """Kill spot workers, after the notice if there is one."""
        self._processes.take(job, spot_left, self._notice_s)

    def stop_hours(self, job: str) -> float:
        """Return how long the grace is on the market's clock."""
        return (self._known[job].grace_s + SLACK_S) * self._speed / 3600.0

    def tick(self) -> None:
        """Move starts, stops and kills on."""
        self._processes.tick()

    def sweep(self, orders: list[Order]) -> None:
        """Adopt the workers of these orders and end all others of this journal."""
        self._processes.sweep({order.job: order.attempt for order in orders})

    def _notice(self, known: _Known, order: Order, sighting: Sighting) -> None:
        if known.attempt != order.attempt:
            known.attempt, known.began_hours = order.attempt, order.from_hours
            known.said_before = sighting.done_share
        if sighting.done_share != known.said_before:
            known.said_before = math.nan  # these workers have spoken

    def _state(self, known: _Known, order: Order, sighting: Sighting, now_hours: float) -> JobState:
        """Return the job as its workers report it; until they do, only what is checkpointed counts."""
        terms, silent = known.terms, not math.isnan(known.said_before)
        safe = sighting.checkpointed_share * terms.work_gpu_hours
        progress = safe if silent else sighting.done_share * terms.work_gpu_hours
        waited = now_hours - known.began_hours
        rate = float(terms.rate[order.gpus])
        return order.state._replace(
            spot_gpus=order.spot_gpus,
            on_demand_gpus=order.on_demand_gpus,
            pause_hours=max(0.0, terms.restart_hours - waited) if silent and order.gpus else 0.0,
            progress_gpu_hours=progress,
            checkpointed_gpu_hours=safe,
            since_checkpoint_hours=(progress - safe) / rate if rate > 0 else 0.0,
        )


def launch_of(job: str, file: JobFile, grace_s: float, own_checkpoints: Path) -> Launch:
    """Return how a job file's job is started: paths from its folder, variables with their values."""
    folder = Path(file.path).absolute().parent
    checkpoints = folder / file.checkpoint_dir if file.checkpoint_dir else own_checkpoints
    assert file.run is not None
    return Launch(
        job_id=job,
        run=file.run,
        setup=file.setup,
        workdir=folder / (file.workdir or "."),
        checkpoint_dir=checkpoints,
        grace_s=grace_s,
        envs=_values(file.envs, "variable"),
        secrets=_values(_secrets(file), "secret"),
    )


def _secrets(file: JobFile) -> dict[str, str | None]:
    """Return the secrets; the journal does not keep their values, so they are read where they stand."""
    if any(value is None for value in file.secrets.values()) and Path(file.path).is_file():
        written = read_job_file(file.path).secrets
        return {name: value or written.get(name) for name, value in file.secrets.items()}
    return file.secrets


def _values(variables: dict[str, str | None], what: str) -> dict[str, str]:
    found = {name: os.environ.get(name) if value is None else value for name, value in variables.items()}
    for name, value in found.items():
        if value is None:
            raise InputError(f"{what} {name} must have a value, got none; set it here or write it down")
    return {name: value for name, value in found.items() if value is not None}


def _finished(sighting: Sighting, workers: int) -> bool:
    ended = sighting.phase == "exited" and len(sighting.exit_codes) == workers
    return ended and workers > 0 and all(code == 0 for code in sighting.exit_codes)


def _done(state: JobState, terms: physics.Terms, now_hours: float) -> JobState:
    return state._replace(
        spot_gpus=0,
        on_demand_gpus=0,
        pause_hours=0.0,
        progress_gpu_hours=terms.work_gpu_hours,
        checkpointed_gpu_hours=terms.work_gpu_hours,
        since_checkpoint_hours=0.0,
        finish_hours=now_hours,
    )


def _failure(sighting: Sighting) -> Failure | None:
    if sighting.setup_exit not in (None, 0):
        return Failure(0, int(sighting.setup_exit or 0), True, f"the set-up ended with {sighting.setup_exit}")
    rank = sighting.failed_rank
    if rank is None:
        return None
    code = sighting.exit_codes[rank]
    assert code is not None
    if code in NOT_FOUND:
        return Failure(rank, code, True, f"the command was not found or cannot be run (exit {code})")
    return Failure(rank, code)
