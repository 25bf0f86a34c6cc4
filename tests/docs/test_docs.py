"""The documentation says what the code does: its commands run, its code runs, nothing is left out."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click
import pytest

from slacktide.allocators.base import allocators
from slacktide.app.settings.files import KEYS
from slacktide.app.setup.registers import NOT_FOR_FILES
from slacktide.backends.base import backends
from slacktide.checks import provider as provider_checks
from slacktide.cli import run, slacktide
from slacktide.files.machines import MACHINE_KEYS
from slacktide.market.live.base import feeds
from slacktide.providers.base import providers

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])

FEWER = {"2000": "200", "every:2h": "every:12h"}
"""Counts of jobs and starts that a page names, and fewer, which go the same ways in less time."""
SMALLER = {"pools=6&days=14": "pools=2&days=4", "pools=3&days=14": "pools=2&days=4"}
"""Markets of an example, and smaller ones; a job over many pools takes time by the square of their number."""


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples in it, so that pages can be followed to the letter."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def blocks(page: Path, language: str) -> list[str]:
    """Return the code blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


def commands(page: Path) -> list[list[str]]:
    """Return the arguments of every `slacktide` command in a page's console blocks."""
    lines = [line.removeprefix("$ ") for block in blocks(page, "console") for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("slacktide ")]


def follow(page: Path) -> None:
    """Run a page's commands, then its Python blocks one after another."""
    for arguments in commands(page):
        assert run(arguments) == 0, f"slacktide {shlex.join(arguments)}"
    module = sys.modules["page"] = ModuleType("page")
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), module.__dict__)


def test_tutorial_runs(sandbox: Path) -> None:
    follow(ROOT / "docs/tutorial.md")
    assert {"market.csv", "market.png", "report.html", "backtest.png"} <= {p.name for p in sandbox.iterdir()}


def test_howto_for_many_pools_runs(sandbox: Path) -> None:
    (sandbox / "examples").unlink()
    (sandbox / "examples").mkdir()
    text = (ROOT / "examples/many-pools.yaml").read_text(encoding="utf-8")
    for market, smaller in SMALLER.items():
        assert market in text
        text = text.replace(market, smaller)
    (sandbox / "examples/many-pools.yaml").write_text(text, encoding="utf-8")
    follow(ROOT / "docs/howto/many-pools.md")
    assert (sandbox / "pools.png").exists()


def test_howto_for_policies_runs(sandbox: Path) -> None:
    follow(ROOT / "docs/howto/policy.md")
    (sandbox / "patient.py").write_text(blocks(ROOT / "docs/howto/policy.md", "python")[0])
    assert run(["policies", "--check", "patient:Patient", "--examples", "5"]) == 0


def test_howto_for_budgets_runs(sandbox: Path) -> None:
    follow(ROOT / "docs/howto/budget.md")
    assert {"budget.png", "speedup.png"} <= {path.name for path in sandbox.iterdir()}


def test_howto_for_running_runs(sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKTIDE_HOME", str(sandbox / "home"))
    page = ROOT / "docs/howto/run.md"
    (sandbox / "hello.yaml").write_text(blocks(page, "yaml")[0], encoding="utf-8")
    follow(page)
    assert {"run.png", "run.html"} <= {path.name for path in sandbox.iterdir()}


def test_howto_for_operators_backs_up_a_journal(sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = sandbox / "journal.db"
    shutil.copy(ROOT / "tests/golden/journals/finished.db", journal)
    monkeypatch.setenv("SLACKTIDE_JOURNAL", str(journal))
    exec(compile(blocks(ROOT / "docs/howto/operate.md", "python")[0], "operate.md", "exec"), {})
    for path in sandbox.glob("journal.db*"):
        if path.suffix != ".backup":
            path.unlink()
    (sandbox / "journal.db.backup").rename(journal)
    assert run(["cost"]) == 0


@pytest.mark.skipif(shutil.which("sqlite3") is None, reason="the command of SQLite is not installed")
def test_the_backup_script_of_operators_copies_a_journal_and_what_is_beside_it(sandbox: Path) -> None:
    script = next(block for block in blocks(ROOT / "docs/howto/operate.md", "sh") if block.startswith("#!"))
    state = sandbox / "state"
    state.mkdir()
    shutil.copy(ROOT / "tests/golden/journals/finished.db", state / "journal.db")
    (state / ".journal.db.tokens").write_text("digests")
    (state / "journal.runs/job").mkdir(parents=True)
    (state / "journal.runs/job/rank-0.log").write_text("line")
    done = subprocess.run(
        ["/bin/sh", "-s", str(state), "backups"], input=script, capture_output=True, text=True, check=True
    )
    made = Path(done.stdout.strip())
    assert {path.name for path in made.iterdir()} == {"journal.db", ".journal.db.tokens", "journal.runs"}
    assert (made / "journal.runs/job/rank-0.log").read_text() == "line"
    assert run(["cost", "--journal", str(made / "journal.db")]) == 0


def test_howto_for_settings_runs(sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACKTIDE_CONFIG", str(sandbox / "config.toml"))
    monkeypatch.setenv("XDG_DATA_HOME", str(sandbox / "data"))
    page = ROOT / "docs/howto/config.md"
    follow(page)
    assert "every:4h" in (sandbox / "config.toml").read_text(encoding="utf-8")
    (sandbox / "config.toml").write_text(blocks(page, "toml")[0], encoding="utf-8")
    assert run(["config"]) == 0
    for key in KEYS:
        assert f"`{key}`" in page.read_text(encoding="utf-8"), key


def test_howto_for_streams_runs(sandbox: Path) -> None:
    follow(ROOT / "docs/howto/simulate.md")
    assert {"simulate.png", "trace.csv"} <= {path.name for path in sandbox.iterdir()}


def test_howto_for_fleets_runs(sandbox: Path) -> None:
    page = ROOT / "docs/howto/fleet.md"
    (sandbox / "team.yaml").write_text(blocks(page, "yaml")[0], encoding="utf-8")
    follow(page)
    assert {"month.png", "month.html", "jobs.csv"} <= {path.name for path in sandbox.iterdir()}


def test_howto_for_allocators_runs(sandbox: Path) -> None:
    try:
        follow(ROOT / "docs/howto/allocator.md")
    finally:
        for name in ("by-arrival", "crowd-aware"):
            allocators._classes.pop(name, None)


def test_howto_for_back_ends_runs(sandbox: Path) -> None:
    try:
        follow(ROOT / "docs/howto/backend.md")
        assert "slow-boot" in backends
        assert run(["backends", "--check", "slow-boot"]) == 0
    finally:
        backends._classes.pop("slow-boot", None)


def test_howto_for_providers_runs(sandbox: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_checks, "LATE_S", 0.0)
    page = ROOT / "docs/howto/provider.md"
    (sandbox / "racks.py").write_text(blocks(page, "python")[0], encoding="utf-8")
    (sandbox / "machines.yaml").write_text(blocks(page, "yaml")[0], encoding="utf-8")
    try:
        follow(page)
    finally:
        providers._classes.pop("racks", None)


def test_howto_for_live_prices_runs(sandbox: Path) -> None:
    page = ROOT / "docs/howto/live-prices.md"
    follow(page)
    (sandbox / "lab.py").write_text(blocks(page, "python")[0], encoding="utf-8")
    assert run(["market", "feeds", "--check", "lab:Lab:A100", "--zones", "cellar,attic"]) == 0
    assert run(["market", "follow", "lab:Lab:A100", "--since", "1d", "--once", "-o", "lab.csv"]) == 0
    assert run(["market", "show", "lab.csv"]) == 0


def test_every_feed_is_documented() -> None:
    text = (ROOT / "docs/howto/live-prices.md").read_text(encoding="utf-8")
    for name in feeds:
        assert f"| `{name}` |" in text


def test_every_provider_and_its_settings_are_documented() -> None:
    page = (ROOT / "docs/reference/machines-file.md").read_text(encoding="utf-8")
    for name in providers:
        for word in (name, *(key for key in providers.parameters(name) if key not in NOT_FOR_FILES)):
            assert f"`{word}`" in page, word
    for key in MACHINE_KEYS:
        assert f"| `{key}` |" in page, key


def test_every_allocator_is_documented() -> None:
    page = (ROOT / "docs/howto/simulate.md").read_text(encoding="utf-8")
    for name in allocators:
        assert f"`{name}`" in page


def test_readme_commands_run(sandbox: Path) -> None:
    found = commands(ROOT / "README.md")
    assert len(found) >= 5
    for said in found:
        arguments = [FEWER.get(word, word) for word in said]
        # tests/e2e runs these, and looks at what they leave behind
        if arguments[0] not in ("demo", "run", "controller", "submit"):
            assert run(arguments) == 0, f"slacktide {shlex.join(arguments)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_command_reference_is_current(golden: Callable[[Path, str], None]) -> None:
    golden(ROOT / "docs/reference/cli.md", reference())


def reference() -> str:
    """Write the reference of all commands from their own help."""
    parts = [
        "# Commands\n",
        "Written from the commands' own help; `-h` prints the same.\n",
        "Exit codes: 0 done, 1 failed, 2 bad input, 3 infeasible, 4 back end; 100 a job failed, 101 not "
        "finished, 102 no such job, 103 cancelled. Results go to stdout, "
        "everything else to stderr. `-o json` prints the [documented keys](json.md). "
        "`NO_COLOR` turns colours off.\n",
        "Machine code is kept in `~/.cache/slacktide`, or where `SLACKTIDE_CACHE` points; it may be deleted "
        "at any time.\n",
        "`slacktide --profile NAME COMMAND ...` uses a profile of your [settings](../howto/config.md); "
        "`SLACKTIDE_PROFILE` does so for every command.\n",
    ]
    context = click.Context(
        slacktide, info_name="slacktide", terminal_width=100, **slacktide.context_settings
    )
    for name in slacktide.list_commands(context):
        command = slacktide.get_command(context, name)
        assert command is not None
        parts += section(command, context, name, "##")
    return "\n".join(parts)


def section(command: click.Command, parent: click.Context, name: str, heading: str) -> list[str]:
    """Write one command, and the commands below it."""
    command._help_option = None  # what another test had it made with; click keeps the first one
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100)
    parts = [f"{heading} `{context.command_path}`\n", f"```text\n{command.get_help(context)}\n```\n"]
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            parts += section(found, context, inner, f"{heading}#")
    return parts


def test_every_command_says_what_its_one_sentence_says() -> None:
    context = click.Context(slacktide, info_name="slacktide", **slacktide.context_settings)
    for name in slacktide.list_commands(context):
        command = slacktide.get_command(context, name)
        assert command is not None
        assert command.help


def test_changelog_has_an_unreleased_part_or_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "## [Unreleased]" in text


def test_the_threat_model_names_tests_that_are_there() -> None:
    """A promise without a test is a wish."""
    page = (ROOT / "docs/threat-model.md").read_text(encoding="utf-8")
    promises = page.split("## What is promised")[1].split("\n## ")[0]
    rows = [line for line in promises.splitlines() if line.startswith("| ") and "proved by" not in line]
    known = {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("tests/**/test_*.py")}
    assert len(rows) > 10
    for row in rows:
        proof = row.rsplit("|", 2)[1]
        named = re.findall(r"`(?:[\w/]*/)?(test_\w+\.py)`", proof)
        assert named or "the same" in proof, row
        assert set(named) <= set(known), row
        for test in re.findall(r"`(test_\w+)…`", proof):
            assert any(f"def {test}" in text for text in known.values()), row
