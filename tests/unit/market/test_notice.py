"""Markets that warn: from where their notice is read, and what is carried along."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from slacktide.core.errors import FileError, InputError
from slacktide.market.formats.digest import digest
from slacktide.market.pools.notice import warning
from slacktide.market.series import resample
from slacktide.market.source import open_market
from tests import build

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
    market = warning(open_market(SPEC), 0.5)
    pool = market.pools[0]
    again = pickle.loads(pickle.dumps(pool))
    coarse = resample(market, 0.5).pools[0]
    assert [one.notice_hours for one in (pool.window(3, 9), again, coarse)] == [0.5] * 3
    assert warning(market, 0.1).pools[0].notice_hours == 0.5, "what a pool says itself stays"


@pytest.mark.parametrize("hours", [-1.0, np.nan, np.inf])
def test_a_pool_refuses_a_notice_that_is_no_time(hours: float) -> None:
    with pytest.raises(InputError, match="notice_hours must be >= 0"):
        build.pool(1.0, 1.0, [1, 1], name="p", slot_hours=1.0, notice_hours=hours)
