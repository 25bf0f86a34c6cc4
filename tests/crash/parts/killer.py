"""Run a job under controllers that are killed with SIGKILL at random moments, then let one finish it.

Controllers are forked from this process, which has everything imported, so that a hundred of them take
seconds. Prints what was counted as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import slacktide.policies.uniform_progress
import slacktide.simulation.plain  # noqa: F401
from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.setup import Setup
from slacktide.app.jobs.submission import Submission
from slacktide.engine.bills.audit import audit
from slacktide.engine.bills.bill import bill
from slacktide.journal.events import Decided, Preempted, WorkerFailed
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.sqlite import SqliteStore


def controller(journal: Path, job: str, speed: float) -> None:
    """Be a controller until the job has ended or we are killed."""
    with Controller(journal, Setup(speed=speed, learned=journal.with_name("learn.json"))) as running:
        if running.active_of(job) is None:
            running.submit(Submission.read(job))
        running.run(poll_s=0.01)


def forked(journal: Path, job: str, speed: float) -> int:
    """Start a controller and return its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            controller(journal, job, speed)
            code = 0
        finally:
            os._exit(code)
    return pid


def main(folder: str, kills: int, seed: int, speed: float) -> None:
    """Kill controllers, let one finish, and say what was found."""
    journal, job, rng = Path(folder) / "journal.db", str(Path(folder) / "job.yaml"), random.Random(seed)
    killed = 0
    while killed < kills:
        pid = forked(journal, job, speed)
        time.sleep(rng.uniform(0.0, 0.35))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            break  # it had finished before we came, or failed
        killed += 1
    pid = forked(journal, job, speed)
    _, status = os.waitpid(pid, 0)
    print(json.dumps(found(journal, killed, os.waitstatus_to_exitcode(status))))


def found(journal: Path, killed: int, code: int) -> dict[str, object]:
    """Say what the journal tells."""
    with SqliteStore(journal) as store:
        state = read_state(store)
        records = list(store.read())
    (job_record,) = state.jobs.values()
    from slacktide.engine.job.job_context import context_of

    context = context_of(job_record.submitted)
    checked = audit(job_record, context, records)
    paid = bill(job_record, context)
    return {
        "killed": killed,
        "code": code,
        "status": job_record.status,
        "gaps": list(checked.gaps),
        "wrong": list(checked.wrong),
        "cost_usd": paid.cost_usd,
        "audited_usd": checked.cost_usd,
        "preemptions": sum(isinstance(record.event, Preempted) for record in records),
        "moves": job_record.holding.moves,
        "decisions": sum(isinstance(record.event, Decided) for record in records),
        "failures": [record.event.why for record in records if isinstance(record.event, WorkerFailed)],
    }


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
