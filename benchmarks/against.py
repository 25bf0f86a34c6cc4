"""`python -m benchmarks --against COMMIT [CASE ...]`: the speed of this tree over that of another commit.

Wall times on shared machines vary by more than what is looked for. So this takes CPU time, the best of many
runs, and runs the two trees in turn, each in a process of its own that finds its machine code on disk: code
compiled a moment ago can be twice as fast as the same code loaded, and users have it loaded. A commit from
before there were cases gets the oldest ones that there are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CASES = Path("benchmarks") / "cases.py"
ROUNDS = 15


class Unusable(Exception):
    """The requested comparison is not possible."""


class Best(NamedTuple):
    """The best of a case's runs in one tree."""

    cpu_s: float
    units: float
    unit: str


class Row(NamedTuple):
    """A case in both trees; a text says why a tree could not run it."""

    case: str
    old: Best | str
    new: Best | str


class Tree:
    """A tree whose cases run in a process of their own, one at a time."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self.folder, self._process = folder, process
        self.cases: list[str] = json.loads(self._line())

    def run(self, case: str) -> Best | str:
        """Run a case once."""
        if case not in self.cases:
            return "there is no such case"
        assert self._process.stdin is not None
        self._process.stdin.write(f"{case}\n")
        self._process.stdin.flush()
        answer = json.loads(self._line())
        return str(answer["error"]) if "error" in answer else Best(**answer)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Unusable(f"the cases of {self.folder} must run, but their process ended; see above")
        return line


def main(commit: str, cases: Sequence[str], rounds: int = ROUNDS) -> None:
    """Print the table of some cases, or of all; raises Unusable when there is nothing to compare."""
    with checked_out(commit) as before:
        with running(before) as old, running(ROOT) as new:
            chosen = choose(cases, list(dict.fromkeys([*new.cases, *old.cases])))
            for case in chosen:  # compiles what is not on disk yet
                old.run(case)
                new.run(case)
        with running(before) as old, running(ROOT) as new:
            print(head(commit), flush=True)
            for case in chosen:
                print(line(compare(case, old, new, rounds)), flush=True)


def choose(cases: Sequence[str], known: Sequence[str]) -> Sequence[str]:
    """Return the requested cases, or all; raises Unusable for one that neither tree has."""
    for case in cases:
        if case not in known:
            raise Unusable(f"a case must be one of {', '.join(known)}, got {case!r}")
    return cases or known


def compare(case: str, old: Tree, new: Tree, rounds: int) -> Row:
    """Run a case in both trees in turn; the first run of each, which loads its code, does not count."""
    found: dict[Tree, Best | str] = {tree: tree.run(case) for tree in (old, new)}
    tries: dict[Tree, list[Best]] = {tree: [] for tree, one in found.items() if isinstance(one, Best)}
    for number in range(rounds):
        for tree in list(tries)[:: 1 if number % 2 else -1]:
            again = tree.run(case)
            if isinstance(again, Best):
                tries[tree].append(again)
    for tree, ran in tries.items():
        found[tree] = min(ran, key=lambda one: one.cpu_s)
    return Row(case, found[old], found[new])


def head(commit: str) -> str:
    """Return the head of the table."""
    return f"{'best CPU seconds':<20} {commit[:12]:>12} {'this tree':>12} {'new / old':>10}   this tree, each"


def line(row: Row) -> str:
    """Return a line of the table."""
    old, new = (f"{one.cpu_s:.4f}" if isinstance(one, Best) else "-" for one in (row.old, row.new))
    ratio, notes = (
        "-",
        [f"{tree}: {one}" for tree, one in (("old", row.old), ("new", row.new)) if isinstance(one, str)],
    )
    if isinstance(row.old, Best) and isinstance(row.new, Best):
        # Cases of two trees may differ in length: what counts is the time of one unit.
        ratio = f"{row.new.cpu_s / row.new.units / (row.old.cpu_s / row.old.units):.3f}"
    if isinstance(row.new, Best):
        notes.insert(0, f"{1e6 * row.new.cpu_s / row.new.units:,.1f} µs a {row.new.unit}")
    return f"{row.case:<20} {old:>12} {new:>12} {ratio:>10}   {'; '.join(notes)}"


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check a commit out into a temporary folder, with cases to run, and take it away again."""
    found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", check=False)
    if found.returncode:
        raise Unusable(f"--against must name a commit of this repository, got {commit!r}")
    with tempfile.TemporaryDirectory(prefix="slacktide-against-") as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(tree), found.stdout.strip())
        try:
            if not (tree / CASES).exists():
                (tree / CASES).write_text(oldest_cases(), encoding="utf-8")
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def oldest_cases() -> str:
    """Return the cases as they were first committed; those of this tree where none were."""
    added = _git("log", "--diff-filter=A", "--format=%H", "--", str(CASES)).stdout.split()
    if not added:
        return (ROOT / CASES).read_text(encoding="utf-8")
    return _git("show", f"{added[-1]}:{CASES.as_posix()}").stdout


@contextmanager
def running(folder: Path) -> Iterator[Tree]:
    """Start a tree's cases with its own sources and plug-ins, and end them."""
    with tempfile.TemporaryDirectory(prefix="slacktide-plug-ins-") as metadata:
        # What is installed names the plug-ins of this tree; another may have them elsewhere, or not at all.
        declare_plug_ins(folder, Path(metadata))
        paths = os.pathsep.join((str(folder / "src"), metadata))
        with subprocess.Popen(
            [sys.executable, "-m", "benchmarks.cases"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield Tree(folder, process)
            finally:
                process.kill()


def declare_plug_ins(folder: Path, metadata: Path) -> None:
    """Write what an installer would: the name of a tree's package, and the plug-ins that it declares."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = metadata / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    name = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(name, encoding="utf-8")
    points = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in project.get("entry-points", {}).items()
    )
    (info / "entry_points.txt").write_text(points, encoding="utf-8")


def _git(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, check=check, capture_output=True, text=True)
