"""Markets that are sent elsewhere: what comes out is what went in, and nothing else is taken for one."""

from __future__ import annotations

import contextlib
import gzip
import math
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slacktide.core.errors import FileError
from slacktide.market.base import Market, Moves, Pool
from slacktide.market.formats import whole_market as whole
from slacktide.market.formats.whole_market import is_whole, read_whole, whole_bytes
from slacktide.market.source import open_market

ODD = Market(
    (
        Pool("a, b", 0.1, np.array([0.1 + 0.2, 1e-9]), np.array([3.0, 1e6]), np.array([0, 2**40])),
        Pool(
            "ü", 1 / 3, np.array([1.0]), np.array([2.0]), np.array([7]),
            datetime(2026, 3, 1, 1, 2, 3, 456789, tzinfo=UTC), "H100", np.array([4]), 0.5,
        ),
    ),
    "my traces, all of them",
    ("What was not said was assumed.",),
    Moves(gbit_per_s=math.inf, pairs=(("us", "eu", 0.5),)),
    ("ü",),
)  # fmt: skip
DATA = gzip.decompress(whole_bytes(ODD))


def told(market: Market) -> object:
    """Return all that is known of a market, to be compared."""
    about = market.source, market.assumptions, market.moves, market.uncounted
    return about, [
        (
            pool.name, pool.slot_hours, pool.start, pool.gpu, pool.notice_hours,
            pool.spot_usd_per_gpu_hour.tolist(), pool.on_demand_usd_per_gpu_hour.tolist(),
            pool.spot_gpus.tolist(), None if pool.on_demand_gpus is None else pool.on_demand_gpus.tolist(),
        )
        for pool in market.pools
    ]  # fmt: skip


@pytest.mark.parametrize(
    "market",
    [
        ODD,
        open_market("synthetic:h100?days=2&pools=3&notice=1m"),
        open_market("synthetic:h100?days=2,synthetic:v100?days=1"),
    ],
)
def test_a_market_comes_back_exactly(market: Market, tmp_path: Path) -> None:
    path = tmp_path / "sent"
    path.write_bytes(whole_bytes(market))
    assert told(open_market(str(path))) == told(market)
    assert whole_bytes(market) == path.read_bytes()


def test_it_may_be_read_in_other_slots(tmp_path: Path) -> None:
    path, market = tmp_path / "sent", "synthetic:h100?days=2&slot=30m"
    path.write_bytes(whole_bytes(open_market(market)))
    assert told(open_market(str(path), slot_hours=1.0)) == told(open_market(market, slot_hours=1.0))


@given(cut=st.integers(0, len(DATA)), place=st.integers(0, len(DATA) - 1), byte=st.integers(0, 255))
def test_what_is_damaged_is_refused_or_another_market(cut: int, place: int, byte: int) -> None:
    for data in (DATA[:cut], DATA[:place] + bytes([byte]) + DATA[place + 1 :], DATA + DATA[:cut]):
        if not is_whole(data):
            continue
        with contextlib.suppress(FileError):
            read_whole(data, "sent")
            assert len(data) == len(DATA)


def test_another_version_is_refused() -> None:
    with pytest.raises(FileError, match="of version 1"):
        read_whole(DATA.replace(b'"version": 1', b'"version": 2', 1), "sent")


def test_what_is_told_beside_the_series_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    line = DATA.partition(b"\n")[0]
    monkeypatch.setattr(whole, "HEAD_BYTES", len(line))
    assert told(read_whole(DATA, "sent")) == told(ODD)
    monkeypatch.setattr(whole, "HEAD_BYTES", len(line) - 1)
    with pytest.raises(FileError, match="first line must have at most"):
        read_whole(DATA, "sent")


def test_half_a_character_is_no_name() -> None:
    with pytest.raises(FileError, match="damaged"):
        read_whole(DATA.replace(b'"H100"', b'"\\ud800"'), "sent")
