"""The runs of a comparison: every policy from every start, done in pieces, in this process or in others.

A run does not depend on the other starts of its piece, so how starts are cut into pieces changes no result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from slacktide.core.errors import InputError
from slacktide.core.register import Spec
from slacktide.core.types import Job
from slacktide.journal.events import Sight
from slacktide.market.base import Market, Pool
from slacktide.physics.truth import Truth
from slacktide.policies.base import policies
from slacktide.policies.deadline_guard import label
from slacktide.policies.view import Policy
from slacktide.results.run import CLAIRVOYANT, IN_THE_POOL, OVER_POOLS, Run, RunResult, Runs, result_of
from slacktide.simulation.batch import (
    COMPILE_FROM,
    joined_yardstick,
    run_in_detail,
    run_many,
    run_optimum,
    solve_yardstick,
)
from slacktide.simulation.parallel.base import Spread
from slacktide.simulation.plain import guarded, run_over_pools
from slacktide.simulation.playback import Setting, TruthByStart
from slacktide.simulation.pool_options import PoolOptions
from slacktide.solvers.clairvoyant.clairvoyant import Yardstick

LEAST_STARTS = 8  # the fewest starts in a piece: with fewer, sending it would cost more than the work
MOST_PIECES = 64  # the most pieces of one policy in one pool: enough to keep many workers busy to the end


class PoolStarts(NamedTuple):
    """One pool of a comparison, and the starts from which jobs stay in it."""

    pool: Pool
    job: Job  # the job as it is in this pool
    starts: tuple[int, ...]  # slots of this pool
    ahead: int = 0
    """How many of its slots come before the slot that truths count as 0: slot 0 of the first pool where all
    pools share their starts, else slot 0 of this pool."""


class TruthElsewhere(NamedTuple):
    """Truths for a pool whose slots begin earlier, by `ahead` slots, than those that the truths count."""

    truth: TruthByStart
    ahead: int

    def at(self, start: int) -> Truth:
        return self.truth.at(start - self.ahead)


class Sweep(NamedTuple):
    """What all pieces of a comparison share."""

    job: Job
    market: Market
    policies: Mapping[str, Policy]
    truth: TruthByStart
    pools: tuple[PoolStarts, ...]
    starts: int  # from how many starts each policy runs, in all pools together where each has its own
    options: PoolOptions | None = None  # where a job may move; None where all jobs stay in their pool
    sight: Sight = "feed"

    def setting(self, pool: int) -> Setting:
        place, truth = self.pools[pool], self.truth
        is_drawn = not isinstance(truth, Truth)
        shifted = TruthElsewhere(truth, place.ahead) if place.ahead and is_drawn else truth
        return Setting.on(self.market, place.pool, shifted)

    def name(self, policy: str | None, pool: int | None) -> str:
        if self.options is None:
            return policy or CLAIRVOYANT
        return policy or (OVER_POOLS if pool is None else IN_THE_POOL)


class Piece(NamedTuple):
    """Some starts of one policy in one pool, or over all of them."""

    policy: str | None  # None: the clairvoyant
    pool: int | None  # None: over all pools
    starts: tuple[int, ...]  # slots of the pool; over all pools, of the first one
    few: bool = True  # whether all starts of the pool are so few that compiling is not worth it


class Part(NamedTuple):
    """All runs of a policy, or of the clairvoyant, in one pool or over all of them."""

    name: str
    policy: str | None
    pool: int | None
    runs: Sequence[Run]
    spare_usd: tuple[float, ...] = ()
    """By start, what the best plan could gain over the clairvoyant's plan; () where that is the best."""


def named(specs: Sequence[Spec | Policy]) -> dict[str, Policy]:
    """Make policies and name them; raises InputError for none, or for one that is given twice."""
    if not specs:
        raise InputError("at least one policy must be given, got none")
    made = [policies.make(policy) for policy in specs]
    by_name = {label(policy): policy for policy in made}
    if len(by_name) != len(made):
        raise InputError(f"each policy must be given once, got {[label(policy) for policy in made]}")
    return by_name


def cut(policy: str | None, pool: int | None, starts: Sequence[int]) -> list[Piece]:
    """Cut the starts of a policy into pieces."""
    # A run over pools takes about a second, so each is worth a task of its own.
    size = 1 if pool is None else max(LEAST_STARTS, -(-len(starts) // MOST_PIECES))
    few = len(starts) < COMPILE_FROM
    return [Piece(policy, pool, tuple(starts[at : at + size]), few) for at in range(0, len(starts), size)]


def run_sweep(
    sweep: Sweep,
    wanted: Sequence[tuple[str | None, int | None]],
    spread: Spread,
    progress: Callable[[int, int], None] | None,
) -> list[Part]:
    """Run the wanted policies, each in a pool or over all of them, from all starts there."""
    todo = [piece for policy, pool in wanted for piece in cut(policy, pool, sweep.pools[pool or 0].starts)]
    results: dict[tuple[str | None, int | None], list[Any]] = {}
    total, done = sum(len(piece.starts) for piece in todo), 0
    for piece, result in zip(todo, spread.each(do_piece, sweep, todo), strict=True):
        results.setdefault((piece.policy, piece.pool), []).append(result)
        done += len(piece.starts)
        if progress is not None:
            progress(done, total)
    return [_part(sweep, policy, pool, pieces) for (policy, pool), pieces in results.items()]


def do_piece(sweep: Sweep, piece: Piece) -> Sequence[Run] | Yardstick:
    """Run one piece of a comparison; for the clairvoyant in a pool, only make its table."""
    if piece.pool is None:
        runs = (_run_over_pools(sweep, piece.policy, start) for start in piece.starts)
        return [dataclasses.replace(run, slots=()) for run in runs]
    place, setting = sweep.pools[piece.pool], sweep.setting(piece.pool)
    if piece.policy is None:
        return solve_yardstick(place.job, place.pool, piece.starts, among=sweep.starts, truth=setting.truth)
    policy = sweep.policies[piece.policy]
    return run_many(
        place.job, place.pool, policy, piece.starts, name=piece.policy, setting=setting, few=piece.few
    )


def _run_over_pools(sweep: Sweep, policy: str | None, start: int) -> Run:
    """Run one policy, or the clairvoyant, over all pools from one start, and keep every slot."""
    options = sweep.options
    assert options is not None
    if policy is not None:
        acting = guarded(sweep.policies[policy], options.job)
        return run_over_pools(
            options, acting, start=start, name=policy, setting=Setting(truth=sweep.truth), sight=sweep.sight
        )
    return run_optimum(options, start, sweep.truth.at(start))


def _part(sweep: Sweep, policy: str | None, pool: int | None, pieces: Sequence[Any]) -> Part:
    name = sweep.name(policy, pool)
    if policy is None and pool is not None:
        place, best = sweep.pools[pool], joined_yardstick(pieces)
        spares = () if best.spare_usd is None else tuple(best.spare_usd.tolist())
        runs = Runs(place.job, name, place.pool.name, place.starts, best.table)
        return Part(name, policy, pool, runs, spares)
    return Part(name, policy, pool, _joined(pieces))


def _joined(pieces: Sequence[Sequence[Run]]) -> Sequence[Run]:
    """Join the runs of all pieces; where every piece is a table, into one table."""
    tables = [piece for piece in pieces if isinstance(piece, Runs)]
    if len(tables) < len(pieces):
        return [run for piece in pieces for run in piece]
    return tables[0] if len(tables) == 1 else Runs.joined(tables)


def in_detail(sweep: Sweep, parts: Sequence[Part], slot: int, spread: Spread) -> Iterator[RunResult]:
    """Run each part's policy from one start and keep every slot; `slot` is counted as truths are."""
    every = [
        Piece(part.policy, part.pool, (slot + (0 if part.pool is None else sweep.pools[part.pool].ahead),))
        for part in parts
    ]
    return spread.each(do_in_detail, sweep, every)


def do_in_detail(sweep: Sweep, piece: Piece) -> RunResult:
    (start,) = piece.starts
    if piece.pool is None:
        assert sweep.options is not None
        pools = sweep.options.pools
        return result_of(_run_over_pools(sweep, piece.policy, start), sweep.job, pools[0], pools)
    place, name = sweep.pools[piece.pool], sweep.name(piece.policy, piece.pool)
    policy = None if piece.policy is None else sweep.policies[piece.policy]
    run = run_in_detail(
        place.job, place.pool, policy, start, name=name, setting=sweep.setting(piece.pool), among=sweep.starts
    )
    return result_of(run, sweep.job, place.pool)
