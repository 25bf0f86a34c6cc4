"""Texts, whole numbers, numbers, truth values and choices, as JSON has them: the leaves of every event.

Infinity is the text "inf", for JSON has no number for it; NaN is refused, for nothing equals it. What is
equal to a plain value and only of another type, such as NumPy's numbers, is taken as the plain one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple

INFINITIES = {"inf": math.inf, "-inf": -math.inf}
INFINITE_TEXTS = {number: f'"{text}"' for text, number in INFINITIES.items()}
LEAST_WHOLE, MOST_WHOLE = -(2**63), 2**63 - 1
"""Whole numbers are kept to 64 bits: every reader of JSON and SQLite can hold them."""


class Misfit(Exception):
    """A value that is not what the type says; says where, what must hold and what came."""

    def __init__(self, expected: str, value: object, where: str = "") -> None:
        super().__init__(f"{where or 'it'} must be {expected}, got {value!r:.60}")
        self.expected, self.value, self.where = expected, value, where

    def inside(self, name: str) -> Misfit:
        """Return the same, seen from one level further out."""
        return Misfit(self.expected, self.value, f"{name}.{self.where}" if self.where else name)


class JsonForm(NamedTuple):
    """The ways of a value of one type into JSON and back.

    `plain` and `read` raise Misfit. What `plain` lets through is read back equal, so a writer need not
    read it to know.
    """

    plain: Callable[[Any], Any]
    """Returns a value as it will be read back: itself where it is so already, else its plain twin."""
    text: Callable[[Any], str]  # writes a plain value
    read: Callable[[Any], Any]  # takes what a reader of JSON made of the text
    is_plain: str = ""  # Python that is true of `$` only if `plain($) is $`; empty where that must be called
    shown: str = ""  # Python for what an f-string shows as `text($)`; empty where that must be called
    copied: bool = False  # whether `plain` always makes a twin, because a value may change after it was given


def _twin(value: Any) -> Any:
    """Return the plain twin of a NumPy scalar, and anything else as it is."""
    # By shape, which avoids importing NumPy.
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _plain_text(value: Any) -> str:
    if type(value) is str and value.isascii():
        return value
    try:
        # The bytes of a path that are no text come as such surrogates; others could come back as one letter.
        str.encode(value, "utf-8", "surrogateescape")
    except (TypeError, UnicodeEncodeError):
        raise Misfit("text", value) from None
    return str.__str__(value)


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit("text", value)
    return value


@lru_cache(maxsize=64)  # all jobs of a journal name the same market, and few policies
def _as_dumped(text: str) -> str:
    value = json.loads(text) if text else None
    return "" if value is None else json.dumps(value)


def _json_text(value: Any) -> str:
    """Return JSON text as it will be read back: as `json.dumps` writes the value that it means."""
    try:
        return _as_dumped(_plain_text(value))
    except (ValueError, RecursionError):
        raise Misfit("JSON", value) from None


def _read_json(value: Any) -> str:
    return "" if value is None else json.dumps(value)


def _whole(value: Any) -> int:
    if type(value) is int and LEAST_WHOLE <= value <= MOST_WHOLE:
        return value
    number = _twin(value)
    if isinstance(number, bool) or not isinstance(number, int) or not LEAST_WHOLE <= number <= MOST_WHOLE:
        raise Misfit("a whole number", value)
    if number != value:  # a time, whose twin is its number
        raise Misfit("a whole number", value)
    return int.__int__(number)


def _truth(value: Any) -> bool:
    truth = _twin(value)
    if not isinstance(truth, bool):
        raise Misfit("true or false", value)
    return truth


def _truth_text(value: bool) -> str:
    return "true" if value else "false"


def _number(value: Any) -> float:
    if type(value) is float and not math.isnan(value):
        return value
    number = _twin(value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise Misfit("a number", value)
    try:
        exact = float(number)
    except OverflowError:
        exact = math.nan
    if exact != number or exact != value:  # NaN, whole numbers that a float cannot hold, a time's number
        raise Misfit("a number", value)
    return exact


def _number_text(value: float) -> str:
    return INFINITE_TEXTS.get(value) or float.__repr__(value)


def _read_number(value: Any) -> float:
    if isinstance(value, str) and value in INFINITIES:
        return INFINITIES[value]
    return _number(value)


TEXT = JsonForm(
    _plain_text, encode_basestring_ascii, _read_text, "type($) is str and $.isascii()", "escaped($)"
)
JSON = JsonForm(_json_text, lambda value: value or "null", _read_json, shown="$ or null")
"""Text that is JSON stands in an event as the value that it means; empty text as null."""
WHOLE = JsonForm(_whole, int.__repr__, _whole, f"type($) is int and {LEAST_WHOLE} <= $ <= {MOST_WHOLE}", "$")
TRUTH = JsonForm(_truth, _truth_text, _truth, "type($) is bool", "true if $ else false")
NUMBER = JsonForm(
    _number,
    _number_text,
    _read_number,
    "type($) is float and $ == $",
    "$ if $ - $ == 0.0 else infinite[$]",  # infinity less itself is no number
)
SCOPE = {
    "escaped": encode_basestring_ascii,
    "infinite": INFINITE_TEXTS,
    "true": "true",
    "false": "false",
    "null": "null",
}
"""What the Python of forms names."""


def choice(choices: tuple[str, ...]) -> JsonForm:
    """Return the form of one text out of some."""

    def check(value: Any) -> str:
        word = str.__str__(value) if isinstance(value, str) else None
        if word not in choices:
            raise Misfit(f"one of {', '.join(choices)}", value)
        return word

    return JsonForm(
        check, encode_basestring_ascii, check, f"type($) is str and $ in {choices!r}", "escaped($)"
    )
