"""Truths: what `--truth` takes, what it draws, and what becomes of a job."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.core.speedup import Amdahl
from slacktide.core.types import Job, Phase
from slacktide.physics.truth import AS_SAID, RandomTruth, Truth, parse_truth
from slacktide.report import words

JOB = Job(work_gpu_hours=40.0, deadline_hours=12.0, widths=tuple(range(1, 9)), speedup=Amdahl(0.97))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("work=1.5,speed=0.8", Truth(1.5, 0.8)),
        ("work=1.5", Truth(1.5)),
        (" speed = 0.8 ", Truth(speed=0.8)),
        ("later=0.85", Truth(later=0.85)),
        ("random", RandomTruth()),
        ("random,seed=7", RandomTruth(seed=7)),
        ("random,speed=0.8..1.25", RandomTruth(speed=(0.8, 1.25))),
        ("work=0.5..2,seed=3", RandomTruth(seed=3)),
        ("speed=0.8..1", RandomTruth(work=(1.0, 1.0), speed=(0.8, 1.0))),
        ("work=1.5,speed=0.8..1", RandomTruth(work=(1.5, 1.5), speed=(0.8, 1.0))),
    ],
)
def test_what_the_option_takes(text: str, meant: Truth | RandomTruth) -> None:
    assert parse_truth(text) == meant


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "--truth must be factors such as"),
        ("fast=2", "its keys are work, speed, later, seed; got 'fast=2'"),
        ("work", "--truth must be factors such as"),
        ("random=1", "--truth must be factors such as"),
        ("work=much", "work must be a number such as 1.5"),
        ("work=..2", "work must be a number such as 1.5"),
        ("work=0", "the truth's work must be in 0.01..100, got 0"),
        ("work=nan", "the truth's work must be in 0.01..100, got nan"),
        ("speed=0.5..1000", "the truth's speed must be in 0.01..100, got 1000"),
        ("work=2..0.5", "the truth's work must rise from its first bound to its second, got 2..0.5"),
        ("work=1.5,work=2", "--truth must name work once"),
        ("work=1.5,seed=3", "a seed needs something random to go with it"),
        ("random,seed=-1", "seed must be a whole number >= 0, got '-1'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_sentence(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_truth(text)
    assert words in str(refused.value)


def test_a_start_meets_the_same_truth_each_time_and_others_meet_others() -> None:
    truth = RandomTruth(speed=(0.8, 1.25), seed=5)
    assert truth.at(17) == truth.at(17)
    assert truth.at(17) != truth.at(18)
    assert truth.at(17) != RandomTruth(speed=(0.8, 1.25), seed=6).at(17)
    with pytest.raises(InputError, match="seed must be >= 0"):
        RandomTruth(seed=-1)


def test_draws_are_even_on_a_logarithmic_scale_within_the_bounds() -> None:
    drawn = np.array([math.log2(RandomTruth().at(start).work) for start in range(2000)])
    assert drawn.min() >= -1.0
    assert drawn.max() <= 1.0
    assert np.histogram(drawn, 4, (-1.0, 1.0))[0] == pytest.approx(500, rel=0.15)
    assert all(RandomTruth().at(start).speed == 1.0 for start in range(10))


def test_a_fixed_truth_is_the_same_from_every_start() -> None:
    assert Truth(1.5).at(3) is Truth(1.5).at(3) or Truth(1.5).at(3) == Truth(1.5)


def test_a_pace_that_changes_is_another_in_the_second_half_of_the_work() -> None:
    true = Truth(work=2.0, later=0.5).of(JOB)
    assert [part.work_gpu_hours for part in true.phases] == [20.0, 20.0]
    assert true.work_hours(8) == pytest.approx(JOB.work_hours(8) * 2.0 * 1.5)


def test_a_job_of_phases_changes_its_pace_inside_one() -> None:
    phased = Job(
        phases=(Phase(10.0), Phase(50.0, Amdahl(0.9)), Phase(20.0)), deadline_hours=90.0, widths=(1, 2, 4)
    )
    true = Truth(later=0.8).of(phased)
    assert [part.work_gpu_hours for part in true.phases] == [10.0, 30.0, 20.0, 20.0]
    assert [part.speedup(4) for part in true.phases] == pytest.approx(
        [4.0, Amdahl(0.9)(4), 0.8 * Amdahl(0.9)(4), 0.8 * 4.0]
    )


def test_the_truth_is_said_in_a_sentence() -> None:
    assert words.truth(JOB, AS_SAID) == ""
    assert words.truth(JOB, Truth(1.5, 0.8)) == (
        "The job was not what its file says: 1.5 times the work, 0.8 times as fast on 8 GPUs. "
        "The file's figures were used, because it states no spread."
    )
    spread = Job(work_gpu_hours=4.0, deadline_hours=9.0, widths=(1,), work_spread=0.3)
    assert words.truth(spread, RandomTruth(seed=2)) == (
        "The job was not what its file says, and drawn for each start (seed 2): 0.5 to 2 times the work. "
        "Its pace was measured."
    )
