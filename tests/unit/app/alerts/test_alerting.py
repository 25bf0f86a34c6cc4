"""A controller's alerts: told before it ends, told later where nobody took them, and never in its way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slacktide.app.alerts import alerting
from slacktide.app.alerts.alert import Alert, AlertsFile, Hook
from slacktide.app.alerts.alerting import Alerting
from slacktide.app.alerts.outbox import Outbox
from slacktide.app.alerts.sending import Answer
from slacktide.app.alerts.watch import Watch
from slacktide.app.jobs.controller import Controller
from slacktide.app.jobs.setup import Setup
from slacktide.app.jobs.submission import Submission
from slacktide.journal.events import Event, FeedTroubled, Record
from slacktide.journal.store.sqlite import SqliteStore
from tests.unit.app.parts_of_admission import write_job

OPS = Hook(name="ops", command=("true",))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal with a trouble from long ago."""
    append(tmp_path / "journal.db", trouble("long ago"), trouble(""))
    return tmp_path / "journal.db"


def trouble(why: str) -> FeedTroubled:
    return FeedTroubled(at_hours=0.0, why=why)


def append(journal: Path, *events: Event) -> int:
    with SqliteStore(journal) as store:
        return store.append(events)[-1].seq


class Post:
    """A sender that takes what comes, as long as it is to."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.came = list(answers), list[tuple[str, str]]()

    def __call__(self, hook: Hook, alert: Alert, dashboard: str) -> Answer:
        self.came.append((hook.name, str(alert.details.get("why"))))
        return self.answers.pop(0) if self.answers else Answer(True, "")


def alerts(journal: Path, *hooks: Hook) -> AlertsFile:
    return AlertsFile(path=journal.with_name("alerts.toml"), hooks=hooks or (OPS,))


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def hooks_begin(running: Alerting) -> None:
    """Wait until all that was there is looked through: of that hooks are told nothing."""
    until(lambda: bool(running.statuses()))


def test_a_job_is_told_before_its_controller_ends(tmp_path: Path) -> None:
    script = tmp_path / "note.sh"
    script.write_text(
        '#!/bin/sh\necho "$SLACKTIDE_ALERT_KIND $SLACKTIDE_ALERT_JOB $SLACKTIDE_ALERT_URL" >> came\n'
    )
    script.chmod(0o700)
    hook = replace(OPS, command=(str(script),), folder=tmp_path)
    setup = Setup(
        backend="replay", speed=36000.0, learned=tmp_path / "learn.json", alerts=alerts(script, hook),
        dashboard="http://127.0.0.1:8470",
    )  # fmt: skip
    with Controller(tmp_path / "journal.db", setup) as controller:
        controller.submit(Submission.read(write_job(tmp_path, work="1 gpu-hours")))
        controller.run(poll_s=0.01)
    told = (tmp_path / "came").read_text().splitlines()
    assert told[-1] == "done job http://127.0.0.1:8470/jobs/job"
    assert (Controller(tmp_path / "journal.db").hooks()) == []


def test_history_is_not_told_and_what_comes_is(journal: Path) -> None:
    post = Post()
    with Alerting(journal, alerts(journal), sender=post) as running:
        hooks_begin(running)
        running.notice(append(journal, trouble("new")))
        until(lambda: len(post.came) == 1)
        assert [one.name for one in running.statuses()] == ["ops"]
    assert post.came == [("ops", "new")]


def test_where_hooks_begin_is_on_the_disk_before_they_do(journal: Path) -> None:
    with Alerting(journal, alerts(journal), sender=Post()) as running:
        until(lambda: bool(running.statuses()))
        kept = running._outbox.watched()  # all that is left if it is killed now
        assert kept is not None
        assert kept[0] == 2


def test_what_nobody_takes_is_sent_by_the_next_controller(journal: Path) -> None:
    deaf = Post(*[Answer(False, "HTTP 500")] * 99)
    with Alerting(journal, alerts(journal), sender=deaf) as running:
        hooks_begin(running)
        running.notice(append(journal, trouble("new"), trouble(""), trouble("newer")))
        until(lambda: bool(deaf.came))
    append(journal, trouble(""), trouble("while it was away"))
    post = Post()
    with Alerting(journal, alerts(journal), sender=post):
        pass
    assert post.came == [("ops", "new"), ("ops", "newer"), ("ops", "while it was away")]
    assert set(deaf.came) == {("ops", "new")}, "in order"


def test_a_hook_that_hangs_holds_up_neither_others_nor_the_end(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "GRACE_S", 0.1)
    post, over = Post(), threading.Event()

    def sender(hook: Hook, alert: Alert, dashboard: str) -> Answer:
        if hook.name == "stuck":
            over.wait(60)
        return post(hook, alert, dashboard)

    with Alerting(journal, alerts(journal, replace(OPS, name="stuck"), OPS), sender=sender) as running:
        hooks_begin(running)
        running.notice(append(journal, trouble("new"), trouble(""), trouble("newer")))
        until(lambda: len(post.came) == 2)
    assert post.came == [("ops", "new"), ("ops", "newer")]
    over.set()
    for thread in running._threads:
        thread.join()
    assert ("stuck", "new") in post.came


def test_whatever_goes_wrong_is_said_once_and_tried_again(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "RETRY_S", 0.01)
    post, tries, apply, keep = Post(), list[int](), Watch.apply, Outbox.sent

    def failing(self: Watch, record: Record) -> list[Alert]:
        tries.append(1)
        if len(tries) <= 3:
            raise ZeroDivisionError
        return apply(self, record)

    monkeypatch.setattr(Watch, "apply", failing)
    noted = list[int]()

    def broken(self: Outbox, hook: str, number: int) -> None:
        noted.append(number)
        if len(noted) < 3:
            raise OSError("no disk")
        keep(self, hook, number)

    monkeypatch.setattr(Outbox, "sent", broken)
    with Alerting(journal, alerts(journal), sender=post) as running:
        until(lambda: len(tries) > 4)
        running.notice(append(journal, trouble("new")))
        until(lambda: running.statuses() != [] and running.statuses()[0].sent == 1)
        said = list(running.said())
    assert post.came == [("ops", "new")] * 3, "at least once"
    assert [line.partition(", got")[0] for line in said] == [
        "they must be found and kept",
        "hook ops must keep working",
    ]
