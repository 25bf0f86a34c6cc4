"""Every deliberate exception of Slacktide, each with its exit code and HTTP status.

SlacktideError                1 / 500   anything we raise on purpose
├── InputError                2 / 400   what the user gave cannot be used
│   ├── FileError             2 / 400   the same, inside a file: names file, line and column
│   └── UnknownNameError      2 / 400   a name that is not registered, with "did you mean"
├── InfeasibleError           3 / 409   well-formed, but it cannot be met
└── BackendError              4 / 502   the machinery underneath failed
    └── LeaseError            4 / 502   another controller is in charge already

Wording: what must hold, then what came, then the remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SlacktideError(Exception):
    """Something Slacktide refuses or cannot do."""

    exit_code = 1
    http_status = 500


class InputError(SlacktideError):
    """What was given cannot be used."""

    exit_code = 2
    http_status = 400

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.field = field
        """The field that the message is about, where it is about one: a file reader finds its line."""


class FileError(InputError):
    """Something inside a file cannot be used; the message starts with its place."""

    def __init__(
        self, message: str, *, path: object, line: int | None = None, column: int | None = None
    ) -> None:
        place = str(path)
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


class InfeasibleError(SlacktideError):
    """What was asked is well-formed but cannot be met."""

    exit_code = 3
    http_status = 409


class BackendError(SlacktideError):
    """The machinery underneath failed."""

    exit_code = 4
    http_status = 502


class LeaseError(BackendError):
    """Another controller is in charge already."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Say that a name is not known, guess what was meant, and list what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    guess = f"did you mean {close[0]!r}? " if close else ""
    return f"{kind} must be one of the known names, got {name!r}; {guess}known: {', '.join(names) or 'none'}"
