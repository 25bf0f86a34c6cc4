"""The exceptions that Slacktide raises on purpose, each with its exit code and HTTP status.

SlacktideError                1 / 500   anything we raise on purpose
├── InputError                2 / 400   what the user gave cannot be used
│   ├── FileError             2 / 400   the same, inside a file: names file, line and column
│   └── UnknownNameError      2 / 400   a name that is not registered, with "did you mean"
├── InfeasibleError           3 / 409   well-formed, but it cannot be met
└── BackendError              4 / 502   the machinery underneath failed
    ├── LeaseError            4 / 502   another controller is in charge already
    └── in `provider.base`    4 / 502   no capacity, unreachable: what a provider of machines answers

A message says what must hold, then what was given, then the remedy.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

MOST_QUOTED = 80
"""Characters of a refused value that a message quotes: enough to find it in a file."""
MOST_LISTED = 30
"""Names that a message lists."""
MOST_OF_A_LINE = 500
"""Characters that are printed of a line of a message, so that a very long name leaves it readable."""
MOST_OF_A_PATH = 240
"""Characters of a path that a message names; its end identifies a file better than its beginning."""
_LONG_WORD = re.compile(rf"\S{{{MOST_OF_A_PATH + 20},}}")  # longer than a path with its line and column


class SlacktideError(Exception):
    """Something Slacktide refuses or cannot do."""

    exit_code = 1
    """What commands exit with when this ends them."""
    http_status = 500
    """What the HTTP API answers with."""


class InputError(SlacktideError):
    """What was given cannot be used."""

    exit_code = 2
    http_status = 400

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field
        """The field that the message is about, or empty; readers of files use it to find the line."""


class FileError(InputError):
    """Something inside a file cannot be used; the message starts with its place."""

    def __init__(
        self, message: str, *, path: object, line: int | None = None, column: int | None = None
    ) -> None:
        place = str(path)
        if len(place) > MOST_OF_A_PATH:
            place = f"...{place[3 - MOST_OF_A_PATH :]}"
        if line is not None:
            place += f":{line}"
            if column is not None:
                place += f":{column}"
        super().__init__(f"{place}: {message}")
        self.path = str(path)
        self.line = line
        self.column = column


class UnknownNameError(InputError):
    """A name is not known; the message lists what is and guesses what was meant."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, place: str = "") -> None:
        names = sorted(known)
        super().__init__(f"{place}{unknown_name(kind, name, names)}")
        self.name = name
        self.known = names


class PolicyError(InputError):
    """A policy failed, or did not answer with a decision."""


class InfeasibleError(SlacktideError):
    """The request is well-formed but cannot be met."""

    exit_code = 3
    http_status = 409


class BackendError(SlacktideError):
    """The machinery underneath failed."""

    exit_code = 4
    http_status = 502


class LeaseError(BackendError):
    """Another controller is in charge already."""


def shown(came: object) -> str:
    """Quote a value for a message, cut to a readable length; all messages quote with this."""
    if isinstance(came, str):
        return repr(clipped(came))
    try:
        return clipped(repr(came))
    except ValueError:  # Python does not write out whole numbers of thousands of digits
        return "a number with thousands of digits"


def clipped(text: str) -> str:
    """Return a text, or its beginning where it is too long to be quoted."""
    return text if len(text) <= MOST_QUOTED else f"{text[: MOST_QUOTED - 3]}..."


def listed(names: Sequence[str]) -> str:
    """Return names with commas between them: the first ones, and how many more there are."""
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return ", ".join(clipped(name) for name in names[:MOST_LISTED]) + more


def readable(message: str) -> str:
    """Return a message with long words and lines cut: a safety net for long names in libraries' messages."""
    words = _LONG_WORD.sub(lambda found: clipped(found[0]), message)
    return "\n".join(
        line if len(line) <= MOST_OF_A_LINE else f"{line[: MOST_OF_A_LINE - 3]}..."
        for line in words.split("\n")
    )


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that a name is not known, guess what was meant, and list what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(name[:MOST_QUOTED], names, n=1, cutoff=0.5)
    guess = f"did you mean {shown(close[0])}? " if close else ""
    return (
        f"{kind} must be one of the known names, got {shown(name)}; {guess}known: {listed(names) or 'none'}"
    )
