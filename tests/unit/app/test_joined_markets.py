"""A market of several traces is named in a journal so that it can be opened again from anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.app.jobs.submission import market_options
from slacktide.app.markets.market import MarketSpec
from slacktide.market.base import digest
from slacktide.market.formats.table import write_table
from slacktide.market.source import open_market


@pytest.mark.parametrize(
    "spec", ["a.csv,b.csv", "a.csv,synthetic:v100?days=3", "synthetic:v100?days=3,b.csv"]
)
def test_a_joined_market_is_the_same_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    write_table(open_market("synthetic:h100?days=3"), tmp_path / "a.csv")
    write_table(open_market("synthetic:volatile?days=3"), tmp_path / "b.csv")
    monkeypatch.chdir(tmp_path)
    here = open_market(spec)
    options = market_options(MarketSpec(source=spec), None, None)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    again = open_market(**options)
    assert (list(again), digest(again)) == (list(here), digest(here))


def test_a_market_file_is_the_same_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.yaml").write_text("traces:\n  - synthetic:h100?days=3\n")
    monkeypatch.chdir(tmp_path)
    options = market_options(MarketSpec(), "m.yaml", None)
    monkeypatch.chdir("/")
    assert list(open_market(**options)) == ["h100-1"]
