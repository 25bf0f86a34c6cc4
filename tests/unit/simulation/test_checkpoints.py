"""How often to save: counted losses, Young's rule, and the sentence of a plan."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime

import numpy as np
import pytest

import slacktide
from slacktide.core.types import Allocation, Job
from slacktide.market.base import Pool
from slacktide.report.text.sentences.plan import advice_words
from slacktide.report.text.tables.plan import page
from slacktide.report.wire.plan import as_json
from slacktide.report.words import about
from slacktide.results.plan import HeldAt, JobPlan, Outcomes, Outlook, PoolBill, Range
from slacktide.simulation.plan.what_if import advise, hours_between_losses, usual_spot_gpus

JOB = Job(work_gpu_hours=20.0, deadline_hours=12.0, widths=(1, 2, 3, 4), checkpoint_hours=0.5)


def pool(*gpus: int) -> Pool:
    count = len(gpus)
    return Pool(
        name="zone",
        start=datetime(2025, 1, 1, tzinfo=UTC),
        slot_hours=0.5,
        spot_gpus=np.array(gpus, dtype=np.int64),
        spot_usd_per_gpu_hour=np.full(count, 2.0),
        on_demand_usd_per_gpu_hour=np.full(count, 10.0),
    )


def held(*spot: float) -> list[HeldAt]:
    return [HeldAt(float(hour), gpus, 0.0) for hour, gpus in enumerate(spot)]


def test_a_loss_is_a_fall_below_the_width() -> None:
    past = pool(4, 4, 2, 4, 4, 4, 0, 4, 4, 4)
    assert hours_between_losses(past, 4) == pytest.approx(7 * 0.5 / 2)  # of nine slots with a successor seven
    assert hours_between_losses(past, 2) == pytest.approx(8 * 0.5 / 1)
    assert hours_between_losses(pool(4, 4, 4), 4) is None
    assert hours_between_losses(pool(2, 1, 2), 4) is None


def test_more_gpus_are_never_lost_less_often() -> None:
    past = slacktide.open_market("synthetic:h100?days=30").pools[0]
    rates = [hours_between_losses(past, gpus) for gpus in (1, 4, 8)]
    known = [rate for rate in rates if rate is not None]
    assert len(known) == 3
    assert known == sorted(known, reverse=True)


def test_the_width_is_where_spot_is_spent() -> None:
    assert usual_spot_gpus(held(0, 4, 4, 0)) == 4
    assert usual_spot_gpus(held(0.0, 0.2)) == 1
    assert usual_spot_gpus(held(0, 0)) == 0


def test_the_advice_costs_least() -> None:
    past, takes = pool(*([4] * 39 + [0]) * 5), 1 / 60
    advice = advise(JOB, past, held(4), takes)
    assert advice is not None
    between = advice.hours_between_losses
    assert between == pytest.approx(0.5 * 39)

    def wasted(every: float) -> float:  # per hour: saving, and half an interval with every loss
        return takes / every + every / 2 / between

    best = min(np.linspace(0.05, 5, 2000), key=wasted)
    assert advice.every_hours == pytest.approx(best, rel=0.01)


def test_without_spot_or_losses_there_is_no_advice() -> None:
    assert advise(JOB, pool(4, 0, 4), held(0)) is None
    assert advise(JOB, pool(4, 4, 4), held(4)) is None


def test_a_wider_plan_than_the_pool_ever_was_is_asked_at_what_there_was() -> None:
    advice = advise(JOB, pool(2, 0, 2, 2, 0), held(8))
    assert advice is not None
    assert advice.spot_gpus == 2


@pytest.mark.parametrize(
    ("hours", "text"),
    [(0.0, "0s"), (7.4 / 3600, "7s"), (32 / 3600, "32s"), (0.4, "24m"), (9.63, "9h40m"), (100.2, "4d6h")],
)
def test_rough_times_are_said_roughly(hours: float, text: str) -> None:
    assert about(hours) == text


def plan_of(job: Job, takes_hours: float | None) -> JobPlan:
    one = Range(1.0, 1.0, 1.0)
    found = Outcomes(1, one, one, 1.0, 1.0, 1.0, 1.0, 0.0)
    return JobPlan(
        job=job,
        market="a test",
        pool="zone",
        policy="on-demand",
        outlooks=(Outlook("on-demand", found, found),),
        pools=(PoolBill("zone", 1.0),),
        first=Allocation(),
        first_gpus=(0, 0),
        gpus=tuple(held(4)),
        assumptions=(),
        checkpoints=advise(job, pool(*([4] * 39 + [0]) * 5), held(4), takes_hours),
    )


def test_a_plan_says_it_in_one_sentence() -> None:
    plan = plan_of(JOB, 1 / 60)
    said = advice_words(plan)
    assert said == (
        "Save a checkpoint about every 48m: this market takes back some of 4 spot GPUs every 20h on average, "
        "and saving takes 1m; the job file says every 30m."
    )
    assert said in page(plan)
    told = as_json(plan)["checkpoints"]
    assert told["advice"] == said
    assert told["every_hours"] == pytest.approx(math.sqrt(2 / 60 * 19.5))
    assert (told["spot_gpus"], told["takes_assumed"]) == (4, False)


@pytest.mark.parametrize(
    ("every_hours", "said"),
    [(0.0, "does not say how often."), (math.inf, "has no checkpoints."), (2.0, "says every 2h.")],
)
def test_the_sentence_says_what_the_file_says(every_hours: float, said: str) -> None:
    words = advice_words(plan_of(dataclasses.replace(JOB, checkpoint_hours=every_hours), None))
    assert words.endswith(said)
    assert "saving is assumed to take 30s" in words


def test_a_plan_without_losses_says_nothing() -> None:
    plan = dataclasses.replace(plan_of(JOB, None), checkpoints=None)
    assert advice_words(plan) == ""
    assert "checkpoints" not in as_json(plan)
