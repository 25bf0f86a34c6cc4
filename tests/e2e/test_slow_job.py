"""A real job that is twice as slow as its file says is done by its deadline, and what it did is told truly.

What this proves, with real workers under `slacktide run`: the reports of a job's own script are measured and
count for more than the file, the width changes in time, and journal, health and bill say what was measured.
One GPU would be enough if the file were right; at the true pace it takes longer than the deadline.

The script works by its own clock, as fast as the market's runs, so the speed of this machine does not change
its pace. Processes that start slowly make restarts longer; 2.5 hours are left for that, ten seconds
of real time. On a machine so slow that the market's clock is held back, the script gains on it: the work that
is measured has room for that.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from slacktide.cli import run
from slacktide.journal.events import Decided, Ended, Event, HealthChanged, PaceRevised
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.physics.pace import mean_factor

from .parts_of_runs import write_table

SPEED = 900.0
"""A market hour in four seconds: half-hour slots of two seconds."""
SAID_GPU_HOURS, TRUE_GPU_HOURS = 4.0, 8.0
DEADLINE_HOURS = 7.0
"""At the true pace four on-demand GPUs from the start take 2h20m; one takes more than eight hours."""

SCRIPT = """\
import json, os, sys, time

hours_per_s, gpu_hours = float(sys.argv[1]) / 3600, float(sys.argv[2])
rank, width = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
saved = os.path.join(os.environ["SLACKTIDE_CHECKPOINT_DIR"], "done")
done = float(open(saved).read()) if os.path.exists(saved) else 0.0
began, before = time.monotonic(), done
while done < 1:
    time.sleep(0.05)
    done = min(1.0, before + (time.monotonic() - began) * hours_per_s * width / gpu_hours)
    if rank == 0:
        with open(saved + ".new", "w") as file:
            file.write(str(done))
        os.replace(saved + ".new", saved)
        with open(os.environ["SLACKTIDE_PROGRESS"], "a") as file:
            file.write(json.dumps({"done": done, "checkpointed": done}) + "\\n")
"""
JOB = """\
name: slow
run: {command}
resources: {{accelerators: "H100:1..4"}}
work: {work:g} gpu-hours
deadline: {deadline:g}h
restart: 20m
checkpoint: {{dir: ckpt, every: 5m, grace: 20s}}
policy: on-demand
market: {market}
"""


def write_job(folder: Path) -> str:
    write_table(folder / "market.csv", slots=200)
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    parts = (sys.executable, "-S", str(folder / "train.py"), str(SPEED), str(TRUE_GPU_HOURS))
    path = folder / "slow.yaml"
    command = " ".join(map(shlex.quote, parts))
    market = folder / "market.csv"
    text = JOB.format(command=command, work=SAID_GPU_HOURS, deadline=DEADLINE_HOURS, market=market)
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.slow
def test_a_job_twice_as_slow_as_its_file_is_in_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "journal.db"
    asked = ["run", write_job(tmp_path), "--journal", str(journal), "--speed", str(SPEED)]
    assert run([*asked, "--yes", "-o", "json"]) == 0
    (bill,) = json.loads(capsys.readouterr().out)["jobs"]
    with SqliteStore(journal) as store:
        events = [record.event for record in store.read(job="slow")]
    is_in_time(bill, events)
    paces = is_measured(events)
    assert bill["measured_work_gpu_hours"] == pytest.approx(TRUE_GPU_HOURS, rel=0.25)
    assert bill["work_gpu_hours"] == SAID_GPU_HOURS
    health_follows_evidence(events, paces)


def is_in_time(bill: dict[str, object], events: Sequence[Event]) -> None:
    """Done by the deadline, on more GPUs than the file alone asked for."""
    (ended,) = [event for event in events if isinstance(event, Ended)]
    assert (ended.status, bill["on_time"]) == ("succeeded", True), ended
    assert ended.finish_hours <= DEADLINE_HOURS
    widths = [event.spot_gpus + event.on_demand_gpus for event in events if isinstance(event, Decided)]
    assert (widths[0], max(widths) > 1) == (1, True), widths


def is_measured(events: Sequence[Event]) -> list[PaceRevised]:
    """The journal holds how the pace was revised, each time with a reason; the last says half the pace."""
    paces = [event for event in events if isinstance(event, PaceRevised)]
    assert paces
    assert all(event.why for event in paces)
    last = paces[-1]
    assert mean_factor(last.pace, last.gpus) == pytest.approx(SAID_GPU_HOURS / TRUE_GPU_HOURS, rel=0.25)
    return paces


def health_follows_evidence(events: Sequence[Event], paces: Sequence[PaceRevised]) -> None:
    """Nobody calls the job on time before its pace was measured."""
    healths = [event for event in events if isinstance(event, HealthChanged)]
    assert healths[0].health == "measuring"
    calm = [event for event in healths if event.health == "on-time"]
    assert all(event.at_hours >= paces[0].at_hours for event in calm)
