"""Reads the pages of the gallery: the files that they show, their commands, and what these print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = tuple(sorted(path for path in (ROOT / "docs/gallery").glob("*.md") if path.stem != "index"))
FILE = re.compile(r"^```(?:yaml|python)\n(# (\S+\.(?:yaml|py))\n.*?)^```", re.M | re.S)
"""A block whose first line is a comment with a name is a file that readers write."""
COMMAND = re.compile(r"^```console\n\$ slacktide (.+)\n```\n", re.M)
TOLD = re.compile(
    r"(?P<head>^```console\n\$ slacktide (?P<command>[^\n]+)\n```\n\n"
    r"(?:<!-- (?P<end>first|last) (?P<lines>\d+) lines -->\n)?```text\n).*?(?=^```)",
    re.M | re.S,
)
"""A command with what it prints below it; a comment that readers do not see says how much of it is shown."""
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)/]+\.png)\)")


def write_files(page: Path, folder: Path) -> None:
    """Write the files that a page shows, and let the examples be found, as in a clone of the repository."""
    for text, name in FILE.findall(page.read_text(encoding="utf-8")):
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "examples").symlink_to(ROOT / "examples")


def commands(page: Path) -> list[list[str]]:
    """Return the arguments of the commands of a page, in order."""
    return [shlex.split(command) for command in COMMAND.findall(page.read_text(encoding="utf-8"))]


def pictures(page: Path) -> list[str]:
    """Return the names of the pictures that a page shows."""
    return PICTURE.findall(page.read_text(encoding="utf-8"))


def retold(text: str, printed: Callable[[str], str]) -> str:
    """Return a page's text with what its commands print now."""

    def told(found: re.Match[str]) -> str:
        lines = [line.rstrip() for line in printed(found["command"]).strip("\n").splitlines()]
        count = int(found["lines"] or len(lines))
        if count < len(lines):
            lines = [*lines[:count], "..."] if found["end"] == "first" else ["...", *lines[-count:]]
        return found["head"] + "\n".join(lines) + "\n"

    return TOLD.sub(told, text)
