"""The comparison with another commit: what it takes, what it prints; nothing is timed here."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks import against, cases
from benchmarks.__main__ import main, parser
from benchmarks.against import Best, Row, Unusable, choose, line


class Told:
    """A tree that says what it was told to say."""

    def __init__(self, *answers: Best | str) -> None:
        self.answers = list(answers)

    def run(self, case: str) -> Best | str:
        return self.answers.pop(0)


def best(cpu_s: float, units: float = 10.0) -> Best:
    return Best(cpu_s, units, "job")


def test_words_are_names_or_cases() -> None:
    asked = parser().parse_args(["--against", "HEAD~3", "clairvoyant", "--rounds", "4"])
    assert (asked.against, asked.names, asked.rounds) == ("HEAD~3", ["clairvoyant"], 4)
    assert parser().parse_args([]).against is None


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nothing-of-that-name"], "a benchmark must be one of"),
        (["--against", "nothing-of-that-name"], "--against must name a commit"),
        (["--against", "--version"], "expected one argument"),
        (["--rounds", "0"], "--rounds must be >= 1"),
    ],
)
def test_what_cannot_be_meant_leaves_with_2(
    words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_case_must_be_known_to_a_tree() -> None:
    assert choose([], ["a", "b"]) == ["a", "b"]
    assert choose(["b"], ["a", "b"]) == ["b"]
    with pytest.raises(Unusable, match="must be one of a, b, got 'c'"):
        choose(["c"], ["a", "b"])


def test_the_best_run_counts_and_the_first_does_not() -> None:
    old, new = (
        Told(best(0.1), best(4.0), best(3.0), best(5.0)),
        Told(best(9.0), best(6.0), best(8.0), best(7.0)),
    )
    row = against.compare("case", old, new, 3)  # type: ignore[arg-type]
    assert row == Row("case", best(3.0), best(6.0))
    assert not old.answers
    assert not new.answers


def test_a_tree_that_cannot_run_a_case_is_asked_once() -> None:
    old, new = Told("ImportError: gone"), Told(best(1.0), best(2.0))
    row = against.compare("case", old, new, 1)  # type: ignore[arg-type]
    assert row == Row("case", "ImportError: gone", best(2.0))
    assert line(row).split()[:4] == ["case", "-", "2.0000", "-"]
    assert line(row).endswith("a job; old: ImportError: gone")


def test_the_ratio_is_of_the_time_of_one_unit() -> None:
    words = line(Row("case", best(1.0, units=10), best(3.0, units=20))).split()
    assert words[:4] == ["case", "1.0000", "3.0000", "1.500"]


def test_an_older_commit_gets_the_first_cases_and_its_folder_goes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def git(*words: str) -> str:
        names = ("-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *names, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    file = tmp_path / "benchmarks" / "cases.py"
    file.parent.mkdir()
    git("init", "--quiet")
    for name, text in (("other.py", "none"), ("cases.py", "first"), ("cases.py", "second")):
        (file.parent / name).write_text(text, encoding="utf-8")
        git("add", "-A")
        git("commit", "--quiet", "--message", text)
    monkeypatch.setattr(against, "ROOT", tmp_path)
    for commit, found in (("HEAD~2", "first"), ("HEAD~1", "first"), ("HEAD", "second")):
        with against.checked_out(commit) as tree:
            assert (tree / against.CASES).read_text(encoding="utf-8") == found
        assert not tree.exists()
    assert len(git("worktree", "list").splitlines()) == 1


def test_cases_answer_names_with_times(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> cases.Task:
        raise ImportError("gone")

    known: dict[str, Any] = {"quick": lambda: cases.Task(lambda: None, 5.0, "job"), "broken": broken}
    monkeypatch.setattr(cases, "CASES", known)
    monkeypatch.setattr("sys.stdin", io.StringIO("quick\nbroken\n"))
    cases.main()
    names, quick, error = map(json.loads, capsys.readouterr().out.splitlines())
    assert names == ["quick", "broken"]
    assert Best(**quick).units == 5.0
    assert error == {"error": "ImportError: gone"}
