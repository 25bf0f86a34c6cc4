"""Which reader a file gets, and what a synthetic market may be asked for."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from slacktide.core.errors import InputError, SlacktideError, UnknownNameError
from slacktide.market.formats.reading.samples import COLUMNS
from slacktide.market.source import open_market

TABLE = ",".join(COLUMNS) + "\n2025-10-04T00:00Z,a,1,1,3\n2025-10-04T00:10Z,a,2,1,3\n"
EVENTS = "instance_type,zone_name,ts_utc,spot_usd_h\np5.48xlarge,z,2024-01-13T00:00:00Z,16\n"
TRACE = json.dumps({"metadata": {"gap_seconds": 300, "gpu": "V100"}, "data": [1, 2]})
HISTORY = json.dumps(
    {
        "SpotPriceHistory": [
            {
                "AvailabilityZone": "z",
                "InstanceType": "p5.48xlarge",
                "SpotPrice": "16",
                "Timestamp": "2024-01-13T00:00:00Z",
            }
        ]
    }
)


@pytest.mark.parametrize("name", ["m", "m.csv", "m.txt", "m.dat"])
@pytest.mark.parametrize(
    ("text", "pool"),
    [(TABLE, "a"), (EVENTS, "z/p5.48xlarge"), (TRACE, "m"), (HISTORY, "z/p5.48xlarge"), ("\n" + TABLE, "a")],
)
def test_formats_are_told_by_content(tmp_path: Path, name: str, text: str, pool: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert list(open_market(str(path))) == [pool]
    packed = tmp_path / (name + ".gz")
    packed.write_bytes(gzip.compress(text.encode()))
    assert list(open_market(str(packed))) == [pool]


def test_options_reach_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(
        TABLE + "2025-10-04T00:20Z,a,2,1,3\n2025-10-04T01:00Z,a,2,1,3\n2025-10-04T01:00Z,a,5,1,3\n"
    )
    pool = open_market(str(path), gaps="empty", duplicates="last", slot_hours=0.5).pools[0]
    assert pool.spot_gpus.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (TABLE, {"spot_usd": 1.0}, "spot_usd must not be given for a table"),
        (TRACE, {"spot_gpus": 3}, "spot_gpus must not be given for a SkyPilot trace"),
        (HISTORY, {"spot_usd": 1.0}, "spot_usd must not be given for a price history"),
    ],
)
def test_an_option_of_no_use_is_refused(
    tmp_path: Path, text: str, options: dict[str, float], words: str
) -> None:
    path = tmp_path / "m"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        open_market(str(path), **options)  # type: ignore[arg-type]


def test_json_that_is_neither_is_told_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"prices": []}')
    with pytest.raises(InputError, match="metadata must be an object"):
        open_market(str(path))


def test_a_synthetic_market_is_asked_for_by_name() -> None:
    market = open_market("synthetic:h100?seed=3&days=2&slot=30m&pools=2")
    assert list(market) == ["h100-1", "h100-2"]
    assert market.pools[0].slot_hours == 0.5
    assert market.pools[0].hours == 48
    assert list(open_market("synthetic")) == ["h100-1"]
    assert open_market("synthetic:v100?days=1", slot_hours=1.0).pools[0].slot_hours == 1.0


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("synthetic:h10", "did you mean 'h100'"),
        ("synthetic:h100?sead=3", "did you mean 'seed'"),
        ("synthetic:h100?seed=x", "seed must be a whole number, got 'x'"),
        ("synthetic:h100?seed=-1", "seed must be >= 0"),
        ("synthetic:h100?days=x", "days must be a number, got 'x'"),
        ("synthetic:h100?days=0", "days must be > 0"),
        ("synthetic:h100?days=nan", "days must be > 0"),
        ("synthetic:h100?days=1e12", "slots"),
        ("synthetic:h100?pools=0", "pools must be in"),
        ("synthetic:h100?slot=10", "duration"),
        ("synthetic:h100?days=1&slot=2d", "at most as long"),
    ],
)
def test_a_synthetic_market_that_cannot_be_is_refused(spec: str, words: str) -> None:
    with pytest.raises(SlacktideError, match=words):
        open_market(spec)


def test_a_pool_is_found_by_name_with_help() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'h100-1'"):
        open_market("synthetic:h100?days=1").pool("h100-0")


def test_options_for_files_are_refused_for_synthetic_markets() -> None:
    with pytest.raises(InputError, match="on_demand_usd must not be given for a synthetic market"):
        open_market("synthetic:h100", on_demand_usd=3.0)
