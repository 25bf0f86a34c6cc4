"""Reads `progress: {log: PATTERN}`: a regular expression that finds the progress of a job in its output.

The pattern is tried on every line that a job prints, so everything that could take exponential time is
refused here: repeated groups, backreferences and lookaround. What remains takes bounded time on a line of
bounded length.
"""

from __future__ import annotations

import re

from slacktide.core.errors import InputError, shown
from slacktide.core.yaml_fields import Fields, scalar
from slacktide.core.yaml_tree import Mistakes, Tree

LONGEST_PATTERN = 200
MOST_REPEATS = 4
"""Unbounded repeats in one pattern, such as `\\d+`: each multiplies the time of the worst line."""

_TOKEN = re.compile(
    r"""(?P<escape>\\.) | (?P<set>\[\^?\]?(?:\\.|[^\]\\])*\]) | (?P<odd>\(\?(?!:|P<\w+>))
    | (?P<open>\((?:\?(?::|P<\w+>))?) | (?P<close>\)) | (?P<repeat>[*+?]|\{\d*,?\d*\}) | (?P<plain>.)""",
    re.VERBOSE | re.DOTALL,
)


def progress(tree: Tree, mistakes: Mistakes) -> str | None:
    """Read `progress: {log: PATTERN}`."""
    fields = Fields(tree, mistakes, ("log",), prefix="progress.")
    fields.require("log", r"'step (\d+)/(\d+)'")
    return fields.read("log", scalar(log_pattern), None)


def log_pattern(text: str) -> str:
    """Read a pattern with one group (a share or percent) or two (done and total); raises InputError."""
    if len(text) > LONGEST_PATTERN:
        raise InputError(f"a pattern must have at most {LONGEST_PATTERN} characters, got {len(text)}")
    try:
        groups = re.compile(text.encode()).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise InputError(f"must be a regular expression, got {shown(text)}: {error}") from error
    if groups not in (1, 2):
        raise InputError(
            f"a pattern must have one group (a share, or percent) or two (done and total), got {groups}; "
            r"write for instance 'step (\d+)/(\d+)'"
        )
    _check_bounded(text)
    return text


def _check_bounded(text: str) -> None:
    """Raise InputError for a pattern that can take exponential time on one line."""
    repeats, before = 0, ""
    for token in _TOKEN.finditer(text):
        kind, word = str(token.lastgroup), token.group()
        if kind == "odd" or (kind == "escape" and word[1].isdecimal() and word[1] != "0"):
            raise InputError(f"a pattern must not use lookaround, backreferences or flags, got {shown(text)}")
        if kind == "repeat" and before == "repeat" and word != "?":
            raise InputError(f"a pattern must not repeat a repeat, got {shown(text)}")
        if kind == "repeat" and before == "close" and word != "?":
            raise InputError(
                f"a pattern must not repeat a group, because that can take forever, got {shown(text)}; "
                r"repeat single characters, as in \d+"
            )
        repeats += kind == "repeat" and word != "?"
        before = kind
    if repeats > MOST_REPEATS:
        raise InputError(
            f"a pattern must have at most {MOST_REPEATS} repeats, got {repeats} in {shown(text)}; "
            "leave out what does not need to match: a pattern may begin anywhere in a line"
        )
