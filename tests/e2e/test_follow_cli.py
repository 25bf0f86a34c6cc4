"""`market follow` and `market feeds` from end to end, against a price list on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slacktide.cli import run, slacktide
from slacktide.market.source import open_market
from tests.unit.market.live import parts_of_feeds as parts


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(slacktide, ["market", *arguments], catch_exceptions=False)


@pytest.fixture
def azure() -> Iterator[str]:
    with parts.serving(parts.azure_list) as server:
        yield f"azure:{parts.AZURE}?base_url={server.url}"


def test_prices_are_followed_shown_and_planned_with(
    azure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path / "home"))
    first = invoke("follow", azure, "--zones", "eastus,westus3", "--every", "10m", "--once", "-o", "m.csv")
    assert first.exit_code == 0, first.output
    assert "2 pools, 4,032 rows written" in first.stdout
    again = invoke("follow", azure, "--zones", "eastus,westus3", "--every", "10m", "--once", "-o", "m.csv")
    assert again.exit_code == 0
    shown = invoke("show", "m.csv")
    assert "16 spot GPUs are assumed wherever our own tries" in " ".join(shown.stdout.split())
    found = json.loads(invoke("show", "m.csv", "-o", "json").stdout)
    assert [pool["spot_now_usd"] for pool in found["pools"]] == [4.916, 3.0]
    assert any("public list" in sentence for sentence in found["assumptions"])
    invoke("import", "m.csv", "counted.csv")
    assert open_market("counted.csv").uncounted == ()


def test_ctrl_c_ends_it_and_the_same_command_goes_on(azure: str, tmp_path: Path) -> None:
    out = tmp_path / "m.csv"
    command = [sys.executable, "-m", "slacktide", "market", "follow", azure, "--since", "1d", "-o", str(out)]
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
        ) as process:
            assert process.stdout is not None
            assert "rows written" in process.stdout.readline() or out.exists()
            process.send_signal(number)
            _, told = process.communicate()
        if number == signal.SIGKILL:
            assert process.returncode == -signal.SIGKILL
        else:
            assert (process.returncode, told.startswith("stopped; ")) == (0, True), told
        assert len(open_market(str(out)).pools) == 2


def test_what_cannot_be_followed_has_an_exit_code_and_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLACKTIDE_GCP_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("slacktide.app.markets.follow.ONCE_TRIES", 1)
    out = str(tmp_path / "m.csv")
    deaf = f"azure:{parts.AZURE}?base_url=http://127.0.0.1:1/"
    for feed, code, words in (
        ("gcp:H100", 2, "SLACKTIDE_GCP_API_KEY"),
        ("azur:x", 2, "did you mean 'azure'"),
        (deaf, 4, "Connection refused"),
    ):
        assert run(["market", "follow", feed, "--once", "-o", out]) == code
        assert words in capsys.readouterr().err
    assert run(["market", "follow", deaf, "--zones", "a,,b", "--once", "-o", out]) == 2
    assert list(tmp_path.iterdir()) == []


def test_feeds_are_listed_and_checked(azure: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["market", "feeds"]) == 0
    assert "skypilot" in capsys.readouterr().out
    assert run(["market", "feeds", "-o", "json"]) == 0
    assert {one["name"] for one in json.loads(capsys.readouterr().out)} >= {"aws", "azure", "gcp", "skypilot"}
    assert run(["market", "feeds", "--check", azure, "--zones", "eastus-1,westus3"]) == 0
    assert "keeps the contract" in capsys.readouterr().out
    assert run(["market", "feeds", "--check", azure, "--zones", "nowhere"]) == 2
    assert "does not keep the contract" in capsys.readouterr().err
