"""The demo is what it says: real training, preempted for real, in time, with a bill that adds up."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from slacktide.engine.bills.audit import audit
from slacktide.engine.job.job_context import context_of
from slacktide.journal.events import Preempted
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.sqlite import SqliteStore


@pytest.mark.slow
def test_demo_trains_through_preemptions_and_ends_with_a_bill(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    command = [sys.executable, "-m", "slacktide", "demo", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with SqliteStore(out / "journal.db") as store:
        state, records = read_state(store), list(store.read())
    (job_record,) = state.jobs.values()
    context = context_of(job_record.submitted)
    assert job_record.status == "succeeded"
    assert "stochastic-horizon" in job_record.submitted.policy
    assert job_record.ended is not None
    assert context.job.on_time(job_record.ended.finish_hours)
    assert sum(isinstance(record.event, Preempted) for record in records) >= 2
    checked = audit(job_record, context, records)
    assert checked.clean
    assert re.search(rf"total +[0-9.]+ +{checked.cost_usd:.2f}", done.stdout)
    assert "clairvoyant" in done.stdout
    assert (out / "run.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (out / "run.html").read_text(encoding="utf-8")
