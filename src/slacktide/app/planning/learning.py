"""The learner behind `policy: auto`: shows its trust in policies, trains it, and resets it."""

from __future__ import annotations

import secrets
from pathlib import Path

from slacktide.app.jobs.feasible import check_feasible
from slacktide.app.task_requests import JobTask, LearnRequest
from slacktide.core.errors import InputError
from slacktide.policies.selection.auto_policy import arms_of
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.policy_set import fresh, policy_set
from slacktide.policies.selection.state_file import LearnedStateFile, default_path, forget
from slacktide.simulation.compare import Progress
from slacktide.simulation.learn_on_past import random_tasks, select
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.playback import Setting


def learned_path(named: str | None) -> Path:
    """Return the file with the learned state: the one that is named, or the user's own."""
    return Path(named) if named else default_path()


def learned(path: Path, pool_of: str | None = None) -> Hedge:
    """Return what was learned; if that is nothing yet, the initial trust in the policies of `pool_of`.

    Raises InputError if another set of policies was learned, FileError for a file that is no learned state.
    """
    return _saved(path, pool_of).read()


def teach(
    path: Path, task: JobTask[LearnRequest], *, progress: Progress | None = None, spread: Spread = HERE
) -> Hedge:
    """Try every policy on random starts of a job, move trust to those that did well, and return the result.

    Raises as `learned` does, InputError for a negative seed, and InfeasibleError for a job that cannot be
    done in time.
    """
    request, file = task.request, task.file
    if request.seed < 0:
        raise InputError(f"seed must be >= 0, got {request.seed}")
    saved = _saved(path, request.pool_of)
    check_feasible(file.job)
    market = task.open_market()
    tasks = random_tasks(file.job, market, request.jobs, pool=task.market.pool, seed=request.seed)
    select(
        tasks,
        arms_of(saved.read()),
        saved,
        setting=lambda pool: Setting.on(market, pool),
        seed=request.seed,
        # Two processes may teach the same state at the same time, so their jobs need different names.
        name=f"{file.job.name}-{secrets.token_hex(4)}",
        progress=progress,
        spread=spread,
    )
    return saved.read()


def _saved(path: Path, wanted: str | None) -> LearnedStateFile:
    """Return the state's file; raises InputError if it is for another set of policies than wanted."""

    def begin() -> Hedge:
        return fresh(policy_set(wanted or "auto"))

    saved = LearnedStateFile(path, begin)
    if wanted is not None and saved.read().arms != begin().arms:
        raise InputError(
            f"{path}: must have been learned over the pool {wanted!r}, got another; "
            "forget it with --reset, or keep a second one with --state"
        )
    return saved


__all__ = ["Hedge", "forget", "learned", "learned_path", "teach"]
