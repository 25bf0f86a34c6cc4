"""Which reader a file gets, options of synthetic markets, several markets joined, and short warnings."""

from __future__ import annotations

import gzip
import json
import math
import pickle
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from slacktide.core.errors import FileError, InputError, SlacktideError, UnknownNameError
from slacktide.market.base import Market, Moves, digest, with_notice
from slacktide.market.formats.samples import COLUMNS
from slacktide.market.formats.table import write_table
from slacktide.market.pools.places import assumed_moves, move_usd_per_gb
from slacktide.market.series import resample
from slacktide.market.source import open_market
from slacktide.market.spec import absolute
from tests import build

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


BEGIN = datetime(2025, 10, 4, tzinfo=UTC)


def trace(
    folder: Path, name: str, pool: str, *, minutes: int = 10, rows: int = 12, begin: datetime = BEGIN
) -> Path:
    lines = [",".join(COLUMNS)]
    for row in range(rows):
        time = begin + timedelta(minutes=row * minutes)
        lines.append(f"{time.isoformat()},{pool},{row % 5},1.5,4")
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def market_file(folder: Path, text: str) -> str:
    path = folder / "market.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_traces_are_joined_by_commas(tmp_path: Path) -> None:
    one, two = trace(tmp_path, "a.csv", "a"), trace(tmp_path, "b.csv", "b")
    market = open_market(f"{one}, {two}")
    assert list(market) == ["a", "b"]
    assert market.source == f"{one}, {two}"
    assert market["a"].spot_gpus.tolist() == open_market(str(one))["a"].spot_gpus.tolist()
    assert market.assumptions == (assumed_moves(Moves()),)


def test_synthetic_markets_are_joined_too() -> None:
    market = open_market("synthetic:h100?days=2&pools=2,synthetic:v100?days=2")
    assert {name: market[name].gpu for name in market} == {
        "h100-1": "H100",
        "h100-2": "H100",
        "v100-1": "V100",
    }
    alone = open_market("synthetic:v100?days=2")["v100-1"]
    assert market["v100-1"].spot_gpus.tolist() == alone.spot_gpus.tolist()
    # What both say is said once.
    assert sum("synthetic" in sentence for sentence in market.assumptions) == 1


def test_a_file_with_a_comma_in_its_name_is_one_file(tmp_path: Path) -> None:
    assert list(open_market(str(trace(tmp_path, "a,b.csv", "a")))) == ["a"]


def test_the_longest_slot_counts_and_is_said(tmp_path: Path) -> None:
    fine, coarse = trace(tmp_path, "a.csv", "a"), trace(tmp_path, "b.csv", "b", minutes=30, rows=4)
    market = open_market(f"{fine},{coarse}")
    assert [pool.slot_hours for pool in market.pools] == [0.5, 0.5]
    assert market["a"].spot_gpus.tolist() == resample(open_market(str(fine)), 0.5)["a"].spot_gpus.tolist()
    assert "Traces with different slots were resampled to the longest, 30 min." in market.assumptions
    asked = open_market(f"{fine},{coarse}", slot_hours=1.0)
    assert [pool.slot_hours for pool in asked.pools] == [1.0, 1.0]
    assert not any("slots" in sentence for sentence in asked.assumptions)


def test_each_pool_keeps_its_own_time_and_the_common_one_is_said(tmp_path: Path) -> None:
    early = trace(tmp_path, "a.csv", "a")
    late = trace(tmp_path, "b.csv", "b", begin=BEGIN + timedelta(hours=1))
    market = open_market(f"{early},{late}")
    assert (market["a"].start, market["b"].start) == (BEGIN, BEGIN + timedelta(hours=1))
    assert len(market["a"]) == len(market["b"]) == 12
    assert (
        "The pools have quotes of different times; all of them from 2025-10-04 01:00 to 2025-10-04 02:00 UTC."
        in market.assumptions
    )


def test_traces_without_a_common_time_are_refused(tmp_path: Path) -> None:
    early = trace(tmp_path, "a.csv", "a")
    late = trace(tmp_path, "b.csv", "b", begin=BEGIN + timedelta(hours=2))
    with pytest.raises(
        InputError, match=r"time in common, got 'a' until 2025-10-04 02:00 and 'b' from 2025-10-04 02:00"
    ):
        open_market(f"{early},{late}")


def test_two_pools_of_one_name_are_refused_with_the_remedy(tmp_path: Path) -> None:
    one, two = trace(tmp_path, "a.csv", "a"), trace(tmp_path, "b.csv", "a")
    with pytest.raises(
        InputError, match=r"must be unique, got 'a' from .*a\.csv and from .*b\.csv; give one .* prefix"
    ):
        open_market(f"{one},{two}")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("synthetic:h100,", "a market must be named between commas, got nothing"),
        ("a.csv,,b.csv", "a market must be named between commas"),
        ("synthetic:h100,feed:b.csv", "a live feed must be the only market"),
        ("synthetic:h100,missing.csv", "missing.csv: a market file must exist"),
        ("synthetic:h100,market.yaml", "market.yaml: a market file must"),
    ],
)
def test_names_that_cannot_be_joined_are_refused(spec: str, words: str) -> None:
    with pytest.raises(SlacktideError, match=words):
        open_market(spec)


def test_a_market_file_must_be_named_alone(tmp_path: Path) -> None:
    path = market_file(tmp_path, "traces: [synthetic:h100]\n")
    with pytest.raises(InputError, match="a market file must be named alone"):
        open_market(f"{path},synthetic:v100")


def test_a_market_file_names_traces_and_what_moves_cost(tmp_path: Path) -> None:
    trace(tmp_path, "a.csv", "us-east-1a")
    (tmp_path / "us-east-2b_v100_1.json").write_text(
        json.dumps({"metadata": {"gap_seconds": 600}, "data": [1, 2, 3, 0] * 10_000})
    )
    path = market_file(
        tmp_path,
        """\
traces:
  - {file: a.csv, gpu: V100, prefix: aws/}
  - {file: us-east-2b_v100_1.json, prefix: other/}
moves:
  within_region: 0.001 usd
  between_regions: 0.03 usd
  between_continents: 0.09 usd
  speed: 10 Gbit/s
  pairs: [{from: us-east-1, to: us-east-2b, cost: 0.01 usd}]
""",
    )
    market = open_market(path)
    assert {name: market[name].gpu for name in market} == {
        "aws/us-east-1a": "V100",
        "other/us-east-2b_v100_1": "V100",
    }
    assert market.moves == Moves(0.001, 0.03, 0.09, 10.0, (("us-east-1", "us-east-2", 0.01),))
    assert move_usd_per_gb(market.moves, *market) == pytest.approx(0.01)
    assert not any("Moving" in sentence for sentence in market.assumptions)
    assert any(
        sentence.startswith(f"{tmp_path / 'us-east-2b_v100_1.json'}: The trace has no prices")
        for sentence in market.assumptions
    )
    assert resample(market, 1.0).moves == market.moves


def test_what_a_market_file_does_not_say_of_moves_is_assumed(tmp_path: Path) -> None:
    trace(tmp_path, "a.csv", "a")
    trace(tmp_path, "b.csv", "b")
    market = open_market(market_file(tmp_path, "traces: [a.csv, b.csv]\nmoves: {speed: unlimited}\n"))
    assert market.moves == Moves(gbit_per_s=math.inf)
    said = "Moving a checkpoint to another pool is assumed to cost 0 USD per GB within a region, 0.02 USD"
    assert [sentence for sentence in market.assumptions if sentence.startswith(said)]
    assert not any("Gbit" in sentence for sentence in market.assumptions)
    plain = open_market(market_file(tmp_path, "traces: [a.csv, b.csv]\n"))
    assert plain.assumptions == (assumed_moves(Moves()),)
    assert open_market(market_file(tmp_path, "traces: [a.csv]\n")).assumptions == ()


BROKEN = {
    "nothing": ("", 1, "a market file must name at least traces, got an empty file"),
    "no traces": ("moves: {}\n", 1, "traces must be given, got nothing"),
    "unknown key": ("traces: [a.csv]\nmove: {}\n", 2, "got 'move'; did you mean 'moves'?"),
    "traces as text": ("traces: a.csv\n", 1, "traces: must be a list such as [a.csv, b.csv], got 'a.csv'"),
    "traces of nothing": (
        "traces: []\n",
        1,
        "traces: must be a list such as [a.csv, b.csv], got an empty list",
    ),
    "trace that is not there": ("traces:\n  - a.csv\n  - b.csv\n", 3, "traces[2]: must be a file in"),
    "trace as list": ("traces:\n  - [a.csv]\n", 2, "traces[1]: must be a mapping"),
    "trace without file": ("traces:\n  - {gpu: V100}\n", 2, "traces[1].file must be given"),
    "trace of unknown key": ("traces:\n  - {file: a.csv, zone: a}\n", 2, "a key of traces[1] must be one of"),
    "a feed": (
        "traces:\n  - feed:a.csv\n",
        2,
        "traces[1]: must be a trace that is complete, got 'feed:a.csv'",
    ),
    "a market file": ("traces: [market.yaml]\n", 1, "traces[1]: must be a trace, got another market file"),
    "cost without unit": ("traces: [a.csv]\nmoves:\n  between_regions: 1\n", 3, "write '1 usd'"),
    "cost below zero": ("traces: [a.csv]\nmoves:\n  between_regions: -1 usd\n", 3, "it must not be negative"),
    "speed without unit": (
        "traces: [a.csv]\nmoves:\n  speed: 10\n",
        3,
        "moves.speed: a speed must be a number",
    ),
    "speed of nothing": ("traces: [a.csv]\nmoves:\n  speed: 0 Gbit/s\n", 3, "a speed must be > 0"),
    "pairs as mapping": ("traces: [a.csv]\nmoves:\n  pairs: {}\n", 3, "moves.pairs: must be a list"),
    "half a pair": (
        "traces: [a.csv]\nmoves:\n  pairs:\n    - {from: a, to: b}\n",
        4,
        "moves.pairs[1].cost must",
    ),
    "a pair twice": (
        "traces: [a.csv]\nmoves:\n  pairs:\n"
        "    - {from: a, to: b, cost: 1 usd}\n    - {from: b, to: a, cost: 2 usd}\n",
        5,
        "moves.pairs[2]: two regions must come once, got them again",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_mistakes_of_a_market_file_have_their_place(tmp_path: Path, case: str) -> None:
    text, line, words = BROKEN[case]
    trace(tmp_path, "a.csv", "a")
    path = market_file(tmp_path, text or "# nothing\n")
    with pytest.raises(FileError) as caught:
        open_market(path)
    assert words in str(caught.value)
    assert (caught.value.path, caught.value.line) == (path, line)


def test_parquet_keeps_what_moves_cost(tmp_path: Path) -> None:
    trace(tmp_path, "a.csv", "a")
    trace(tmp_path, "b.csv", "b")
    text = (
        "traces: [a.csv, b.csv]\nmoves: {between_regions: 0.5 usd, pairs: [{from: a, to: b, cost: 1 usd}]}\n"
    )
    market = open_market(market_file(tmp_path, text))
    write_table(market, tmp_path / "m.parquet")
    again = open_market(str(tmp_path / "m.parquet"))
    assert (again.moves, again.assumptions) == (market.moves, market.assumptions)


def test_the_digest_of_a_market_changes_with_moves_that_are_given() -> None:
    pools = open_market("synthetic:h100?days=1&pools=2").pools

    def of(moves: Moves) -> str:
        return digest(Market(pools, moves=moves))

    assert of(Moves()) == digest(Market(pools))
    assert of(Moves(between_regions_usd_per_gb=0.5)) != of(Moves())


def test_names_of_markets_become_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: Mapping[str, str] = {
        "a.csv": f"{tmp_path}/a.csv",
        "a.csv,b.csv": f"{tmp_path}/a.csv,{tmp_path}/b.csv",
        "a.csv, synthetic:h100?pools=2": f"{tmp_path}/a.csv,synthetic:h100?pools=2",
        "synthetic:h100": "synthetic:h100",
        "feed:a.csv": "feed:a.csv",
        "/a.csv,/b.csv": "/a.csv,/b.csv",
    }
    assert {name: absolute(name) for name in names} == names


SPEC = "synthetic:h100?days=2&pools=2&slot=10m"


def test_a_synthetic_market_warns_as_it_is_told() -> None:
    silent, warns = open_market(SPEC), open_market(f"{SPEC}&notice=20m")
    assert [pool.notice_hours for pool in silent.pools] == [0.0, 0.0]
    assert [pool.notice_hours for pool in warns.pools] == pytest.approx([1 / 3, 1 / 3])
    assert (warns.pools[1].spot_gpus == silent.pools[1].spot_gpus).all()
    assert "notice=20m" in warns.source
    assert digest(warns) != digest(silent)


@pytest.mark.parametrize("notice", ["soon", "-3m", "10", "25h"])
def test_a_notice_that_cannot_be_meant_is_refused(notice: str) -> None:
    with pytest.raises(InputError, match="notice"):
        open_market(f"{SPEC}&notice={notice}")


def test_a_market_file_says_how_long_before_a_loss_its_pools_warn(tmp_path: Path) -> None:
    file = tmp_path / "market.yaml"
    file.write_text(
        "traces:\n  - synthetic:h100?days=2\n"
        "  - {file: 'synthetic:h100?days=2', prefix: b/, notice: 2m}\nnotice: 1h\n"
    )
    market = open_market(str(file), slot_hours=0.5)
    assert [pool.notice_hours for pool in market.pools] == pytest.approx([1.0, 1 / 30])
    said = [sentence for sentence in market.assumptions if "notice" in sentence]
    assert said == ["A notice of 2m is shorter than a slot of 30m, so it warns of nothing."]
    file.write_text("traces: [synthetic:h100]\nnotice: later\n")
    with pytest.raises(FileError, match=r"market.yaml:2:9: .*notice"):
        open_market(str(file))


def test_a_pool_keeps_its_notice() -> None:
    market = with_notice(open_market(SPEC), 0.5)
    pool = market.pools[0]
    again = pickle.loads(pickle.dumps(pool))
    coarse = resample(market, 0.5).pools[0]
    assert [one.notice_hours for one in (pool.window(3, 9), again, coarse)] == [0.5] * 3
    assert with_notice(market, 0.1).pools[0].notice_hours == 0.5, "what a pool says itself stays"


@pytest.mark.parametrize("hours", [-1.0, np.nan, np.inf])
def test_a_pool_refuses_a_notice_that_is_no_time(hours: float) -> None:
    with pytest.raises(InputError, match="notice_hours must be >= 0"):
        build.pool(1.0, 1.0, [1, 1], name="p", slot_hours=1.0, notice_hours=hours)
