"""The bill of machines beside that of jobs that an engine ran, on one journal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from slacktide.app.jobs.submission import Submission
from slacktide.app.journal.costs import machine_costs, site_cost
from slacktide.journal.events import ClockSet, Joined, Rented, Returned
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.base import MemoryStore

from .parts_of_admission import Desk, write_job

START = datetime(2026, 1, 1, tzinfo=UTC)
POOL = "h100-1"


class Wall:
    """A wall clock that the test moves."""

    hours = 0.0

    def __call__(self) -> datetime:
        return START + timedelta(hours=self.hours)


def test_jobs_use_what_is_rented_and_the_rest_is_idle(tmp_path: Path) -> None:
    wall = Wall()
    store = MemoryStore(clock=wall)
    store.append([ClockSet(at_hours=0.0, epoch_utc=START.isoformat(), speed=1.0)])
    for kind in ("spot", "on-demand"):
        store.append([
            Rented(at_hours=0.0, ticket=kind, capacity=kind, pool=POOL, gpus=8, usd_per_hour=10.0),
            Joined(at_hours=0.0, ticket=kind, machine=f"i-{kind}", address="ip", boot_hours=0.0),
        ])  # fmt: skip
    desk = Desk(store, tmp_path)
    desk.intake.take(Submission.read(write_job(tmp_path)))
    while desk.engine.state.active:
        desk.engine.step(wall.hours)
        wall.hours += 0.25
    end = wall.hours
    store.append([Returned(at_hours=end, ticket=kind, cause="not-wanted") for kind in ("spot", "on-demand")])
    wall.hours = end + 5.0
    state = read_state(store)
    found = site_cost(state, store.read(), in_charge=True).machines
    assert found is not None
    total, (job,) = found.bill.total, state.jobs.values()
    assert (total.machines, total.hours, total.cost_usd) == (2, 2 * end, 20.0 * end)
    used = job.money.bill.spot_gpu_hours + job.money.bill.on_demand_gpu_hours
    assert used > 1.0
    assert found.used_gpu_hours(total) == pytest.approx(used)
    assert found.idle_gpu_hours(total) == pytest.approx(16.0 * end - used)
    assert found.used_share(total) == pytest.approx(used / (16.0 * end))
    kinds = {one.capacity: found.used_gpu_hours(one) for one in found.bill.pools}
    assert kinds["spot"] == pytest.approx(job.money.bill.spot_gpu_hours)
    assert kinds["on-demand"] == pytest.approx(job.money.bill.on_demand_gpu_hours)


def test_a_journal_without_machines_has_no_such_bill() -> None:
    store = MemoryStore()
    store.append([ClockSet(at_hours=0.0, epoch_utc=START.isoformat(), speed=1.0)])
    assert machine_costs(store.read()) is None
