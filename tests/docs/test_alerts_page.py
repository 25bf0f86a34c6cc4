"""The pages about alerts say what the code does: their file is read, their code checks a real signature."""

from __future__ import annotations

import dataclasses
import re
import time
from pathlib import Path
from typing import Any

from slacktide.app.alerts.alert import KINDS
from slacktide.app.alerts.file import KEYS, parse_alerts
from slacktide.app.alerts.outbox import HookStatus
from slacktide.app.alerts.sending import Trial, document, signature
from tests.unit.app.alerts.parts_of_alerts import SECRET, alert

DOCS = Path(__file__).parents[2] / "docs"
HOWTO = (DOCS / "howto/alerts.md").read_text(encoding="utf-8")
REFERENCE = (DOCS / "reference/alerts.md").read_text(encoding="utf-8")
JSON = (DOCS / "reference/json.md").read_text(encoding="utf-8").partition("## slacktide alerts")[2]


def block(language: str) -> str:
    """Return the one code block of the page in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", HOWTO, re.M | re.S)
    return str(found)


def test_the_example_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "note.sh").write_text("#!/bin/sh\n")
    (tmp_path / "note.sh").chmod(0o700)
    (tmp_path / "pager.secret").write_bytes(SECRET)
    (tmp_path / "pager.secret").chmod(0o600)
    given = {"SLACK_WEBHOOK_URL": "https://hooks.slack.com/services/x"}
    file = parse_alerts(block("toml"), path=tmp_path / "alerts.toml", environment=given)
    assert [hook.name for hook in file.hooks] == ["team-channel", "pager", "log"]


def test_the_check_of_a_signature_works() -> None:
    page: dict[str, Any] = {}
    exec(compile(block("python"), "alerts.md", "exec"), page)
    now, is_ours = int(time.time()), page["is_ours"]
    assert is_ours(SECRET, signature(SECRET, b"{}", now), b"{}")
    assert not is_ours(SECRET, signature(SECRET, b"{}", now), b"{ }")
    assert not is_ours(SECRET, signature(b"another secret....", b"{}", now), b"{}")
    assert not is_ours(SECRET, signature(SECRET, b"{}", now - 3600), b"{}"), "an old message"


def test_every_kind_and_key_is_documented() -> None:
    assert re.findall(r"^\| `([a-z-]+)` \|", HOWTO, re.M) == list(KINDS)
    part = REFERENCE.partition("## Alerts file")[2].partition("## Request")[0]
    assert re.findall(r"^\| `(\w+)` \|", part, re.M) == list(KEYS)
    part = REFERENCE.partition("## Payload")[2].partition("`details` of")[0]
    assert re.findall(r"^\| `(\w+)` \|", part, re.M) == list(document(alert(), ""))
    assert [f"`{field.name}`" in JSON for field in dataclasses.fields(Trial)] == [True] * 4
    part = JSON.partition("## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", part, re.M) == [one.name for one in dataclasses.fields(HookStatus)]
