"""Which pools of a market a job may use."""

from __future__ import annotations

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.core.types import Job, PoolChoice
from slacktide.market.base import Market, Pool
from slacktide.market.pools.places import UsablePool, places_of
from tests import build


def market(**gpus: str) -> Market:
    ones = np.ones(3)
    return Market(
        tuple(
            Pool(name.replace("__", "/").replace("_", "-"), 0.5, ones, ones, ones.astype(np.int64), gpu=gpu)
            for name, gpu in gpus.items()
        ),
        "m",
    )


def job(*choices: PoolChoice) -> Job:
    return Job(work_gpu_hours=4.0, widths=(1, 2, 4, 8), pools=choices)


def test_a_job_without_choices_may_use_every_pool_with_its_gpu() -> None:
    there = market(us_central1_a="H100", us_east_1a="V100", lab="")
    every = (1, 2, 4, 8)
    assert places_of(job(), "h100", there) == (
        UsablePool("us-central1-a", every, 1.0),
        UsablePool("lab", every, 1.0),
    )
    assert [place.pool for place in places_of(job(), "GPU", there)] == list(there)
    assert [place.pool for place in places_of(job(), "", there)] == list(there)


def test_the_first_choice_that_fits_counts_and_the_order_is_the_markets() -> None:
    there = market(us_east5_b="A100", us_central1_a="H100", us_central1_b="H100")
    choices = (
        PoolChoice("H100", "gcp/us-central1-a", (8,), 1.0),
        PoolChoice("H100", "", (1, 2), 0.9),
        PoolChoice("A100", "", (), 0.5),
    )
    assert places_of(job(*choices), "H100", there) == (
        UsablePool("us-east5-b", (1, 2, 4, 8), 0.5),
        UsablePool("us-central1-a", (8,), 1.0),
        UsablePool("us-central1-b", (1, 2), 0.9),
    )


@pytest.mark.parametrize(
    ("infra", "pools"),
    [
        ("", {"us-central1-a", "us-central1-b", "us-east-1c/p5.48xlarge", "lab"}),
        ("*", {"us-central1-a", "us-central1-b", "us-east-1c/p5.48xlarge", "lab"}),
        ("gcp", {"us-central1-a", "us-central1-b"}),
        ("GCP/*", {"us-central1-a", "us-central1-b"}),
        ("gcp/us-central1", {"us-central1-a", "us-central1-b"}),
        ("gcp/us-central1/us-central1-b", {"us-central1-b"}),
        ("gcp/us-central1-b", {"us-central1-b"}),
        ("gcp/*/us-central1-b", {"us-central1-b"}),
        ("*/us-central1", {"us-central1-a", "us-central1-b"}),
        ("us-central1", {"us-central1-a", "us-central1-b"}),
        ("us-central1-a", {"us-central1-a"}),
        ("aws", {"us-east-1c/p5.48xlarge"}),
        ("aws/us-east-1/us-east-1c", {"us-east-1c/p5.48xlarge"}),
        ("us-east-1c/p5.48xlarge", {"us-east-1c/p5.48xlarge"}),
        ("lab", {"lab"}),
    ],
)
def test_infra_is_matched_by_the_parts_of_a_name(infra: str, pools: set[str]) -> None:
    there = Market(
        (
            *market(us_central1_a="H100", us_central1_b="H100", lab="H100").pools,
            build.pool(1.0, 1.0, 1, slots=3, name="us-east-1c/p5.48xlarge", gpu="H100"),
        )
    )
    assert {place.pool for place in places_of(job(PoolChoice("H100", infra)), "H100", there)} == pools


@pytest.mark.parametrize("infra", ["aws", "gcp/us-east5", "us-central1-c", "aws/us-central1-a", "us-central"])
def test_no_place_is_refused_with_the_pools_there_are(infra: str) -> None:
    there = market(us_central1_a="H100", lab="")
    with pytest.raises(InputError, match=rf"requested H100 in {infra}, got us-central1-a \(H100\), lab;"):
        places_of(job(PoolChoice("H100", infra)), "H100", there)


def test_no_pool_of_the_gpu_is_refused() -> None:
    with pytest.raises(InputError, match=r"m: the job must fit at least one pool, requested A100, got"):
        places_of(job(), "A100", market(us_central1_a="H100", us_central1_b="V100"))


def test_a_market_of_one_other_gpu_type_is_used_as_if_it_were_the_own() -> None:
    there = market(us_central1_a="H100", us_central1_b="H100")
    assert [place.pool for place in places_of(job(), "A100", there)] == list(there)
    with pytest.raises(InputError, match="requested A100"):
        places_of(job(PoolChoice("A100")), "A100", there)
