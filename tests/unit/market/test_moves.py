"""What a move costs: by where pools are, which their names tell."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slacktide.core.errors import InputError
from slacktide.market.base import Moves
from slacktide.market.pools.places import (
    assumed_moves,
    location_of,
    move_hours,
    move_matrices,
    move_usd_per_gb,
)


@pytest.mark.parametrize(
    ("pool", "region", "continent"),
    [
        ("us-central1-a", "us-central1", "north-america"),
        ("gcp/us-central1-a", "us-central1", "north-america"),
        ("us-central1", "us-central1", "north-america"),
        ("northamerica-northeast1-b", "northamerica-northeast1", "north-america"),
        ("europe-west4-a", "europe-west4", "europe"),
        ("asia-southeast1-b/a3-highgpu-8g", "asia-southeast1", "asia"),
        ("australia-southeast1-c", "australia-southeast1", "oceania"),
        ("us-east-1c", "us-east-1", "north-america"),
        ("US-EAST-1C", "us-east-1", "north-america"),
        ("us-east-1", "us-east-1", "north-america"),
        ("aws/us-east-1c/p3.2xlarge", "us-east-1", "north-america"),
        ("us-east-1c/p5.48xlarge/Linux/UNIX", "us-east-1", "north-america"),
        ("us-west-2a_v100_1", "us-west-2", "north-america"),
        ("us-west-2-lax-1a", "us-west-2", "north-america"),
        ("us-gov-west-1a", "us-gov-west-1", "north-america"),
        ("ap-southeast-2b", "ap-southeast-2", "oceania"),
        ("ap-southeast-1b", "ap-southeast-1", "asia"),
        ("sa-east-1a", "sa-east-1", "south-america"),
        ("me-central-1a", "me-central-1", "middle-east"),
        ("eastus2-1", "eastus2", "north-america"),
        ("azure/westeurope-3", "westeurope", "europe"),
        ("germanywestcentral", "germanywestcentral", "europe"),
        ("southeastasia-2", "southeastasia", "asia"),
        ("southafricanorth", "southafricanorth", "africa"),
    ],
)
def test_where_a_pool_is_stands_in_its_name(pool: str, region: str, continent: str) -> None:
    assert (location_of(pool).region, location_of(pool).continent) == (region, continent)


@pytest.mark.parametrize("pool", ["h100-1", "v100-2", "zone-a1", "lab", "us", "my cluster", "a/b", "us-1"])
def test_an_unknown_name_is_a_region_of_its_own_on_no_known_continent(pool: str) -> None:
    assert (location_of(pool).region, location_of(pool).continent) == (pool, "")


MOVES = Moves(0.001, 0.02, 0.08, 5.0, (("us-east-1", "us-east-2", 0.01),))


@pytest.mark.parametrize(
    ("first", "second", "usd_per_gb", "moved"),
    [
        ("us-east-1a", "us-east-1a", 0.0, False),
        ("us-east-1a", "us-east-1b", 0.001, False),
        ("us-east-1a", "us-east-2a", 0.01, True),
        ("us-east-1a", "us-west-2a", 0.02, True),
        ("us-east-1a", "eu-west-1a", 0.08, True),
        ("h100-1", "h100-2", 0.02, True),
        ("h100-1", "eu-west-1a", 0.02, True),
    ],
)
def test_a_move_costs_by_region_and_continent_both_ways(
    first: str, second: str, usd_per_gb: float, moved: bool
) -> None:
    for one, other in ((first, second), (second, first)):
        assert move_usd_per_gb(MOVES, one, other) == pytest.approx(usd_per_gb)
        assert move_hours(MOVES, 50.0, one, other) == pytest.approx(50.0 * 8 / 5 / 3600 if moved else 0.0)


def test_a_pair_may_be_one_region() -> None:
    moves = Moves(pairs=(("us-east-1", "us-east-1", 0.01),))
    assert move_usd_per_gb(moves, "us-east-1a", "us-east-1b") == pytest.approx(0.01)
    assert move_usd_per_gb(moves, "us-east-1a", "us-east-1a") == 0.0


def test_an_infinite_speed_takes_no_time() -> None:
    assert move_hours(Moves(gbit_per_s=math.inf), 50.0, "us-east-1a", "eu-west-1a") == 0.0


def test_matrices_are_by_from_and_to() -> None:
    names = ["us-east-1a", "us-east-1b", "us-east-2a", "eu-west-1a"]
    usd, hours = move_matrices(MOVES, 50.0, names)
    assert usd.shape == hours.shape == (4, 4)
    for row, first in enumerate(names):
        for column, second in enumerate(names):
            assert usd[row, column] == 50.0 * move_usd_per_gb(MOVES, first, second)
            assert hours[row, column] == move_hours(MOVES, 50.0, first, second)
    assert np.array_equal(np.diag(usd), np.zeros(4))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"within_region_usd_per_gb": -1.0}, "within_region_usd_per_gb must be >= 0 and finite, got -1"),
        ({"between_regions_usd_per_gb": math.nan}, "between_regions_usd_per_gb must be"),
        ({"between_continents_usd_per_gb": math.inf}, "between_continents_usd_per_gb must be"),
        ({"gbit_per_s": 0.0}, "gbit_per_s must be > 0, got 0"),
        ({"gbit_per_s": math.nan}, "gbit_per_s must be > 0"),
        ({"pairs": (("a", "b", -0.1),)}, "between a and b must be >= 0 and finite, got -0.1"),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Moves(**wrong)  # type: ignore[arg-type]


def test_the_sentence_names_only_what_was_not_given() -> None:
    assert assumed_moves(Moves()) == (
        "Moving a checkpoint to another pool is assumed to cost 0 USD per GB within a region, 0.02 USD per "
        "GB between regions and 0.08 USD per GB between continents and to go at 5 Gbit/s."
    )
    given = ("within_region_usd_per_gb", "between_regions_usd_per_gb", "between_continents_usd_per_gb")
    assert (
        assumed_moves(Moves(), given) == "Moving a checkpoint to another pool is assumed to go at 5 Gbit/s."
    )
    assert assumed_moves(Moves(), (*given, "gbit_per_s")) == ""
