"""Fifty kills of the controller at random moments, with real workers: nothing lost, nothing leaked."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

PARTS = Path(__file__).parent / "parts"
KILLS = 50
SPEED = 1800.0
"""A market hour in two seconds: half-hour slots pass by every second."""

JOB = """\
name: counting
run: {python} {worker} {steps}
resources: {{accelerators: "H100:1..3"}}
work: 60 gpu-hours
deadline: 90h
restart: 6m
checkpoint: {{dir: ckpt, every: 3m, grace: 1s, size: 10 GB}}
policy: {policy}
market: market.csv
"""
OWN = """
from slacktide.core.types import Allocation, Reason, Wish


class WhereItIs:
    \"\"\"Hold three spot GPUs where there are some, else two, else wait.\"\"\"

    roams = True

    def decide(self, view):
        wishes = [Wish(gpus, 0, pool.name) for gpus in (3, 2) for pool in view.pools]
        first, *rest = [*wishes, Wish()]
        return Allocation(*first, reason=Reason("where-it-is"), instead=tuple(rest))
"""


SPOT_GPUS = (3, 3, 1, 2, 0, 3)
"""What the market offers, over and over: something is taken away every other second."""


def write_market(path: Path, pools: Sequence[str]) -> None:
    begin = datetime(2025, 1, 1, tzinfo=UTC)
    rows = [
        f"{(begin + timedelta(hours=slot / 2)).isoformat()},{pool},{SPOT_GPUS[(slot + 3 * at) % 6]},2.0,10.0"
        for slot in range(400)
        for at, pool in enumerate(pools)
    ]
    head = "time_utc,pool,spot_gpus,spot_usd_per_gpu_hour,on_demand_usd_per_gpu_hour"
    path.write_text("\n".join([head, *rows, ""]), encoding="utf-8")


def workers_of(folder: Path) -> list[int]:
    """Return the processes on this machine whose environment names a folder of this test."""
    mark, found = os.fsencode(str(folder)), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if b"SLACKTIDE_WORKER=" in (text := (entry / "environ").read_bytes()) and mark in text:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "pools", "policy"),
    [
        (1, ("zone",), "uniform-progress"),
        (3, ("aws/us-east-1a", "aws/us-west-2a"), "own.py:WhereItIs"),
    ],
)
def test_random_kills_lose_nothing(seed: int, pools: Sequence[str], policy: str, tmp_path: Path) -> None:
    if not Path("/proc").is_dir():
        pytest.skip("leaked workers are looked for in /proc, which this system does not have")
    worker, python = shlex.quote(str(PARTS / "worker.py")), shlex.quote(sys.executable)
    write_market(tmp_path / "market.csv", pools)
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    job = JOB.format(python=python, worker=worker, steps=4000, policy=policy)
    (tmp_path / "job.yaml").write_text(job, encoding="utf-8")
    command = [sys.executable, str(PARTS / "killer.py"), str(tmp_path), str(KILLS), str(seed), str(SPEED)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    print(told)
    assert told["killed"] == KILLS, done.stderr
    assert (told["code"], told["status"]) == (0, "succeeded"), done.stderr
    assert told["gaps"] == told["wrong"] == told["failures"] == []
    assert round(told["cost_usd"], 2) == round(told["audited_usd"], 2)
    # How often the market takes spot meanwhile depends on how much of it passes before the job is done.
    assert told["preemptions"] + told["moves"] > 0
    assert (told["moves"] > 0) == (len(pools) > 1)
    assert workers_of(tmp_path) == []
    check_checkpoints(tmp_path / "ckpt" / "step.log")


def check_checkpoints(log: Path) -> None:
    """Every set of workers began at the last checkpoint, so no saved work was done twice.

    It may be one further than the log says: a worker can be killed between saving and saying so.
    """
    saved = 0
    for line in log.read_text(encoding="utf-8").splitlines():
        _, step = line.split()
        assert int(step) >= saved, line
        saved = int(step)
