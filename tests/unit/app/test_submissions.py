"""Jobs are submitted through the journal: answered once, refused with the reason, without their secrets."""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from slacktide.allocators.patient_spot import PatientSpot
from slacktide.allocators.view import FleetView
from slacktide.app.jobs.requests import UnknownJobError, WithdrawnError
from slacktide.app.jobs.submission import Defaults, FleetText, Submission
from slacktide.app.journal.journal import Journal
from slacktide.app.markets.market import MarketSpec
from slacktide.core import files
from slacktide.core.errors import BackendError, InfeasibleError, InputError, SlacktideError
from slacktide.core.types import Refusal
from slacktide.engine.job.job_context import context_of
from slacktide.files import job as job_file
from slacktide.journal.events import ClockSet, Event, Record, SubmissionAsked, SubmissionRefused, Submitted
from slacktide.journal.state.journal_state import JournalState, RequestAnswer
from slacktide.journal.state.snapshots import read_state
from slacktide.journal.store.base import MemoryStore, Store
from slacktide.journal.store.env_values import job_values
from slacktide.journal.store.sqlite import SqliteStore
from tests import build

from .parts_of_admission import Desk, write_job


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "journal.db")
    with made as opened:
        yield opened


def ask(store: Store, path: str, key: str) -> None:
    """Ask that a job be run, as another process does."""
    assert Journal(store).submit(Submission.read(path, key=key)) == key


def kinds(store: Store) -> list[str]:
    return [type(record.event).__name__ for record in store.read()]


def test_a_request_becomes_a_job_that_knows_its_key(store: Store, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path)
    ask(store, write_job(tmp_path), "k")
    assert [asked.key for asked in desk.journal.waiting()] == ["k"]
    desk.answer()
    assert kinds(store) == ["SubmissionAsked", "SiteOpened", "Submitted"]
    assert desk.engine.state.jobs["job"].submitted.key == "k"
    assert desk.journal.wait("k") == "job"
    desk.answer()
    assert len(kinds(store)) == 3


def test_the_same_key_twice_is_one_job_and_other_keys_are_others(store: Store, tmp_path: Path) -> None:
    desk, path = Desk(store, tmp_path), write_job(tmp_path)
    for key in ("a", "a", "b"):
        ask(store, path, key)
    desk.answer()
    ask(store, path, "a")
    desk.answer()
    assert kinds(store).count("Submitted") == kinds(store).count("SubmissionAsked") == 2
    assert desk.engine.state.requests.answers == {"a": RequestAnswer("job"), "b": RequestAnswer("job-2")}


def test_two_clients_who_race_with_one_key_get_one_job(tmp_path: Path) -> None:
    store = MemoryStore()
    ask(store, write_job(tmp_path), "a")
    store.append([record.event for record in store.read()])
    desk = Desk(store, tmp_path)
    desk.answer()
    assert list(desk.engine.state.jobs) == ["job"]


@pytest.mark.parametrize(
    ("changes", "pool", "code", "words"),
    [
        ({"deadline": "1m"}, None, 3, "the deadline of 0.0166667 h cannot be met"),
        ({"deadline": "400h"}, None, 2, "the market must cover the deadline of 400 h"),
        ({"policy": "uniform-progress"}, "nowhere", 2, "nowhere"),
    ],
)
def test_a_refusal_is_what_the_controllers_own_process_would_have_met(
    tmp_path: Path, changes: dict[str, str], pool: str | None, code: int, words: str
) -> None:
    store = MemoryStore()
    desk, text = Desk(store, tmp_path), Path(write_job(tmp_path, **changes)).read_text()
    path = str(tmp_path / "job.yaml")
    store.append(
        [SubmissionAsked(at_hours=0.0, actor="user", key="k", text=text, path=path, pool=pool or "")]
    )
    desk.answer()
    (refused,) = [record.event for record in store.read() if isinstance(record.event, SubmissionRefused)]
    assert refused.exit_code == code
    with pytest.raises(SlacktideError) as own:
        desk.intake.take(Submission.read(path, market=MarketSpec(pool=pool)))
    assert refused.why == str(own.value)
    assert words in refused.why
    with pytest.raises({2: InputError, 3: InfeasibleError}[code], match=words):
        desk.journal.wait("k")


def test_what_nobody_foresaw_is_an_answer_too(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request over which a controller fell would be met by the next one, and the one after that."""

    def broken(*given: object) -> None:
        raise ZeroDivisionError("of a policy")

    desk = Desk(store, tmp_path)
    ask(store, write_job(tmp_path), "k")
    monkeypatch.setattr("slacktide.app.jobs.controller.rehearse", broken)
    desk.answer()
    assert desk.engine.state.requests.answers["k"] == RequestAnswer("", "ZeroDivisionError: of a policy", 1)
    with pytest.raises(SlacktideError, match="of a policy"):
        desk.journal.wait("k")


@pytest.mark.parametrize("before", [True, False], ids=["before the write", "after the write"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_controller_killed_between_reading_and_answering_leaves_each_request_one_answer(
    tmp_path: Path, nth: int, before: bool
) -> None:
    store = build.DyingStore()
    ask(store, write_job(tmp_path), "good")
    late = Path(write_job(tmp_path, name="late.yaml", deadline="1m")).read_text()
    asked = SubmissionAsked(at_hours=0.0, actor="user", key="bad", text=late, path="/late.yaml")
    store.append([asked])
    ask(store, write_job(tmp_path), "other")
    first = Desk(store, tmp_path)
    store.left, store.before = nth, before
    with pytest.raises(build.Killed):
        first.answer()
    second = Desk(store, tmp_path)
    second.answer()
    answers = second.engine.state.requests.answers
    assert {key: answer.job for key, answer in answers.items()} == {
        "good": "job",
        "bad": "",
        "other": "job-2",
    }
    assert second.engine.state.requests.waiting == {}
    assert (kinds(store).count("Submitted"), kinds(store).count("SubmissionRefused")) == (2, 1)


def test_trouble_with_the_disk_is_no_answer(tmp_path: Path) -> None:
    class Full(MemoryStore):
        full = False

        def append(self, events: Iterable[Event]) -> list[Record]:
            if self.full:
                raise BackendError("no room on the disk")
            return super().append(events)

    store = Full()
    desk = Desk(store, tmp_path)
    ask(store, write_job(tmp_path), "k")
    store.full = True
    with pytest.raises(BackendError):
        desk.answer()
    store.full = False
    desk.answer()
    assert desk.engine.state.requests.answers == {"k": RequestAnswer("job")}


def once(error: BaseException, real: Callable[..., Any]) -> Callable[..., Any]:
    """Return what fails the first time, and then does as it should."""
    failures = [error]

    def run(*args: Any, **kwargs: Any) -> Any:
        if failures:
            raise failures.pop()
        return real(*args, **kwargs)

    return run


@pytest.mark.parametrize("policy", ["uniform-progress", "auto"])
@pytest.mark.parametrize("what", ["files", "journal"])
def test_a_disk_that_is_full_for_a_moment_refuses_no_job_that_was_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, policy: str
) -> None:
    monkeypatch.setenv("TAKEN", "value")
    path = write_job(tmp_path, more="envs: {TAKEN: }\n", policy=policy)
    with SqliteStore(tmp_path / "j.db") as store:
        desk = Desk(store, tmp_path)
        key = desk.journal.submit(Submission.read(path))
        if what == "files":
            monkeypatch.setattr(
                files, "replace_file", once(OSError(errno.ENOSPC, "full"), files.replace_file)
            )
        else:
            full = BackendError("no room")
            full.__cause__ = sqlite3.OperationalError("database or disk is full")
            monkeypatch.setattr(store, "append", once(full, store.append))
        with pytest.raises(BackendError):
            desk.answer()
        desk.answer()
        assert desk.engine.state.requests.answers == {key: RequestAnswer("job")}, "it was not refused"


def test_values_that_a_full_disk_does_not_take_are_no_mistake_of_who_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEN", "value")
    path, store = write_job(tmp_path, more="envs: {TAKEN: }\n"), MemoryStore()
    monkeypatch.setattr(files, "replace_file", once(OSError(errno.ENOSPC, "full"), files.replace_file))
    with pytest.raises(BackendError, match="must have space for values"):
        Desk(store, tmp_path).journal.submit(Submission.read(path))
    assert kinds(store) == []


def test_secrets_stay_out_of_the_journal_and_are_found_where_the_file_lies(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slacktide.engine.job.launch_spec import secrets_of

    monkeypatch.setenv("TAKEN", "from here")
    desk = Desk(store, tmp_path)
    path = write_job(tmp_path, more="secrets: {TOKEN: hush-hush}\nenvs: {TAKEN: }\n")
    desk.journal.submit(Submission.read(path, key="k"))
    monkeypatch.delenv("TAKEN")
    desk.answer()
    assert "hush-hush" not in repr(list(store.read()))
    context = desk.engine.context.jobs.named("job")
    assert context.file is not None
    assert context.file.envs == {"TAKEN": None}
    assert "hush-hush" not in repr(context.file) + repr(context.file.secrets)
    kept = desk.values.of(job_values("job"))
    assert secrets_of(context.file, kept) == {"TOKEN": "hush-hush", "TAKEN": "from here"}


def test_a_job_file_is_read_once_in_each_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    original = job_file._read

    def counting(*given: object) -> object:
        read.append(given)
        return original(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(job_file, "_read", counting)
    store, path = MemoryStore(), write_job(tmp_path)
    desk = Desk(store, tmp_path)
    desk.intake.take(Submission.read(path))
    desk.engine.step(0.1)
    assert len(read) == 1
    ask(store, path, "k")
    assert len(read) == 2
    desk.answer()
    desk.engine.step(0.2)
    assert len(read) == 3


def test_a_deadline_with_a_date_counts_from_the_moment_that_the_journal_names(tmp_path: Path) -> None:
    store = MemoryStore()
    date = (datetime.now(UTC) + timedelta(hours=12)).isoformat()
    desk = Desk(store, tmp_path)
    ask(store, write_job(tmp_path, deadline=date), "k")
    desk.answer()
    submitted = desk.engine.state.jobs["job"].submitted
    assert submitted.deadline_hours == context_of(submitted).job.deadline_hours < 12.0
    assert (
        desk.engine.context.jobs.named("job").terms.deadline_hours
        == context_of(submitted).terms.deadline_hours
    )


def test_two_jobs_of_a_file_may_not_share_a_checkpoint_folder(tmp_path: Path) -> None:
    desk = Desk(MemoryStore(), tmp_path)
    path = write_job(tmp_path, checkpoint="{dir: ckpt, every: 10m}")
    desk.intake.take(Submission.read(path))
    with pytest.raises(InputError, match=r"may use a checkpoint folder, but job has not ended"):
        desk.intake.take(Submission.read(path))


FLEET = FleetText(
    "budget: 6 gpus\nclasses:\n  - {name: small, arrivals_per_hour: 0.2, work: 4 gpu-hours, widths: 1..4}\n",
    "/fleet.yaml",
)


def asked_for(path: str, **more: str) -> SubmissionAsked:
    return SubmissionAsked(at_hours=0.0, key="k", text=Path(path).read_text(), path=path, **more)  # type: ignore[arg-type]


def test_what_a_request_leaves_open_is_as_the_controller_says(tmp_path: Path) -> None:
    path, market = write_job(tmp_path), MarketSpec(source="synthetic:volatile", pool="a")
    defaults = Defaults(market=market, policy="on-demand")
    usual, own = (
        defaults.submission(asked_for(path, **more))
        for more in ({}, {"policy": json.dumps({"ahap": {"window": 3}}), "pool": "b"})
    )
    assert (usual.policy, usual.market) == ("on-demand", market)
    assert (own.policy, own.market.pool) == ({"ahap": {"window": 3}}, "b")
    assert Defaults().submission(asked_for(path)).policy is None


def test_jobs_with_a_class_are_of_the_controllers_stream_and_others_by_themselves(tmp_path: Path) -> None:
    defaults = Defaults(fleet=FLEET, policy="online-width")
    alone = defaults.submission(asked_for(write_job(tmp_path)))
    assert (alone.fleet, alone.policy) == (None, None)
    member = defaults.submission(asked_for(write_job(tmp_path), job_class="small"))
    assert (member.fleet, member.policy, member.file.fleet_class) == (FLEET, "online-width", "small")
    store = MemoryStore()
    store.append([asked_for(write_job(tmp_path), job_class="small")])
    desk = Desk(store, tmp_path, defaults)
    desk.answer()
    submitted = desk.engine.state.jobs["job"].submitted
    assert (submitted.fleet, json.loads(submitted.policy)) == (FLEET.text, "online-width")
    assert job_file.parse_job(submitted.text).fleet_class == "small"


def test_a_class_needs_a_fleet(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="start the controller with --fleet"):
        Defaults().submission(asked_for(write_job(tmp_path), job_class="small"))


def test_an_answer_is_waited_for_as_long_as_somebody_is_in_charge(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(store, tmp_path)
    ask(store, write_job(tmp_path), "k")
    assert desk.journal.wait("k") is None, "nobody is in charge"
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            desk.answer()

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr(Journal, "in_charge", True)
    assert (desk.journal.wait("k"), len(naps)) == ("job", 3)


def test_the_answer_that_a_controller_gave_last_is_not_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    desk = Desk(store, tmp_path)
    ask(store, write_job(tmp_path), "k")

    def gone_after_answering(journal: Journal) -> bool:
        desk.answer()
        return False

    monkeypatch.setattr(Journal, "in_charge", property(gone_after_answering))
    assert desk.journal.wait("k") == "job"


def test_a_new_clock_keeps_what_waits(tmp_path: Path) -> None:
    store = MemoryStore()
    ask(store, write_job(tmp_path), "k")
    store.append([ClockSet(at_hours=0.0, epoch_utc=datetime.now(UTC).isoformat(), speed=1.0)])
    assert list(read_state(store).requests.waiting) == ["k"]
    submitted = [record.event for record in store.read() if isinstance(record.event, Submitted)]
    assert submitted == []


def test_a_submission_that_waits_can_be_withdrawn(store: Store, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path)
    ask(store, write_job(tmp_path), "k")
    assert desk.journal.cancel("k")
    assert desk.journal.waiting() == []
    desk.answer()
    assert desk.engine.state.jobs == {}
    with pytest.raises(WithdrawnError, match="withdrawn by the user") as caught:
        desk.journal.wait("k")
    assert caught.value.exit_code == 103
    with pytest.raises(UnknownJobError):
        desk.journal.cancel("k")


def test_a_submission_that_is_withdrawn_while_it_is_taken_in_does_not_run(
    store: Store, tmp_path: Path
) -> None:
    desk = Desk(store, tmp_path)
    ask(store, write_job(tmp_path), "k")
    desk.engine.read_on()
    assert desk.journal.cancel("k")  # which the controller has not heard of when it writes
    desk.intake.answer(desk.defaults)
    desk.engine.step(0.0)
    assert desk.engine.state.jobs["job"].status == "cancelled"
    assert desk.engine.state.jobs["job"].money.bill.cost_usd == 0.0


def test_a_submission_that_was_taken_in_a_moment_before_is_cancelled(store: Store, tmp_path: Path) -> None:
    desk = Desk(store, tmp_path)
    ask(store, write_job(tmp_path), "k")

    def late() -> JournalState:
        state = read_state(store)
        desk.answer()
        return state

    assert not Journal(store, state=late).cancel("k")
    desk.engine.step(0.0)
    assert desk.engine.state.jobs["job"].status == "cancelled"
    assert desk.journal.wait("k") == "job"


MARKET_FLEET = FleetText(
    "budget: 7 gpus\npolicy: {patient-spot: {width: 2, wait_hours: 0.5}}\n"
    "classes: [{name: small, arrivals: 1/hour, work: 2 gpu-hours, widths: 1..4}]\n",
    "/fleet.yaml",
)
POOLS = "synthetic:h100?days=4&slot=30m&seed=2&pools=3"


def test_every_job_is_in_a_fleet_on_a_market_unless_it_has_a_policy_of_its_own(tmp_path: Path) -> None:
    store = MemoryStore()
    desk = Desk(store, tmp_path, Defaults(fleet=MARKET_FLEET))
    ask(store, write_job(tmp_path, market=POOLS), "due")
    alone = write_job(tmp_path, market=POOLS, name="alone.yaml")
    desk.journal.submit(Submission.read(alone, key="alone", policy="uniform-progress"))
    soon = Path(write_job(tmp_path, market=POOLS, name="soon.yaml", more="class: small\n"))
    text = soon.read_text(encoding="utf-8")
    soon.write_text(text.replace("deadline: 12h\n", ""), encoding="utf-8")
    ask(store, str(soon), "soon")
    desk.answer()
    jobs = {record.submitted.key: record.submitted for record in desk.engine.state.jobs.values()}
    assert (jobs["due"].fleet, jobs["due"].fleet_class) == (MARKET_FLEET.text, "")
    assert json.loads(jobs["due"].policy) == {"patient-spot": {"width": 2, "wait_hours": 0.5}}
    assert len(jobs["due"].pools) == len(jobs["soon"].pools) == 3
    assert jobs["alone"].fleet == ""
    assert len(desk.engine.state.fleets) == 1


def test_what_a_fleet_cannot_promise_is_refused_and_nothing_else_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def admit(allocator: PatientSpot, view: FleetView) -> Refusal | None:
        """Take in no second job."""
        assert view.site is not None
        assert len(view.site.jobs.kind) == len(view.jobs.ids)
        few = len(view.jobs.ids) < 2
        return None if few else Refusal("this job may need 412 USD; 300 are left", deadline_hours=9.5)

    monkeypatch.setattr(PatientSpot, "admit", admit, raising=False)
    store = MemoryStore()
    desk = Desk(store, tmp_path, Defaults(fleet=MARKET_FLEET))
    for key in ("a", "b"):
        ask(store, write_job(tmp_path, market=POOLS), key)
        desk.answer()
        desk.engine.step(desk.engine.state.now_hours)
    answer = desk.engine.state.requests.answers["b"]
    assert (answer.job, answer.exit_code) == ("", InfeasibleError.exit_code)
    assert "may need 412 USD; 300 are left; it could be promised with a deadline of 9h30m" in answer.why
    assert list(desk.engine.state.jobs) == ["job"]
    with pytest.raises(InfeasibleError, match="could be promised"):
        desk.journal.wait("b")
