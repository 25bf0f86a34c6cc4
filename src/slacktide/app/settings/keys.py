"""Which keys a settings file may have, and what each must hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from slacktide.core.errors import InputError, shown, unknown_name

PROFILE, PROFILES, DEFAULTS = "profile", "profiles", "defaults"
TOKEN_KEYS = ("token", "token_file", "token_command")
"""Three ways to give a token; a table has one of them at most."""


class Key(NamedTuple):
    """One setting."""

    meaning: str
    read: Callable[[object], str | float]  # return the value; raises InputError where it cannot be used
    variable: str = ""  # the environment variable that comes before every file


def _text(came: object) -> str:
    if not isinstance(came, str) or not came.strip() or not came.isprintable():
        raise InputError(f"must be a text in quotes that is not empty, got {shown(came)}")
    return came


def _url(came: object) -> str:
    if not _text(came).startswith(("http://", "https://")):
        raise InputError(f"must be http://HOST:PORT or https://HOST, got {shown(came)}")
    return _text(came)


def _secret(came: object) -> str:
    """Return a token; what came is not quoted in the message."""
    if not isinstance(came, str) or ":" not in came or not came.isprintable():
        raise InputError("must be a text in quotes as NAME:SECRET, got something else (not shown)")
    return came


def _price(came: object) -> float:
    number = isinstance(came, int | float) and not isinstance(came, bool)
    if not number or not 0 <= float(came) < math.inf:  # type: ignore[arg-type]
        raise InputError(f"must be a number of USD per GPU-hour >= 0, got {shown(came)}")
    return float(came)  # type: ignore[arg-type]


KEYS: dict[str, Key] = {
    "journal": Key("The journal that commands use.", _text, "SLACKTIDE_JOURNAL"),
    "server": Key("The server whose journal commands use.", _url, "SLACKTIDE_SERVER"),
    "token": Key("The token for the server, as NAME:SECRET.", _secret, "SLACKTIDE_TOKEN"),
    "token_file": Key("A file with the token in its first line.", _text),
    "token_command": Key("A command that prints the token.", _text),
    "market": Key("The market of jobs whose files name none.", _text),
    "spot_usd": Key("Spot USD per GPU-hour, where a trace has no price.", _price),
    "on_demand_usd": Key("On-demand USD per GPU-hour, where a trace has no price.", _price),
}
"""What the top of a file and each of its profiles may set."""


def check_table(table: Mapping[str, Any], *, top: bool, project: bool) -> tuple[str, str] | None:
    """Return the first key of a table that cannot be used, with what is wrong; None where all can."""
    known = [*KEYS, DEFAULTS, *((PROFILE, PROFILES) if top else ())]
    for key, value in table.items():
        wrong = _wrong(key, value, known, project)
        if wrong:
            return key, wrong
    ways = [key for key in TOKEN_KEYS if key in table]
    if len(ways) > 1:
        return ways[1], f"a table must give the token in one way, got {' and '.join(ways)}"
    return None


def _wrong(key: str, value: object, known: list[str], project: bool) -> str:
    if key not in known:
        return unknown_name("a key", key, known)
    if project and key in TOKEN_KEYS:
        return (
            f"{key} must not be in a project's file, which others may write or read; "
            "move it to your own file (`slacktide config path` names it)"
        )
    if key in (DEFAULTS, PROFILES):
        return "" if isinstance(value, dict) else f"{key} must be a table, got {shown(value)}"
    try:
        (_text if key == PROFILE else KEYS[key].read)(value)
    except InputError as error:
        return f"{key} {error}"
    return ""
