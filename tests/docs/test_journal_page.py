"""The page about the journal names every event and its fields, and its queries run."""

from __future__ import annotations

import dataclasses
import re
import sqlite3
from pathlib import Path

import pytest

from slacktide.checks.history import HISTORY, JOB
from slacktide.journal.events import KINDS, Event
from slacktide.journal.store.paths import journal_path
from slacktide.journal.store.sqlite import SqliteStore

PAGE = (Path(__file__).parents[2] / "docs/reference/journal.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([A-Z]\w+)` \| (.*) \|$", PAGE, re.M))


def test_every_kind_of_event_is_documented_and_no_other() -> None:
    assert list(ROWS) == list(KINDS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_event_has_a_sentence_and_its_fields(kind: type[Event]) -> None:
    sentence, fields = (part.strip() for part in (ROWS[kind.__name__] + " ").split("|"))
    assert sentence.endswith(".")
    common = {field.name for field in dataclasses.fields(Event)}
    own = [field.name for field in dataclasses.fields(kind) if field.name not in common]
    assert re.findall(r"`(\w+)`", fields) == own


def test_its_queries_and_its_code_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path))
    with SqliteStore(journal_path()) as store:
        store.append(HISTORY)
    (queries,), (code,) = (re.findall(rf"```{name}\n(.*?)```", PAGE, re.S) for name in ("sql", "python"))
    database = sqlite3.connect(journal_path())
    answers = [database.execute(query).fetchall() for query in queries.split(";") if query.strip()]
    database.close()
    assert len(answers[0]) == min(20, len(HISTORY))
    assert answers[1:] == [
        [(JOB, 0.15)],
        [(1, 3, 0, 'spot "lives" longer than a restart takes')],
        [(JOB, "cancelled", 9.2)],
    ]
    exec(compile(code, "journal.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) == sum(event.job == JOB for event in HISTORY)
