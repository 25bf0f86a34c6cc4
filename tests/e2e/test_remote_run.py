"""`slacktide run --server`: a job on a server is shown here, billed here, and cancelled by Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slacktide.cli import run
from slacktide.journal.store.paths import runs_of
from slacktide.policies.selection.hedge import Hedge
from slacktide.policies.selection.state_file import default_path, save
from slacktide.service.uploads.uploads import markets_of

from .parts_of_runs import wait_until
from .parts_of_servers import Server


@pytest.fixture
def server(journal: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server of the test's journal that is up; the command line means it."""
    made = Server(journal, "--speed", "3600", "--start", "0")
    made.start()
    monkeypatch.delenv("SLACKTIDE_JOURNAL")
    monkeypatch.setenv("SLACKTIDE_TOKEN", made.token)
    monkeypatch.setenv("SLACKTIDE_SERVER", made.url)
    yield made
    made.stop()


def job_file(folder: Path, command: str) -> str:
    """Write a job that does one thing."""
    folder.mkdir(exist_ok=True)
    path = folder / "short.yaml"
    path.write_text(
        f"name: short\nrun: {command}\nresources: {{accelerators: 'H100:1'}}\nwork: 1 gpu-hours\n"
        "deadline: 300h\npolicy: on-demand\nretries: {failures: 0}\n",
        encoding="utf-8",
    )
    return str(path)


def test_a_run_on_a_server_is_shown_and_billed_here(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = job_file(tmp_path / "mine", "'true'")
    assert run(["run", path]) == 0
    out = capsys.readouterr().out
    assert "the job succeeded" in out
    assert re.search(r"short succeeded: \$[0-9.]+, done after", out), out
    assert run(["run", path, "-o", "json"]) == 0
    told = capsys.readouterr()
    (bill,) = json.loads(told.out)["jobs"]
    assert (bill["job"], bill["status"]) == ("short-2", "succeeded")
    assert "the job succeeded" in told.err
    assert (
        run(["cost", "short", "--report", str(tmp_path / "r.html"), "--plot", str(tmp_path / "p.svg")]) == 0
    )
    assert (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "<svg" in (tmp_path / "p.svg").read_text(encoding="utf-8")
    capsys.readouterr()
    assert run(["run", job_file(tmp_path / "mine", "'false'")]) == 100
    refused = {
        ("--backend", "local"),
        ("--speed", "5"),
        ("--start", "0"),
        ("--fleet", "x"),
        ("--market", "x"),
    }
    for option, value in refused:
        assert run(["run", path, option, value]) == 2
        assert "must be left to the server" in capsys.readouterr().err


def test_plans_and_back_tests_of_a_server_are_those_made_here(
    server: Server, journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(job_file(tmp_path / "mine", "'true'"))
    market = "market: synthetic:h100?days=4&slot=30m&seed=2\n"
    path.write_text(path.read_text(encoding="utf-8").replace("300h", "6h") + market, encoding="utf-8")
    page, picture = tmp_path / "page.html", tmp_path / "picture.png"
    backtest = ["backtest", str(path), "--starts", "3", "--policy", "on-demand,uniform-progress"]
    for command in (
        ["plan", str(path), "--start", "100", "-o", "json"],
        ["plan", str(path), "--start", "100"],
        [*backtest, "-o", "csv"],
        [*backtest, "-v"],
    ):
        far = run([*command, "--server", server.url]), capsys.readouterr().out
        own = [] if command[0] == "backtest" else ["--journal", str(journal)]
        assert far == (run([*command, *own]), capsys.readouterr().out), command
        assert far[0] == 0
    files = ["--report", str(page), "--plot", str(picture), "--server", server.url]
    assert run([*backtest, *files]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert picture.read_bytes().startswith(b"\x89PNG")
    path.write_text(path.read_text(encoding="utf-8").replace("6h", "30m"), encoding="utf-8")
    assert run(["plan", str(path)]) == 3
    assert run(["run", str(path)]) == 3
    path.write_text(
        path.read_text(encoding="utf-8").replace("30m", "6h") + "max_cost: 1 usd\n", encoding="utf-8"
    )
    assert run(["submit", str(path)]) == 3
    assert "max_cost must allow at least" in capsys.readouterr().err
    assert run(["plan", str(path), "--market", "nowhere.csv"]) == 2
    assert "nowhere.csv" in capsys.readouterr().err


def test_a_market_of_mine_goes_to_the_server_with_the_question(
    server: Server, journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, trace = Path(job_file(tmp_path / "mine", "'true'")), tmp_path / "mine" / "trace.csv"
    bare = path.read_text(encoding="utf-8").replace("300h", "6h")
    path.write_text(bare, encoding="utf-8")
    made = ["market", "synthesize", "h100", "--days", "4", "--slot", "30m", "--pools", "2", str(trace)]
    assert run(made) == 0
    capsys.readouterr()
    backtest = ["backtest", str(path), "--starts", "2", "--policy", "on-demand,uniform-progress"]

    def same(*command: str) -> None:
        own = [] if command[0] == "backtest" else ["--journal", str(journal)]
        far = run([*command, "--server", server.url]), capsys.readouterr().out
        assert far == (run([*command, *own]), capsys.readouterr().out), command
        assert far[0] == 0

    same("plan", str(path), "--market", str(trace), "-o", "json")
    same(*backtest, "--market", f"{trace},synthetic:v100?days=4&slot=30m", "-o", "json")
    same(*backtest, "--market", "synthetic:h100?days=4&slot=30m", "--slot", "1h", "-o", "json")
    path.write_text(bare + "market: trace.csv\n", encoding="utf-8")
    same("plan", str(path))
    sent = [one.name for one in markets_of(runs_of(journal)).folder.iterdir()]
    assert len(sent) == 3, "what is there is not sent again"
    path.write_text(bare, encoding="utf-8")
    for wrong in (["--slot", "1h"], ["--market", f"feed:{trace}"]):
        assert run(["plan", str(path), *wrong]) == 2
    assert run(["run", str(path.rename(tmp_path / "mine" / "again.yaml")), "--market", str(trace)]) == 2


def test_what_a_server_has_learned_is_shown_taught_and_forgotten(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(Hedge(("uniform-progress", "on-demand")), default_path())
    path, at = Path(job_file(tmp_path / "mine", "'true'")), ["--server", server.url]
    market = "market: synthetic:h100?days=4&slot=30m&seed=2\n"
    path.write_text(path.read_text(encoding="utf-8").replace("300h", "6h") + market, encoding="utf-8")

    def shown(*arguments: str) -> dict[str, Any]:
        assert run(["learn", *arguments, "-o", "json"]) == 0
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        return {name: value for name, value in document.items() if name != "state"}

    assert shown(str(path), "--jobs", "3", *at)["jobs"] == 3
    assert shown(*at) == shown()
    picture = tmp_path / "trust.png"
    assert run(["learn", "--plot", str(picture), *at]) == 0
    far = capsys.readouterr().out
    assert run(["learn"]) == 0
    assert far == capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert run(["learn", "--reset", *at]) == 2
    assert "give -y" in capsys.readouterr().err
    assert shown("--reset", "-y", *at)["jobs"] == 0
    assert not default_path().exists()
    assert run(["learn", "--state", "mine.json", *at]) == 2
    assert "must be left to the server" in capsys.readouterr().err


def test_ctrl_c_cancels_the_job_on_the_server(server: Server, tmp_path: Path) -> None:
    path = job_file(tmp_path / "mine", "sleep 1000")
    process = subprocess.Popen(
        [sys.executable, "-m", "slacktide", "run", path],
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: _status(server) == "running")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=180)
    assert "requested to cancel" in out
    assert "short was cancelled" in out
    assert process.returncode == 103
    assert _status(server) == "cancelled"


def _status(server: Server) -> str:
    rows = server.ask("GET", "/api/v1/jobs")[1]["jobs"]
    return str(rows[0]["status"]) if rows else ""
