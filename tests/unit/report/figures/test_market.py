"""Pictures of markets: every kind of market gives a PNG of sensible size."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from slacktide.core.errors import FileError
from slacktide.market.base import Market
from slacktide.market.synthetic import PROFILES, synthesize
from slacktide.report.figures.market import plot_market
from tests import build


def size(path: Path) -> tuple[int, int]:
    """Return width and height of a PNG, from its header."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def flat(gpus: int, slots: int) -> Market:
    return Market((build.pool(1.0, 0.0, np.full(slots, gpus), name="a $x$ \u4e2d"),))


@pytest.mark.parametrize("pools", [1, 3, 12])
def test_one_and_many_pools_fit_a_page(tmp_path: Path, pools: int) -> None:
    plot_market(synthesize(PROFILES["h100"], days=20, seed=0, pools=pools), tmp_path / "m.png")
    width, height = size(tmp_path / "m.png")
    assert width == 1320
    assert 500 < height < 2200


@pytest.mark.parametrize("market", [flat(0, 1), flat(4, 1), flat(4, 300)])
def test_markets_in_which_nothing_happens_can_be_drawn(tmp_path: Path, market: Market) -> None:
    plot_market(market, tmp_path / "m.png")
    assert size(tmp_path / "m.png")[0] == 1320


def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="writable"):
        plot_market(flat(1, 3), "/dev/null/m.png")
