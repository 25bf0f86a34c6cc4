"""What becomes of work that is left at the deadline: the same in a plain run, a compiled one and live."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.core.types import AFTER_DEADLINE, AfterDeadline, Job
from slacktide.engine.failures_and_ends import spent
from slacktide.engine.job.job_context import make_context
from slacktide.journal.events import Decided, Ended
from slacktide.market.base import Market, Pool
from slacktide.policies.base import policies
from slacktide.results.run import result_of
from slacktide.simulation import batch, plain
from slacktide.simulation.batch import run_in_detail
from tests import build
from tests.unit.engine.test_engine import Bench, context

SLOTS = 40


def job(after: AfterDeadline, **numbers: object) -> Job:
    usual: dict[str, object] = {"work_gpu_hours": 20.0, "deadline_hours": 2.25, "widths": (1, 2, 4)}
    return build.job(**{**usual, "restart_hours": 0.1, "after_deadline": after, **numbers})


def market() -> Pool:
    gpus = np.tile([2, 2, 0, 4], SLOTS // 4)
    return build.pool(1.0, 4.0, gpus)


@pytest.mark.parametrize("after", AFTER_DEADLINE)
@pytest.mark.parametrize("billing", ["second", "slot"])
def test_plain_is_compiled_after_the_deadline(after: AfterDeadline, billing: str) -> None:
    task, pool, policy = job(after, billing=billing), market(), policies.make("uniform-progress")
    run, (found,) = plain.run(task, pool, policy), batch.run_compiled(task, pool, policy, [0])
    assert run.cost_usd == pytest.approx(found.cost_usd)
    assert not run.on_time
    assert run.finish_hours == pytest.approx(found.finish_hours)
    late = [record for record in run.slots if record.slot * 0.5 >= 2.25]
    if after == "stop":
        assert (run.finish_hours, late) == (math.inf, [])
        assert run.slots[-1].lived.stretch.to_hours == pytest.approx(2.25, abs=1e-5)
        assert result_of(run, task, pool).status == "deadline_missed"
    else:
        kinds = {(record.spot_gpus, record.on_demand_gpus) for record in late}
        assert kinds == ({(0, 4)} if after == "finish-fast" else {(2, 0), (4, 0), (0, 1)})
        assert math.isfinite(run.finish_hours)


def test_who_finishes_cheaply_pays_less_and_ends_on_any_market() -> None:
    pool, policy = market(), policies.make("uniform-progress")
    fast, cheap = (plain.run(job(after), pool, policy) for after in AFTER_DEADLINE[:2])
    assert cheap.cost_usd < fast.cost_usd
    assert cheap.finish_hours > fast.finish_hours
    fickle = plain.run(job("finish-cheaply", checkpoint_hours=math.inf, restart_hours=0.7), pool, policy)
    assert math.isfinite(fickle.finish_hours)


def test_the_clairvoyant_ends_what_it_begins() -> None:
    assert math.isfinite(run_in_detail(job("stop"), market(), None, 0, name="clairvoyant").finish_hours)


@pytest.mark.parametrize("after", AFTER_DEADLINE)
def test_the_engine_does_what_the_back_test_does(after: AfterDeadline) -> None:
    task, pool, policy = job(after), market(), policies.make("uniform-progress")
    run = plain.run(task, pool, make_context(task, Market((pool,)), pool, policy, 0).policy)
    bench = Bench(make_context(task, Market((pool,)), pool, policy, 0))
    bench.step(*np.arange(0.0, 19.5, 0.5))
    (ended,) = bench.events(Ended)
    assert isinstance(ended, Ended)
    assert bench.record.money.bill.cost_usd == pytest.approx(run.cost_usd)
    assert ended.finish_hours == pytest.approx(run.finish_hours)
    assert ended.status == "deadline_missed"
    assert ("after_deadline" in ended.why) == (after == "stop")


def test_real_workers_are_stopped_at_the_deadline() -> None:
    bench = Bench(context(work_gpu_hours=39.0, deadline_hours=10.0, after_deadline="stop"))
    bench.backend.finished, bench.backend.gone = False, False
    bench.step(*np.arange(0.0, 10.0, 0.5), 9.9)
    assert not bench.events(Ended)
    assert bench.backend.orders[-1].until_hours == 10.0, "whoever holds them lets go by itself"
    bench.step(10.01)
    assert bench.record.requests.ending == "deadline_missed"
    last = bench.events(Decided)[-1]
    assert "after_deadline" in last.why
    bench.backend.gone = True
    bench.step(10.02)
    assert bench.record.status == "deadline_missed"


def test_a_job_that_is_taken_up_after_its_deadline_is_not_begun_again() -> None:
    bench = Bench(context(work_gpu_hours=39.0, after_deadline="stop"))
    bench.step(0.0, 0.2)
    bench.engine.release()
    bench.step(0.3, 0.4)
    bench.reopened().step(10.5)
    (ended,) = bench.events(Ended)
    assert isinstance(ended, Ended)
    assert ended.status == "deadline_missed"


def test_a_stop_at_the_greatest_cost_says_the_limit_the_reserve_and_what_was_spent() -> None:
    said = spent(60.0, 57.5)
    assert said == "max_cost allows $60.00, and $57.50 was spent; the other $2.50 are reserved for stopping"
    assert spent(25.0, 0.0, 103.3) == (
        "max_cost allows $25.00, and $0.00 was spent; "
        "the reserve for stopping would be $103.30, and only $25.00 are left"
    )
    bench = Bench(context(max_cost_usd=3.0, after_deadline="stop"))
    bench.step(*np.arange(0.0, 10.0, 0.5))
    (ended,) = bench.events(Ended)
    assert isinstance(ended, Ended)
    assert (ended.status, ended.why) == ("budget_exhausted", "max_cost allows $3.00, and $3.00 was spent")


def test_other_words_are_refused() -> None:
    with pytest.raises(InputError, match="after_deadline must be 'stop', 'finish-cheaply' or 'finish-fast'"):
        dataclasses.replace(job("stop"), after_deadline="wait")  # type: ignore[arg-type]
