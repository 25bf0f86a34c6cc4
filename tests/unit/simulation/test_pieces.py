"""How a back-test is cut changes nothing of it."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.core.types import Job
from slacktide.market.source import open_market
from slacktide.physics.truth import RandomTruth
from slacktide.simulation import batch, compare
from slacktide.simulation.batch import joined_yardstick
from slacktide.simulation.sweep import LEAST_STARTS, MOST_PIECES, cut
from slacktide.solvers.clairvoyant.clairvoyant import Yardstick

POOL = open_market("synthetic:h100?days=6&slot=60m&seed=3").pools[0]
NARROW = Job(work_gpu_hours=20.0, deadline_hours=8.0, widths=(1, 2, 4), restart_hours=0.1)
WIDE = Job(work_gpu_hours=900.0, deadline_hours=8.0, widths=tuple(range(1, 201)), restart_hours=0.1)


@pytest.mark.parametrize("count", [1, LEAST_STARTS, 24, 1000, 100_000])
def test_all_starts_are_in_pieces_in_their_order(count: int) -> None:
    pieces = cut("x", 0, range(count))
    assert [start for piece in pieces for start in piece.starts] == list(range(count))
    assert len(pieces) <= MOST_PIECES


@pytest.mark.parametrize("job", [NARROW, WIDE], ids=["grid", "wide"])
def test_the_clairvoyant_is_the_same_in_pieces(job: Job) -> None:
    starts = [0, 40, 20, 60]
    whole = batch.solve_yardstick(job, POOL, starts, among=500)
    parts = [batch.solve_yardstick(job, POOL, some, among=500) for some in (starts[:1], starts[1:])]
    again = joined_yardstick(parts)
    assert again.table.tobytes() == whole.table.tobytes()
    assert (whole.spare_usd is None) == (job is NARROW)
    assert np.array_equal(again.spare_usd, whole.spare_usd)  # type: ignore[arg-type]


def test_plans_that_are_the_best_spare_nothing_where_others_may_not_be() -> None:
    table = np.zeros((2, 7))
    found = joined_yardstick([Yardstick(table, None), Yardstick(table, np.array([1.0, 2.0]))])
    assert found.spare_usd is not None
    assert found.spare_usd.tolist() == [0.0, 0.0, 1.0, 2.0]
    assert joined_yardstick([Yardstick(table, None)]).spare_usd is None


def test_progress_counts_every_start_once() -> None:
    told: list[tuple[int, int]] = []
    compare.compare(
        NARROW,
        POOL,
        ["on-demand", "maximal-spot"],
        starts=range(20),
        truth=RandomTruth(),
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == sorted(told)
    assert told[-1] == (60, 60)
