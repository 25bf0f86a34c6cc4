"""Make what a job prints safe to show: its escape sequences must not control the terminal."""

from __future__ import annotations

import re

PIPE_LENGTH = 160  # characters in a line that goes into a pipe

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, the cursor, the screen
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links, the clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)"  # strings for the terminal itself
    r"|\x1b[ -/]*[0-~]"
)
_KEPT = "\n\t\u200d"  # line breaks, tabs, and the joiner inside compound emoji


def visible(text: str) -> str:
    """Return text without terminal sequences, and with every other control character shown as its escape."""
    if text.isprintable():
        return text
    return "".join(map(_shown, _SEQUENCE.sub("", text)))


def settled(line: str) -> str:
    """Return what a terminal finally shows of a line: a progress bar overwrites itself after each `\\r`."""
    return next((part for part in reversed(line.split("\r")) if part), "")


def _shown(char: str) -> str:
    if char.isprintable() or char in _KEPT:
        return char
    return " " if char.isspace() and ord(char) > 0x9F else char.encode("unicode_escape").decode("ascii")
