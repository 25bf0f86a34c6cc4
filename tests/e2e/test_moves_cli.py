"""A real job in local processes moves between two pools of a small market, from the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slacktide.cli import run
from slacktide.journal.events import Decided, Resumed
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_runs import state_of, workers_of

EAST, WEST = "aws/us-east-1a", "aws/us-west-2a"
OWN = """
from slacktide.core.types import Allocation, Reason, Wish


class WhereItIs:
    \"\"\"Hold two spot GPUs wherever there are some, and move there; on demand never.\"\"\"

    roams = True

    def decide(self, view):
        wishes = [Wish(2, 0, view.pools[view.pool].name)]
        wishes += [Wish(2, 0, pool.name) for at, pool in enumerate(view.pools) if at != view.pool]
        first, *rest = [*wishes, Wish()]
        return Allocation(*first, reason=Reason("where-it-is"), instead=tuple(rest))
"""
JOB = """\
name: counting
run: $SLACKTIDE_PYTHON -m slacktide.demo.train --steps 300 --step-seconds 0.1 --checkpoint-every 10
resources: {{accelerators: "H100:2"}}
work: 12 gpu-hours +-0%
deadline: 150h
restart: 6m
checkpoint: {{dir: ckpt, every: 3m, grace: 5s, size: 50 GB}}
policy: {policy}
market: {market}
"""
SPEED = "1800"
"""A slot of half an hour is a second."""


def write_market(path: Path, slots: int = 400) -> None:
    """Write a market whose spot is in the east for three hours, then for good in the west."""
    begin = datetime(2025, 1, 1, tzinfo=UTC)
    head = "time_utc,pool,gpu,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour"
    rows = [head]
    for slot in range(slots):
        time = (begin + slot * timedelta(minutes=30)).isoformat()
        east = slot < 16
        rows += [
            f"{time},{EAST},H100,{2 if east else 0},1.0,9.0",
            f"{time},{WEST},H100,{0 if east else 2},2.0,9.0",
        ]
    path.write_text("\n".join([*rows, ""]), encoding="utf-8")


def invoke(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must succeed, and return what it printed."""
    code = run(list(arguments))
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return printed.out + printed.err if arguments[0] == "run" else printed.out


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_market(tmp_path / "market.csv")
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    text = JOB.format(policy="own.py:WhereItIs", market=tmp_path / "market.csv")
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_job_moves_and_goes_on_from_its_checkpoint(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = folder / "journal.db"
    told = invoke(
        capsys, "run", "job.yaml", "--yes", "--speed", SPEED, "--start", "10", "--journal", str(journal)
    )
    assert f"moves to {WEST}: holds 2 spot (from {EAST}, moving costs $1.00 and 1m20s; wanted" in told
    job_record = state_of(journal).jobs["counting"]
    assert job_record.status == "succeeded"
    assert job_record.holding.moves == 1
    assert job_record.submitted.pools == (EAST, WEST)
    with SqliteStore(journal, create=False) as store:
        events = [record.event for record in store.read()]
    moved = next(event for event in events if isinstance(event, Decided) and event.moved_from)
    assert (moved.moved_from, moved.pool, moved.missed) == (EAST, WEST, 1)
    assert moved.state.progress_gpu_hours > 0.0
    resumed = next(event for event in events if isinstance(event, Resumed) and event.attempt == moved.attempt)
    assert resumed.after_gpu_hours > 0.0, "it went on from its checkpoint"
    assert job_record.money.bill.move_usd == pytest.approx(1.0)
    cost = json.loads(invoke(capsys, "cost", "counting", "--journal", str(journal), "-o", "json"))
    assert cost["audit"]["clean"]
    assert (cost["pools"], cost["moves"]) == ([EAST, WEST], 1)
    assert cost["cost_usd"] == pytest.approx(cost["spot_usd"] + cost["move_usd"])
    assert f"in {WEST}" in " ".join(invoke(capsys, "why", "counting", "--journal", str(journal)).split())
    assert not workers_of(folder)


def test_a_job_with_a_pool_named_stays_there(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = folder / "journal.db"
    arguments = ("--speed", SPEED, "--start", "16", "--pool", WEST, "--journal", str(journal))
    invoke(capsys, "run", "job.yaml", "--yes", *arguments)
    record = state_of(journal).jobs["counting"]
    assert (record.submitted.pool, record.submitted.pools) == (WEST, ())


def test_pools_that_are_not_there_are_bad_input(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (folder / "job.yaml").read_text()
    resources = 'resources: {any_of: [{accelerators: "A100:2"}]}'
    (folder / "job.yaml").write_text(text.replace('resources: {accelerators: "H100:2"}', resources))
    assert run(["run", "job.yaml", "--yes", "--journal", "j.db"]) == 2
    assert "the job must fit at least one pool" in capsys.readouterr().err
    assert run(["run", "job.yaml", "--yes", "--sight", "seen"]) == 2
    assert "'seen' is not one of" in capsys.readouterr().err
