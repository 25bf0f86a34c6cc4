"""The autoscaler in the manner of Pollux: shares are the best, it learns by doubling, it heeds restarts."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from slacktide.allocators.view import Finished, FleetView, Progressed
from slacktide.budget.classes import JobClass
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream
from slacktide.core.errors import InputError
from slacktide.core.speedup import Power
from slacktide.core.types import Job
from slacktide.results.stream import StreamRun
from slacktide.simulation.fleet.run import RunOptions, run_events
from slacktide_papers.budget.goodput import ROUND_HOURS, GoodputAutoscaler, Seen
from slacktide_papers.budget.sharing import best_shares, widths_at

WIDTHS = np.array([1, 2, 4])


def test_shares_are_those_of_trying_everything() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        worth = rng.normal(size=(3, 3))
        worth[rng.random((3, 3)) < 0.2] = -np.inf
        shares = best_shares(worth, np.exp(worth), WIDTHS, 9)
        for gpus in range(10):
            ways = [way for way in product(range(3), repeat=3) if WIDTHS[list(way)].sum() <= gpus]
            best = max((worth[range(3), way].sum() for way in ways), default=-np.inf)
            assert shares.worth[gpus] == pytest.approx(best)
            if best > -np.inf:
                found = widths_at(shares, WIDTHS, gpus)
                options = np.searchsorted(WIDTHS, found)
                assert found.sum() <= gpus
                assert worth[range(3), options].sum() == pytest.approx(best)
                assert np.exp(worth[range(3), options]).sum() == pytest.approx(shares.speed[gpus])


def fleet(restart_hours: float = 0.0, work_gpu_hours: float = 4.0) -> Fleet:
    job = Job(
        work_gpu_hours=work_gpu_hours,
        speedup=Power(0.8),
        widths=(1, 2, 4, 8, 16),
        restart_hours=restart_hours,
    )
    return Fleet((JobClass(job, 1.0),), node_gpus=4)


def run(
    rule: GoodputAutoscaler, known: Fleet, arrivals: tuple[float, ...] = (0.001, 0.5)
) -> tuple[StreamRun, list[tuple[float, list[int]]]]:
    """Run some jobs; return every change of widths, too."""
    count = len(arrivals)
    seen: list[tuple[float, list[int]]] = []

    def watch(view: FleetView, widths: np.typing.NDArray[np.int64]) -> None:
        if len(widths) and (not seen or seen[-1][1] != widths.tolist()):
            seen.append((view.now_hours, widths.tolist()))

    stream = Stream(np.array(arrivals), np.zeros(count, dtype=np.int64), np.ones(count))
    return run_events(stream, known, rule, RunOptions(watch=watch, plain=True)), seen


def test_it_decides_once_a_minute_and_a_new_job_waits_for_that() -> None:
    _, seen = run(GoodputAutoscaler(0.6, learns=False), fleet())
    assert seen[0] == (0.001, [0])
    assert seen[1][0] == pytest.approx(ROUND_HOURS)
    assert seen[1][1][0] > 0


def test_who_learns_begins_on_one_gpu_and_doubles() -> None:
    _, seen = run(GoodputAutoscaler(0.5), fleet(), (0.001, 9.0))
    alone = [widths[0] for hours, widths in seen if hours < 1 and widths[0] > 0]
    assert alone[:3] == [1, 2, 4]
    _, seen = run(GoodputAutoscaler(0.5, learns=False), fleet(), (0.001, 9.0))
    assert seen[1][1][0] > 4


def test_the_less_efficient_it_may_be_the_more_it_rents() -> None:
    bills = [run(GoodputAutoscaler(e, learns=False), fleet())[0].average_gpus for e in (0.9, 0.6, 0.5)]
    assert bills == sorted(bills)
    assert bills[0] < bills[-1]


def test_who_knows_that_restarts_are_long_resizes_less() -> None:
    arrivals = tuple(0.15 * number + 0.001 for number in range(12))
    known = fleet(restart_hours=300 / 3600, work_gpu_hours=2.0)
    blind, aware = (
        run(GoodputAutoscaler(0.7, learns=False, restart_hours=hours), known, arrivals)[0]
        for hours in (30 / 3600, None)
    )
    assert aware.resizes < blind.resizes
    assert aware.mean_response_hours < blind.mean_response_hours


def test_what_it_knows_can_be_written_down() -> None:
    begun = GoodputAutoscaler(0.5).begin(fleet())
    begun.learn(Progressed(0.1, 7, 0, 0, 4, 0.1, 0.3))
    begun.seen[7].restarts, begun.round = 2, 6
    other = GoodputAutoscaler(0.5).begin(fleet())
    other.recall(json.loads(json.dumps(begun.remember())))
    assert (other.round, other.seen) == (6, {7: Seen(4, 2)})
    other.learn(Finished(0.2, 7, 0))
    assert not other.seen
    assert begun.seen


@pytest.mark.parametrize(
    ("wrong", "match"), [({"efficiency": 0.0}, "efficiency"), ({"restart_hours": -1.0}, "restart_hours")]
)
def test_numbers_that_cannot_be_meant_are_refused(wrong: dict[str, float], match: str) -> None:
    with pytest.raises(InputError, match=match):
        GoodputAutoscaler(**{"efficiency": 0.5, **wrong})  # type: ignore[arg-type]


def test_every_job_is_done_and_the_cluster_is_empty_afterwards() -> None:
    done, _ = run(GoodputAutoscaler(0.5), fleet(restart_hours=0.05), (0.001, 0.002, 7.0))
    assert np.isfinite(done.response_hours).all()
    assert done.bill.gpu_hours < 40
