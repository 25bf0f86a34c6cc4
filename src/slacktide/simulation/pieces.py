"""A back-test in pieces, which may be done anywhere and in any order: some starts of one policy in one pool.

What comes of a start does not depend on the other starts of its piece, so how starts are cut changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from slacktide.results.run import Run
from slacktide.results.runs import Runs
from slacktide.solvers.clairvoyant.clairvoyant import Yardstick

LEAST_STARTS = 8
"""Starts of a piece at the least: fewer would be more trouble than work."""
MOST_PIECES = 64
"""Pieces of one policy in one pool at the most: enough to keep many workers busy to the end."""


class Piece(NamedTuple):
    """Some starts of one policy in one pool."""

    pool: str
    policy: str | None
    """None: the clairvoyant."""
    starts: tuple[int, ...]
    few: bool
    """Whether all starts of the pool are so few that compiling is not worth it."""


def cut(pool: str, policy: str | None, starts: Sequence[int], *, few: bool) -> list[Piece]:
    """Cut the starts of a policy in a pool into pieces."""
    size = max(LEAST_STARTS, -(-len(starts) // MOST_PIECES))
    return [Piece(pool, policy, tuple(starts[at : at + size]), few) for at in range(0, len(starts), size)]


def joined(found: Sequence[Sequence[Run]]) -> Sequence[Run]:
    """Put the runs of one policy in one pool together again."""
    tables = [part for part in found if isinstance(part, Runs)]
    if len(tables) < len(found):
        return [run for part in found for run in part]
    return tables[0] if len(tables) == 1 else Runs.joined(tables)


def joined_yardstick(found: Sequence[Yardstick]) -> Yardstick:
    """Put the clairvoyant's pieces together again; where one plan may not be the best, the others spare 0."""
    table = np.concatenate([one.table for one in found])
    if all(one.spare_usd is None for one in found):
        return Yardstick(table, None)
    spares = [np.zeros(len(one.table)) if one.spare_usd is None else one.spare_usd for one in found]
    return Yardstick(table, np.concatenate(spares))
