"""A job loses its disk while the store of its checkpoints is down: it resumes from what the store has.

The bill says what that cost.

The script does it all by itself, at points of its own work, so the speed of this machine does not matter.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from slacktide.cli import run
from slacktide.journal.events import Blocked, Resumed
from slacktide.journal.store.sqlite import SqliteStore

from .parts_of_runs import SPEED, write_table

SCRIPT = """\
import json, os, shutil, sys, time
from pathlib import Path
from slacktide import worker

store, away = Path(sys.argv[1]), Path(sys.argv[1] + "-away")


def stored_share():
    found = store.glob("*/*/manifests/*.json")
    return max((json.loads(path.read_text())["done_share"] for path in found), default=0)


def is_told():
    journal = Path(sys.argv[2])
    return any(b"could not be saved" in path.read_bytes() for path in journal.parent.glob("journal.db*"))


found = worker.saved("step")
start = int(found.read_text()) if found else 0
with open("began", "a") as file:
    file.write(f"{start}\\n")
for step in range(start + 1, 11):
    time.sleep(0.1)
    worker.save("step", str(step).encode(), done=step / 10)
    while worker.attempt == 1 and step == 3 and stored_share() < 0.3:
        time.sleep(0.01)
    if worker.attempt == 1 and step == 3:
        store.rename(away)
    if worker.attempt == 1 and step == 7:
        while not is_told():
            time.sleep(0.05)
        shutil.rmtree(worker.checkpoint_dir)
        away.rename(store)
        sys.exit(1)
"""
JOB = """\
name: moved
run: {command}
resources: {{accelerators: "H100:1"}}
work: 2 gpu-hours +-0%
deadline: 60h
restart: 6m
checkpoint: {{every: 3m, grace: 5s, url: file://{store}}}
policy: on-demand
market: {market}
"""


@pytest.mark.slow
def test_a_job_resumes_from_what_the_store_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    write_table(tmp_path / "market.csv", slots=600)
    parts = (
        sys.executable,
        str(tmp_path / "train.py"),
        str(tmp_path / "store"),
        str(tmp_path / "journal.db"),
    )
    command = " ".join(map(shlex.quote, parts))
    job = JOB.format(command=command, store=tmp_path / "store", market=tmp_path / "market.csv")
    (tmp_path / "moved.yaml").write_text(job, encoding="utf-8")
    journal = tmp_path / "journal.db"
    asked = ["run", str(tmp_path / "moved.yaml"), "--journal", str(journal), "--speed", SPEED]

    assert run([*asked, "--yes", "-o", "json"]) == 0

    (bill,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (tmp_path / "began").read_text().split() == ["0", "3"]
    with SqliteStore(journal) as store:
        events = [record.event for record in store.read(job="moved")]
    troubles = [event.why for event in events if isinstance(event, Blocked)]
    assert any(why.startswith("checkpoints could not be saved to file://") for why in troubles)
    resumed = [event for event in events if isinstance(event, Resumed)]
    lost = sum(event.lost_gpu_hours for event in resumed)
    assert 0.5 <= lost <= 0.9  # seven tenths were done and three in the store, of two GPU-hours
    assert bill["lost_gpu_hours"] == pytest.approx(lost)
