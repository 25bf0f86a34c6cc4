"""The documentation builds as a site: strictly, with all that people write against, and from one host."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import slacktide
from slacktide import checks, worker

ROOT = Path(__file__).parents[2]
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "srcset",
    "object": "data",
    "embed": "src",
}
"""Elements that load what an attribute names."""
LINKS = {
    "stylesheet",
    "icon",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "modulepreload",
    "manifest",
}
"""Kinds of `link` that load something or turn to its host."""
OUTSIDE = re.compile(r"^(https?:)?//")


class Loads(HTMLParser):
    """Gathers what a page loads, and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.add(given.get("id", ""))
        if tag in LOADED:
            self.loads.append(given.get(LOADED[tag], ""))
        if tag == "link" and LINKS & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        if "mermaid" in given.get("class", "").split():
            self.loads.append("https://: the theme fetches the library that draws this")


@pytest.mark.slow
def test_the_site_builds_strictly_and_asks_no_other_host(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(build, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    anchors: set[str] = set()
    for path in tmp_path.rglob("*.html"):
        page = Loads()
        page.feed(path.read_text(encoding="utf-8"))
        outside = [one for one in page.loads if OUTSIDE.match(one)]
        assert not outside, f"{path.relative_to(tmp_path)} loads {outside}"
        anchors |= page.anchors
    for path in tmp_path.rglob("*.css"):
        asked = re.findall(
            r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", path.read_text(encoding="utf-8")
        )
        assert not asked, f"{path.relative_to(tmp_path)} loads {asked}"
    missing = [name for name in public() if not names_of(name) & anchors]
    assert not missing, f"docs/reference/python must show {missing}"


def public() -> list[str]:
    """Return the names that people write against."""
    own = [f"slacktide.{name}" for name in slacktide.__all__]
    ours = [f"slacktide.checks.{name}" for name in checks.__all__ if not name.isupper()]
    readers = [f"slacktide.worker.{name}" for name in worker._READERS]
    return [
        *own,
        *ours,
        *readers,
        *(f"slacktide.worker.{name}" for name in ("save", "saved", "progress", "stopping")),
    ]


def names_of(name: str) -> set[str]:
    """Return under which names a thing may be shown: where people import it from, and where it is written."""
    module, _, last = name.rpartition(".")
    thing = getattr(importlib.import_module(module), last)
    home = slacktide._HOME_OF.get(last, module) if module == "slacktide" else module
    return {
        name,
        f"{home}.{last}",
        f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}",
    }


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: page.stem)
def test_lists_and_tables_are_read_alike_by_every_reader(page: Path) -> None:
    """Some readers need an empty line before a list or table, and four spaces below an item."""
    before, fenced = "", False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fenced ^= line.lstrip().startswith("```")
        item = re.match(r"( *)(?:[-*+]|\d+\.) ", line)
        beside = before.startswith((" ", "|", "#", "-", "*", "+")) or re.match(r"\d+\. ", before)
        if not fenced and before.strip() and not beside:
            begins = item or line.startswith("| ")
            assert not begins, f"{page.name}:{number} needs an empty line before it"
        if item and not fenced:
            assert len(item[1]) % 4 == 0, f"{page.name}:{number} needs four spaces more than what it is below"
        before = line
