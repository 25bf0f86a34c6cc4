"""Trains the choice behind `policy: auto` on starts of a past market: one draw for each job, all learn.

`select` does it for a stream of jobs on past markets; `resolve_policy` is where `policy: auto` becomes a
policy for a user's job.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from slacktide.core.errors import InputError, UnknownNameError, shown
from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.market.base import Market, Pool
from slacktide.policies.base import policies as register
from slacktide.policies.selection import policy_set as arms
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.policy_set import AUTO, fresh
from slacktide.policies.selection.state_file import default_path, load
from slacktide.policies.view import Policy
from slacktide.simulation.compare import Progress, Starts
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.plain import USUAL, Setting
from slacktide.simulation.policy_runs import label
from slacktide.simulation.replay import Replayed, bounds_usd, replay


class Task(NamedTuple):
    """A job of a stream: where and when it starts."""

    job: Job
    pool: Pool
    start: int


class Selected(NamedTuple):
    """One job of a stream: who was drawn for it, who would have been best, and what is now known."""

    job: str
    drawn: str
    utility_usd: float
    share: float  # the utility scaled to [0, 1]
    best: str  # the arm that would have earned the most from this job
    best_utility_usd: float
    leader: str  # the arm of the greatest weight after this job
    leader_weight: float
    regret: float  # expected regret so far against the best fixed arm, in scaled utility
    bound: float


class State(Protocol):
    """A learner in memory (Hedge) or on disk (Saved)."""

    def changing(self) -> AbstractContextManager[Hedge]: ...


def make_arms(pool: Iterable[Spec | Policy]) -> dict[str, Policy]:
    """Make the policies of a pool and name them; users' own policies and specs may be mixed."""
    named: dict[str, Policy] = {}
    for one in pool:
        written = isinstance(one, str | Mapping)
        policy = register.make(one)
        name = arms.name_of(one) if written else label(policy)  # type: ignore[arg-type]
        if name in named:
            raise InputError(f"each arm must be given once, got {shown(name)} twice")
        named[name] = policy
    return named


def arms_of(hedge: Hedge) -> dict[str, Policy]:
    """Make the policies a learner's arms are named after.

    Raises InputError when one is not installed.
    """
    try:
        return {name: register.make(arms.spec_of(name)) for name in hedge.arms}
    except UnknownNameError as error:
        raise InputError(
            f"every learned policy must be installed, got: {error}; install it, or start over with "
            "'slacktide learn --reset'"
        ) from error


def resolve_policy(spec: Spec | Policy, *, state: Path | None = None, key: str = "") -> Policy:
    """Make a policy; `auto` becomes the one that was learned.

    Where nothing has been learned it is the prior's favourite, else it is drawn by weight, the draw
    seeded by `key` (a job's name), so that a plan and the run after it mean the same policy.
    """
    if spec != AUTO:
        return register.make(spec)
    hedge = load(state or default_path()) or fresh()
    name = hedge.draw(key) if hedge.ended else hedge.leader
    try:
        return register.make(arms.spec_of(name))
    except UnknownNameError as error:
        raise InputError(
            f"the learned policy must be installed, got: {error}; install it, or start over with "
            "'slacktide learn --reset'"
        ) from error


def random_tasks(
    job: Job, market: Market, count: int, *, pool: str | None = None, seed: int = 0
) -> list[Task]:
    """Return a stream of one job from random starts, in random pools of a market."""
    if count < 1:
        raise InputError(f"jobs must be >= 1, got {count}")
    pools = market.pools if pool is None else (market.pool(pool),)
    last = [Starts(count=2).of(job, place)[-1] for place in pools]
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(pools), size=count)
    return [Task(job, pools[place], int(rng.integers(last[place] + 1))) for place in chosen]


def select(
    tasks: Iterable[Task],
    policies: Mapping[str, Policy],
    state: State,
    *,
    setting: Callable[[Pool], Setting] = lambda _: USUAL,
    at_once: int = 1,
    seed: int = 0,
    name: str = "",
    progress: Progress | None = None,
    spread: Spread = HERE,
) -> list[Selected]:
    """Run a stream of jobs: draw an arm for each, replay the pool when it is over, learn.

    What a replay comes to does not depend on what was learned, so `spread` may do them ahead of their turn.
    `at_once` jobs are under way together: a job is drawn before the ones ahead of it have ended.
    `policies` are the arms in the learner's order. Jobs are known to the learner as `name`, or as
    their own name, with a number; what is still open when this is interrupted is dropped.
    """
    if at_once < 1:
        raise InputError(f"at_once must be >= 1, got {at_once}")
    todo = list(tasks)
    stream = _Stream(policies, state, _replays(todo, policies, setting, spread), seed, name)
    done: list[Selected] = []
    try:
        for number, task in enumerate(todo):
            stream.begin(task, number)
            if len(stream.open) == at_once:
                done.append(stream.end())
            if progress is not None:
                progress(number + 1, len(todo))
        while stream.open:
            done.append(stream.end())
    finally:
        stream.drop()
    return done


class Replays(NamedTuple):
    """What all replays of a stream share."""

    policies: Mapping[str, Policy]
    jobs: tuple[Job, ...]
    settings: tuple[tuple[Pool, Setting], ...]


def _replays(
    tasks: Sequence[Task], policies: Mapping[str, Policy], setting: Callable[[Pool], Setting], spread: Spread
) -> Iterator[Replayed]:
    """Yield what every policy would have earned from each job, in their order."""
    # By identity: comparing pools by their prices would be slow, and a job given twice travels once.
    pools = {id(task.pool): task.pool for task in tasks}
    jobs = {id(task.job): task.job for task in tasks}
    shared = Replays(policies, tuple(jobs.values()), tuple((pool, setting(pool)) for pool in pools.values()))
    nth_pool = {key: number for number, key in enumerate(pools)}
    nth_job = {key: number for number, key in enumerate(jobs)}
    todo = [(nth_job[id(task.job)], nth_pool[id(task.pool)], task.start) for task in tasks]
    return spread.each(do_replay, shared, todo)


def do_replay(shared: Replays, task: tuple[int, int, int]) -> Replayed:
    """Replay one job: its number, its pool's number, and its start."""
    job, place, start = task
    pool, setting = shared.settings[place]
    return replay(shared.jobs[job], pool, start, shared.policies, setting)


class _Stream:
    """The jobs under way, oldest first."""

    def __init__(
        self,
        policies: Mapping[str, Policy],
        state: State,
        replays: Iterator[Replayed],
        seed: int,
        name: str,
    ) -> None:
        self.open: deque[tuple[str, str]] = deque()
        self._policies, self._state, self._replays = policies, state, replays
        self._seed, self._name = seed, name

    def begin(self, task: Task, number: int) -> None:
        job = f"{self._name or task.job.name}-{self._seed}-{number}"
        with self._state.changing() as hedge:
            if hedge.arms != tuple(self._policies):
                raise InputError("policies must be the learner's arms in their order, got others")
            # The draw follows the number and not the name, so that a repeated stream draws the same.
            drawn = hedge.begin(job, key=str(number), seed=self._seed)
        self.open.append((job, drawn))

    def end(self) -> Selected:
        job, drawn = self.open[0]
        found = next(self._replays)
        with self._state.changing() as hedge:
            hedge.end(job, found.shares)
            record = _record(job, drawn, found, hedge)
        self.open.popleft()
        return record

    def drop(self) -> None:
        while self.open:
            with self._state.changing() as hedge:
                hedge.drop(self.open.popleft()[0])


def _record(job: str, drawn: str, found: Replayed, hedge: Hedge) -> Selected:
    row, best = hedge.arms.index(drawn), int(np.argmax(found.utility_usd))
    regret = hedge.regret()
    return Selected(
        job=job,
        drawn=drawn,
        utility_usd=float(found.utility_usd[row]),
        share=float(found.shares[row]),
        best=hedge.arms[best],
        best_utility_usd=float(found.utility_usd[best]),
        leader=hedge.leader,
        leader_weight=float(hedge.weights.max()),
        regret=regret.expected,
        bound=regret.bound,
    )


__all__ = [
    "AUTO",
    "Selected",
    "Task",
    "arms_of",
    "bounds_usd",
    "make_arms",
    "random_tasks",
    "replay",
    "resolve_policy",
    "select",
]
