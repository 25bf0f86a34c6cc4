"""How much work jobs have, from finished ones and from those that are present."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slacktide.budget.estimates.sizes import Fading, Sizes, kaplan_meier
from slacktide.core.arrays import Floats


def sizes_of(finished: Floats, present: Floats) -> Sizes:
    sizes = Sizes()
    for job, work in enumerate(np.concatenate((finished, present)).tolist()):
        sizes.arrived(job)
        sizes.progressed(job, work)
        if job < len(finished):
            sizes.ended(job)
    return sizes


def slow_mean(finished: Floats, present: Floats) -> float:
    """Return the area under the product-limit estimate, one job after another, up to the greatest size."""
    jobs = sorted([(size, 0) for size in finished] + [(size, 1) for size in present])
    share, area, before = 1.0, 0.0, 0.0
    for place, (size, is_present) in enumerate(jobs):
        area += share * (size - before)
        before = size
        if not is_present:
            share *= 1.0 - 1.0 / (len(jobs) - place)
    return area


def test_where_all_are_finished_the_mean_is_their_mean() -> None:
    sizes = np.random.default_rng(1).lognormal(0.0, 1.0, 500)
    assert kaplan_meier(sizes, np.ones(500), np.empty(0)).mean_gpu_hours == pytest.approx(sizes.mean())


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_product_limit_estimate(seed: int) -> None:
    rng = np.random.default_rng(seed)
    present = rng.exponential(size=20)
    finished = np.append(rng.exponential(size=30), present.max() + 1.0)
    found = kaplan_meier(finished, np.ones(len(finished)), present)
    assert found.mean_gpu_hours == pytest.approx(slow_mean(finished, present))


def test_long_jobs_that_are_still_running_are_not_missed() -> None:
    """A stream that one looks at before its long jobs are done: the mean of finished jobs is too small."""
    rng = np.random.default_rng(2)
    size, room = rng.exponential(size=4000), rng.uniform(0.0, 3.0, 4000)
    done = size <= room
    assert size[done].mean() < 0.75
    found = kaplan_meier(size[done], np.ones(int(done.sum())), room[~done])
    assert found.mean_gpu_hours == pytest.approx(1.0, rel=0.06)


def test_what_is_left_of_exponential_jobs_is_always_the_mean_and_of_equal_ones_the_rest() -> None:
    exponential = np.random.default_rng(3).exponential(size=20_000)
    left = kaplan_meier(exponential, np.ones(20_000), np.empty(0)).left(np.array([0.0, 0.5, 1.0, 2.0]))
    assert left == pytest.approx(1.0, rel=0.1)
    equal = kaplan_meier(np.full(50, 2.0), np.ones(50), np.array([0.5]))
    assert equal.left(np.array([0.0, 0.5, 1.5])) == pytest.approx([2.0, 1.5, 0.5])


def test_a_job_larger_than_all_before_is_taken_to_have_half_as_much_again_or_the_mean() -> None:
    found = kaplan_meier(np.array([1.0, 3.0]), np.ones(2), np.array([10.0, 3.5]))
    assert found.left(np.array([20.0])) == pytest.approx([max(10.0, found.mean_gpu_hours)])
    assert found.mean_gpu_hours > 5.0


def test_the_first_job_tells_something_before_it_is_done() -> None:
    sizes = Sizes()
    assert sizes.survival().mean_gpu_hours == 0.0
    sizes.arrived(7)
    assert sizes.survival().mean_gpu_hours == 0.0
    sizes.progressed(7, 2.0)
    assert sizes.survival().mean_gpu_hours == pytest.approx(3.0)
    sizes.ended(7)
    assert sizes.survival().mean_gpu_hours == pytest.approx(2.0)


def test_bins_change_the_mean_by_nothing_and_what_is_left_by_little() -> None:
    rng = np.random.default_rng(4)
    finished, present = rng.lognormal(0.0, 1.0, 300), rng.uniform(0.0, 1.0, 40)
    binned, exact = sizes_of(finished, present).survival(), kaplan_meier(finished, np.ones(300), present)
    assert binned.mean_gpu_hours == pytest.approx(exact.mean_gpu_hours, rel=0.05)
    assert binned.left(present) == pytest.approx(exact.left(present), rel=0.15)
    assert len(binned.share) < 41 + 90


def test_what_is_written_down_is_all_that_is_known() -> None:
    sizes = sizes_of(np.random.default_rng(5).exponential(size=60), np.array([0.3, 0.0]))
    for one in (sizes, Sizes()):
        twin = Sizes()
        twin.recall(json.loads(json.dumps(one.remember())))
        assert twin == one


def test_what_is_long_past_fades() -> None:
    fading = Fading(10.0)
    for amount in [5.0] * 200 + [1.0] * 100:
        fading.add(0, amount)
        fading.add(1, 1.0)
        fading.age()
    assert fading.get(0) / fading.get(1) == pytest.approx(1.0, rel=1e-3)
    for _ in range(5000):
        fading.age()
    assert np.isfinite(fading.weight)
    assert fading.sums == {}
