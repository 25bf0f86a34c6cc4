"""A policy of one's own that fails, or answers with something else, is an error that says where."""

from __future__ import annotations

from pathlib import Path

import pytest

from slacktide.cli import run

POLICIES = '''\
class Boom:
    """Fails."""

    def decide(self, view):
        return 1 / 0


class Three:
    """Returns a number."""

    def decide(self, view):
        return 3
'''
JOB = """\
name: job
run: "true"
resources: {accelerators: "H100:1..2"}
work: 4 gpu-hours
deadline: 12h
policy: own:NAME
market: synthetic:h100?days=4&slot=30m
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "Boom",
            "must decide without an error, got ZeroDivisionError: division by zero (own.py, line 5, in",
        ),
        ("Three", "policy Three must return an Allocation, got '3' in slot 0"),
    ],
)
@pytest.mark.parametrize(
    "command",
    ["policies --check own:NAME", "backtest JOB --policy own:NAME --starts 2", "plan JOB", "run JOB -y"],
)
def test_what_a_policy_does_wrong_is_said(
    command: str,
    name: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(POLICIES, encoding="utf-8")
    Path("job.yaml").write_text(JOB.replace("NAME", name), encoding="utf-8")
    words = command.replace("NAME", name).replace("JOB", "job.yaml").split()
    assert run(words) == 2
    assert said in capsys.readouterr().err
