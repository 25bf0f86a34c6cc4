"""What may come out of an input, and what is a finding."""

from __future__ import annotations

import json
from typing import NamedTuple

from campaigns.fuzz.inputs import Case

READABLE = 600
"""The longest line of a message; a name of thousands of characters must not fill the screen."""
PYTHON_WORDS = (
    "Traceback", "NoneType", "KeyError", "TypeError", "ValueError", "IndexError", "AttributeError",
    "OverflowError",
    "object has no attribute", "invalid literal", "<class", "not subscriptable", "unsupported operand",
    "codec can't",
    "unhashable", "positional argument", "unexpected keyword", "object at 0x", "[Errno",
    "maximum recursion",
    "cannot convert", "ufunc", "numpy", "dtype", "array must", "list index",
)  # fmt: skip
ALLOWED = {0, 2, 3}
ALSO = {"journals": {1, 4, 102}, "options": {1, 4, 102}}
"""What else may come out: a bill that its audit does not agree with, a journal that is in use or whose disk
fails, and a job that is not there."""


class Outcome(NamedTuple):
    """What became of an input."""

    code: int | None
    """None where the process did not come to an end by itself."""
    out: str = ""
    err: str = ""
    trouble: str = ""
    """What ended it otherwise: a traceback, or what it used too much of."""


def problem(case: Case, outcome: Outcome) -> str:
    """Say what is wrong with what came of an input; nothing if all is as promised."""
    if outcome.trouble:
        return outcome.trouble
    if outcome.code not in ALLOWED | ALSO.get(case.target, set()):
        return f"exit code {outcome.code}: {outcome.err[-600:]!r}"
    if outcome.code == 0:
        return _output(case, outcome)
    # A bill that its audit does not agree with is printed where bills are.
    return _message(outcome.err or (outcome.out if outcome.code == 1 else ""))


def _message(said: str) -> str:
    if not said.strip():
        return "a refusal without a word"
    word = next((word for word in PYTHON_WORDS if word in said), None)
    if word is not None:
        return f"a message with {word!r} in it: {said[-600:]!r}"
    longest = max(said.splitlines(), key=len)
    return f"a line of {len(longest)} characters: {longest[:200]!r}" if len(longest) > READABLE else ""


def _output(case: Case, outcome: Outcome) -> str:
    """See that JSON is what was asked for; the last output option counts."""
    wanted = [
        value for name, value in zip(case.args, case.args[1:], strict=False) if name in ("-o", "--output")
    ]
    if not wanted or wanted[-1] != "json" or case.args[0] in ("events", "logs"):
        return ""
    try:
        json.loads(outcome.out, parse_constant=_refused)
    except ValueError as error:
        return f"output that is no JSON ({error}): {outcome.out[:200]!r}"
    return ""


def _refused(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
