"""Every mistake in an alerts file is told with its line and what must hold, before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.app.alerts.alert import KINDS, Hook
from slacktide.app.alerts.file import parse_alerts, read_alerts_file
from slacktide.cli import run
from slacktide.core.errors import FileError, UnknownNameError

from .parts_of_alerts import SECRET, alert

WHOLE = """\
dashboard = "https://gpus.example.org/"

[[hook]]
name = "ops"
url_env = "SLACK_URL"
format = "slack"
on = ["late",
      "failed"]
jobs = ["train-*"]
owners = ["ann"]

[[hook]]
name = "pager"
url = "https://pager.example.org/alerts"
secret_file = "secret"

[[hook]]
name = "desk"
command = ["sh", "-c", "cat"]
"""


def parsed(text: str, folder: Path = Path("/nowhere")) -> tuple[Hook, ...]:
    given = {"SLACK_URL": "https://hooks.slack.com/services/hush", "SHORT": "short", "SIGN": SECRET.decode()}
    return parse_alerts(text, path=folder / "alerts.toml", environment=given).hooks


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET + b"\nmore\n")
    (tmp_path / "secret").chmod(0o600)
    slack, pager, desk = parsed(WHOLE, tmp_path)
    assert (slack.shown, slack.format, slack.on) == ("https://hooks.slack.com", "slack", ("late", "failed"))
    assert (pager.secret, pager.on, pager.allow_private) == (SECRET, KINDS, False)
    assert (desk.command, desk.folder, desk.shown) == (("sh", "-c", "cat"), tmp_path, "command sh")
    assert "hush" not in repr(slack)
    assert SECRET.decode() not in repr(pager)


def test_hooks_choose(tmp_path: Path) -> None:
    hook = parsed(
        '[[hook]]\nname = "a"\nurl = "https://x.org"\non = ["late"]\njobs = ["a-*"]\nowners = ["ann"]'
    )[0]
    given = [("late", "a-1"), ("late", "b-1"), ("done", "a-1"), ("test", "b-1")]
    assert [hook.wants(alert(kind=kind, job=job)) for kind, job in given] == [True, False, False, True]
    assert parsed('[[hook]]\nname = "a"\nurl = "https://x.org"')[0].wants(alert(kind="budget", job=""))


HOOK = '[[hook]]\nname = "ops"\n'
URL = f'{HOOK}url = "https://x.org/hush"\n'
WRONG = [
    ("", "alerts.toml: an alerts file must have 1 to 32 hooks"),
    ("[[hook]\n", "alerts.toml:1:7: an alerts file must be TOML"),
    ("[hook]\nname = 1\n", "1 to 32 hooks, each as"),
    ("hooks = 1\n", ":1: a key must be one of the known names, got 'hooks'; did you mean 'hook'"),
    (f"dashboard = 1\n{URL}", ":1: dashboard must be a text in quotes"),
    ('[[hook]]\nurl = "https://x.org"\n', ":1: a hook must have a name, got none"),
    ('[[hook]]\nname = "a b"\nurl = "https://x.org"\n', ":2: name must be up to 40 letters"),
    (HOOK, ":1: a hook must have a url, url_env, url_file or command"),
    (f'{URL}command = ["sh"]\n', ":4: a hook must have one of url, url_env, url_file, command, got url and"),
    (f"{URL}onn = []\n", ":4: a key must be one of the known names, got 'onn'; did you mean 'on'"),
    (f'{URL}on = ["lat"]\n', ":4: on must be one of the known names, got 'lat'; did you mean 'late'"),
    (f"{URL}on = []\n", ":4: on must be a list of texts that is not empty"),
    (f'{URL}format = "slak"\n', ":4: format must be one of the known names, got 'slak'; did you"),
    (f"{URL}allow_private = 1\n", ":4: allow_private must be true or false, got 1"),
    (f'{URL}secret_env = "NONE"\n', ":4: secret_env must name a variable that is set, got 'NONE'"),
    (f'{URL}secret_env = "SHORT"\n', ":4: secret_env must lead to a secret of at least 16 characters"),
    (f'{URL}secret_file = "none"\n', ":4: secret_file must name a readable file"),
    (f'{URL}secret_env = "SIGN"\nsecret_file = "x"\n', ":5: a hook must have one of secret_env, secret_file"),
    (f'{HOOK}url = "ftp://x.org/hush"\n', ":3: url must be http://HOST/PATH"),
    (f"{HOOK}url = 1\n", ":3: url must be a text in quotes"),
    (f'{HOOK}url = "http://10.0.0.1/hush"\n', ":3: url must not lead to a private address without"),
    (f'{HOOK}url = "http://169.254.1.1/hush"\nallow_private = true\n', ":3: url must not lead to a link"),
    (f'{HOOK}command = ["no-such-program"]\n', ":3: command must begin with a program that can be run"),
    (f'{HOOK}command = "sh"\n', ":3: command must be a list of texts"),
    (f'{HOOK}command = ["sh"]\nsecret_env = "SIGN"\n', ":4: secret_env must be of a webhook"),
    (URL + URL, ":5: a hook must have a name of its own, got 'ops' again"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says"), WRONG, ids=[says for _, says in WRONG])
def test_a_mistake_is_told_with_its_place(text: str, says: str) -> None:
    with pytest.raises(FileError) as caught:
        parsed(text)
    assert says in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "secret").chmod(0o640)
    with pytest.raises(
        FileError, match=r":4: secret_file must name a file that only you may read, got mode 0640"
    ):
        parsed(f'{URL}secret_file = "secret"\n', tmp_path)


def test_addresses_that_others_may_read_are_worth_a_note(tmp_path: Path) -> None:
    path = tmp_path / "alerts.toml"
    path.write_text(URL)
    path.chmod(0o644)
    (note,) = read_alerts_file(path).notes
    assert note.endswith(f"`chmod 600 {path}`")
    path.chmod(0o600)
    assert read_alerts_file(path).notes == ()
    with pytest.raises(UnknownNameError, match="did you mean 'ops'"):
        read_alerts_file(path).hook("opps")


@pytest.mark.parametrize("command", ["controller", "serve"])
def test_a_mistake_ends_a_command_before_anything_starts(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, journal = tmp_path / "alerts.toml", tmp_path / "journal.db"
    path.write_text(f"{URL}onn = 1\n")
    assert run([command, "--alerts", str(path), "--journal", str(journal)]) == 2
    assert f"{path}:4: a key must be" in capsys.readouterr().err
    assert not journal.exists()
