"""Alerts come in order and at least once, whatever fails and wherever it is cut off."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from slacktide.app.alerts.alert import Alert, Hook
from slacktide.app.alerts.alerting import EVERY_EVENTS, FIRST_S, LONGEST_S, AlertFinder, HookSender
from slacktide.app.alerts.outbox import Outbox
from slacktide.app.alerts.sending import Answer
from slacktide.core.errors import FileError
from slacktide.core.waits import GrowingWait
from slacktide.journal.events import FeedTroubled, JournalMade
from slacktide.journal.store.base import MemoryStore

from .parts_of_alerts import alert

YES, NO, NEVER = Answer(True, "HTTP 200"), Answer(False, "HTTP 500"), Answer(False, "HTTP 400", final=True)


@pytest.fixture
def outbox(tmp_path: Path) -> Iterator[Outbox]:
    made = Outbox(tmp_path / "journal.db")
    yield made
    made.close()


class Bench:
    """A sender with a clock that a test sets, and a receiver whose answers a test gives."""

    def __init__(self, outbox: Outbox, *answers: Answer, on: tuple[str, ...] = ("done",)) -> None:
        self.outbox, self.answers, self.now_s = outbox, list(answers), 0.0
        self.came, self.said = list[str](), list[str]()
        outbox.know(["ops"])
        hook = Hook(name="ops", command=("true",), on=on)  # type: ignore[arg-type]
        self.sender = HookSender(
            hook,
            outbox,
            self.send,
            self.said.append,
            now_s=lambda: self.now_s,
            wait=GrowingWait(FIRST_S, LONGEST_S, lambda: 0.5),
        )

    def send(self, alert: Alert) -> Answer:
        self.came.append(alert.id)
        return self.answers.pop(0) if self.answers else YES

    def drain(self) -> float | None:
        """Step until there is nothing to do now; return how long to wait."""
        while (wait := self.sender.step()) == 0.0:
            pass
        return wait


def waits_s(drawn: float) -> list[float]:
    wait = GrowingWait(FIRST_S, LONGEST_S, lambda: drawn)
    return [wait.after_failure() for _ in range(999)]


def keep(outbox: Outbox, *alerts: Alert) -> None:
    outbox.keep(0, "{}", alerts)


def test_a_wait_doubles_up_to_an_hour() -> None:
    assert [waits_s(1.0)[failures - 1] for failures in (1, 2, 3, 12, 13, 999)] == [1, 2, 4, 2048, 3600, 3600]
    assert [waits_s(0.0)[failures - 1] for failures in (1, 2, 13)] == [0.5, 1.0, 1800.0]


def test_a_receiver_that_fails_is_tried_again_later_and_in_order(outbox: Outbox) -> None:
    bench = Bench(outbox, NO, NO, Answer(False, "HTTP 429", 100.0))
    keep(outbox, alert(1), alert(2))
    assert bench.drain() == 0.75
    bench.now_s = 0.7
    assert bench.drain() == pytest.approx(0.05)
    assert len(bench.came) == 1, "nothing is sent while it waits"
    bench.now_s = 1.0
    assert bench.drain() == 1.5
    bench.now_s = 3.0
    assert bench.drain() == 100.0, "the receiver says when to come again"
    bench.now_s = 103.0
    assert bench.drain() is None
    assert bench.came == ["1-done-x"] * 4 + ["2-done-x"]
    assert bench.said == [
        "hook ops (command true) must accept alerts, got HTTP 500; it is tried again",
        "hook ops (command true) works again",
    ]
    (status,) = outbox.statuses()
    assert (status.sent, status.failed, status.dropped, status.waiting, status.error) == (2, 3, 0, 0, None)


def test_an_alert_that_is_refused_does_not_hold_up_the_others(outbox: Outbox) -> None:
    bench = Bench(outbox, NEVER)
    keep(outbox, alert(1), alert(2))
    assert bench.drain() is None
    assert bench.came == ["1-done-x", "2-done-x"]
    assert bench.said == [
        "hook ops (command true) must accept alerts, got HTTP 400 for alert 1-done-x, which is left out"
    ]
    (status,) = outbox.statuses()
    assert (status.sent, status.failed, status.dropped) == (1, 1, 1)


def test_what_is_not_wanted_is_passed_over(outbox: Outbox) -> None:
    bench = Bench(outbox)
    keep(outbox, alert(1, "late"), alert(2), alert(3, "late"))
    assert bench.drain() is None
    assert bench.came == ["2-done-x"]
    assert outbox.statuses()[0].waiting == 0


def test_a_crash_between_sending_and_noting_it_sends_it_again(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(outbox)
    keep(outbox, alert(1))
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "sent", lambda hook, number: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            bench.drain()
    again, later = Bench(outbox), Bench(outbox)
    assert again.drain() is None
    assert later.drain() is None
    assert (bench.came, again.came, later.came) == (["1-done-x"], ["1-done-x"], [])


def test_hooks_have_places_of_their_own_and_a_new_one_begins_now(outbox: Outbox) -> None:
    outbox.know(["a"])
    keep(outbox, alert(1), alert(2))
    outbox.know(["a", "b"])
    keep(outbox, alert(3))
    assert [one.waiting for one in outbox.statuses()] == [3, 1]
    first, second = outbox.next("a"), outbox.next("b")
    assert first is not None
    assert second is not None
    assert (first[1].seq, second[1].seq) == (1, 3)
    outbox.know(["b"])
    outbox.sent("b", second[0])
    outbox.know(["a", "b"])
    assert [one.waiting for one in outbox.statuses()] == [0, 0], "a hook that was taken out begins anew"


def test_numbers_are_never_used_again(outbox: Outbox) -> None:
    bench = Bench(outbox)
    for number in range(3):
        keep(outbox, alert(number))
        bench.drain()
    assert outbox.statuses()[0].cursor == 3


def test_the_file_is_private_and_another_one_is_refused(tmp_path: Path, outbox: Outbox) -> None:
    assert outbox.path == tmp_path / ".journal.db.alerts"
    assert stat.S_IMODE(outbox.path.stat().st_mode) == 0o600
    other = tmp_path / ".other.db.alerts"
    other.write_bytes(b"something else" * 100)
    with pytest.raises(FileError, match="must be an intact file of waiting alerts"):
        Outbox(tmp_path / "other.db")
    newer = tmp_path / ".newer.db.alerts"
    with sqlite3.connect(newer) as database:
        database.execute("PRAGMA user_version = 9")
    with pytest.raises(FileError, match="form 1, got 9"):
        Outbox(tmp_path / "newer.db")


def trouble(why: str = "old") -> FeedTroubled:
    return FeedTroubled(at_hours=0.0, why=why)


def waiting(outbox: Outbox) -> list[int]:
    with sqlite3.connect(outbox.path) as database:
        rows = database.execute("SELECT json_extract(body, '$.seq') FROM alerts ORDER BY number")
        return [seq for (seq,) in rows]


def test_history_is_not_sent_but_all_since_then_is(outbox: Outbox) -> None:
    store = MemoryStore()
    store.append([JournalMade(at_hours=0.0, id="j"), trouble(), trouble("")])
    finder = AlertFinder(store, outbox)
    store.append([trouble()])  # between its beginning and its first look
    assert finder.catch_up() == 1
    finder.keep()
    store.append([trouble(""), trouble()])
    again = AlertFinder(store, outbox)  # the first one was killed
    assert again.catch_up() == 1
    assert again.catch_up() == 0
    assert waiting(outbox) == [4, 6]


def test_what_was_not_kept_is_found_again(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    AlertFinder(store, outbox)._keep([])
    store.append([trouble(), trouble(""), trouble()])
    with monkeypatch.context() as patch:
        patch.setattr(outbox, "keep", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            AlertFinder(store, outbox).catch_up()
    assert AlertFinder(store, outbox).catch_up() == 2
    assert waiting(outbox) == [1, 3]


def test_what_another_version_kept_only_says_how_far_it_was(outbox: Outbox) -> None:
    store = MemoryStore()
    store.append([trouble(), trouble(""), trouble(), trouble("")])
    outbox.keep(2, '{"another": "form"}', [])
    assert AlertFinder(store, outbox).catch_up() == 1
    assert waiting(outbox) == [3]


def test_an_older_copy_of_the_journal_begins_at_its_end(outbox: Outbox) -> None:
    store = MemoryStore()
    store.append([trouble()])
    outbox.keep(1000, "{}", [])
    finder = AlertFinder(store, outbox)
    assert finder.catch_up() == 0
    store.append([trouble(""), trouble()])
    assert finder.catch_up() == 1


def test_a_long_journal_is_kept_now_and_then(outbox: Outbox) -> None:
    store = MemoryStore()
    AlertFinder(store, outbox)._keep([])
    store.append([trouble("") for _ in range(EVERY_EVENTS + 10)])
    AlertFinder(store, outbox).catch_up()
    kept = outbox.watched()
    assert kept is not None
    assert kept[0] == EVERY_EVENTS
