"""A controller reads its journal once, leaves a snapshot for the next, stays as long as it is to, learns."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slacktide import cli
from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.setup import Setup
from slacktide.app.jobs.submission import Defaults, FleetText, Submission
from slacktide.app.journal.journal import open_journal
from slacktide.app.journal.live_status import Standings
from slacktide.journal.events import Ended, Event, Record
from slacktide.journal.state.journal_state import JournalState
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.sqlite import SqliteStore
from slacktide.policies.selection.policy_set import fresh
from tests import build

from .parts_of_admission import write_job

FINISHED = Path(__file__).parents[2] / "golden" / "journals" / "finished.db"


def dry(folder: Path) -> Setup:
    """A controller that starts nothing, and learns apart from the user."""
    return Setup(backend="replay", learned=folder / "learn.json")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of all events that are read from now on."""
    seen: list[int] = []
    original = SqliteStore.read

    def counting(self: SqliteStore, after: int = 0, job: str | None = None) -> Iterator[Record]:
        for record in original(self, after, job):
            seen.append(record.seq)
            yield record

    monkeypatch.setattr(SqliteStore, "read", counting)
    return seen


def test_a_controller_reads_every_event_once_and_later_ones_only_the_rest(
    tmp_path: Path, read: list[int]
) -> None:
    journal = Path(shutil.copy(FINISHED, tmp_path))
    with Controller(journal, dry(tmp_path)) as controller:
        # What it wrote itself, that it took charge, it need not read.
        assert controller.engine.state.seq - 1 == len(read) == len(set(read))
        assert len(read) > 20
    with SqliteStore(journal) as store:
        last = store.last_seq()
    read.clear()
    with Controller(journal, dry(tmp_path)) as controller:
        assert read == [last + 1, last + 2]  # that the clock was set, and where it stands
        assert "finished" in controller.state.jobs


def test_who_asks_begins_with_the_snapshot_too(tmp_path: Path, read: list[int]) -> None:
    journal = Path(shutil.copy(FINISHED, tmp_path))
    with Controller(journal, dry(tmp_path)):
        pass
    read.clear()
    with SqliteStore(journal) as store:
        assert read_state(store).jobs["finished"].status == "succeeded"
    assert read == []


def test_a_list_of_jobs_reads_no_job_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = tmp_path / "journal.db"
    with SqliteStore(journal) as store:
        store.append([event for number in range(3) for event in _finished(f"job-{number}")])
    assert cli.run(["jobs", "--journal", str(journal), "-o", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)["jobs"]
    assert [(one["name"], one["work_gpu_hours"], one["deadline_hours"]) for one in listed] == [
        ("job-0", 8.0, 6.0), ("job-1", 8.0, 6.0), ("job-2", 8.0, 6.0)
    ]  # fmt: skip


def _finished(job: str) -> list[Event]:
    return [
        build.submitted(
            job,
            text="whatever is here is not read",
            path="job.yaml",
            policy='"on-demand"',
            work_gpu_hours=8.0,
            deadline_hours=6.0,
        ),
        Ended(job=job, at_hours=2.0, status="succeeded", finish_hours=2.0),
    ]


class Wall:
    """Stops a controller once some condition holds of it."""

    def __init__(self, controller: Controller, *conditions: Callable[[JournalState], bool]) -> None:
        self._controller, self._conditions = controller, list(conditions)

    def __call__(self) -> bool:
        if self._conditions and self._conditions[0](self._controller.state):
            self._conditions.pop(0)
        return not self._conditions


def asked(journal: Path, path: str, key: str) -> str:
    with open_journal(journal, create=True) as client:
        return client.submit(Submission.read(path, key=key))


def fast(folder: Path) -> Setup:
    return Setup(backend="replay", learned=folder / "learn.json", speed=36_000.0)


def test_a_controller_stays_when_its_jobs_have_ended_and_the_market_begins_anew(tmp_path: Path) -> None:
    journal, path = tmp_path / "journal.db", write_job(tmp_path)
    asked(journal, path, "a")

    def ended_then_ask_again(state: JournalState) -> bool:
        if "job" not in state.jobs or state.active:
            return False
        asked(journal, path, "b")
        return True

    with Controller(journal, fast(tmp_path)) as controller:
        stop = Wall(controller, ended_then_ask_again, lambda state: len(state.jobs) == 2 and not state.active)
        controller.run(staying=True, stopping=stop, poll_s=0.001)
        assert [job_record.status for job_record in controller.state.jobs.values()] == ["succeeded"] * 2
        slots = {job_record.submitted.start_slot for job_record in controller.state.jobs.values()}
        assert len(slots) == 1, "a recorded market does not come to its end while nothing runs"
        assert controller.journal.cost_of_all().bill.audit.clean
    with SqliteStore(journal) as store:
        told = [type(record.event).__name__ for record in store.read()]
    assert (told.count("ClockSet"), told.count("SiteOpened"), told[-1]) == (2, 2, "Closed")


def test_the_clock_of_a_fleet_on_a_market_goes_on_though_no_job_is_left(tmp_path: Path) -> None:
    journal, path = tmp_path / "journal.db", write_job(tmp_path)
    classes = "classes: [{name: small, arrivals: 1/hour, work: 2 gpu-hours, widths: 1..4}]"
    fleet = FleetText(f"budget: 7 gpus\npolicy: patient-spot\n{classes}\n", "/fleet.yaml")
    setup = replace(fast(tmp_path), defaults=Defaults(fleet=fleet))
    spent: list[float] = []

    def over(state: JournalState) -> bool:
        return len(state.jobs) > len(spent) and not state.active

    for key in ("a", "b"):
        asked(journal, path, key)
        with Controller(journal, setup) as controller:
            stop = Wall(controller, over)
            controller.run(staying=True, stopping=stop, poll_s=0.001)
            (record,) = controller.state.fleets.values()
            spent.append(record.spending.total_usd)
            assert record.spending.total_usd == pytest.approx(
                sum(job.progress.state.cost_usd for job in controller.state.jobs.values())
            )
    assert 0.0 < spent[0] < spent[1]


def test_what_was_asked_while_a_controller_stops_waits_for_the_next(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with Controller(journal, fast(tmp_path)) as controller:
        asked(journal, write_job(tmp_path), "a")
        controller.run(staying=True, stopping=lambda: True)
        assert list(controller.state.requests.waiting) == ["a"]
    with open_journal(journal) as client:
        assert not client.in_charge
        assert client.wait("a") is None
    with Controller(journal, fast(tmp_path)) as controller:
        controller.run(poll_s=0.001)
        assert controller.state.jobs["job"].status == "succeeded"
        assert controller.journal.wait("a") == "job"


def test_a_run_takes_in_what_others_ask_for_and_ends_with_it(tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with Controller(journal, fast(tmp_path)) as controller:
        controller.submit(Submission.read(write_job(tmp_path)))
        asked(journal, write_job(tmp_path, name="other.yaml", policy="on-demand"), "a")
        controller.run(poll_s=0.001)
        assert [record.status for record in controller.state.jobs.values()] == ["succeeded"] * 2
        assert controller.active_of(write_job(tmp_path)) is None


def test_a_controller_learns_in_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = ("on-demand", "uniform-progress")
    monkeypatch.setattr("slacktide.app.jobs.controller.fresh", lambda: fresh(quick))
    journal = tmp_path / "journal.db"
    asked(journal, write_job(tmp_path, policy="auto"), "a")
    with Controller(journal, fast(tmp_path)) as controller:
        stop = Wall(controller, lambda state: "job" in state.jobs and state.jobs["job"].progress.learned)
        controller.run(staying=True, stopping=stop, poll_s=0.001)


def test_the_live_view_is_late_by_the_same_rule_as_the_list(tmp_path: Path) -> None:
    with Controller(tmp_path / "journal.db", dry(tmp_path)) as controller:
        job = controller.submit(Submission.read(write_job(tmp_path)))
        began = controller.began()[job]
        standings = Standings(controller.engine)
        before, after = (standings.of(job, began + hours) for hours in (0.1, 12.5))
    assert before is not None
    assert after is not None
    assert (before.health, after.health) == ("on-time", "late")
