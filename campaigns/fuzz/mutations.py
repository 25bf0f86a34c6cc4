"""Changes to valid inputs as a slip, a broken tool or an ill will could make them, by seeded chance."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

NUMBERS = (
    "0", "-1", "1", "2", "0.5", "-0.0", "1e-9", "1e-320", "1e6", "1e23", "1e308", "1e400", "-1e308", "nan",
    "inf", "-inf", "NaN", "Infinity", "9" * 30, "9" * 5000, "1_000", "1,5", "0x10", "٣", "1/3", "64", "100",
    "1000", "4096", "4097", "86400", "2147483648", "9223372036854775808", "1e", ".", "+-1",
)  # fmt: skip
WORDS = (
    "", " ", "null", "~", "true", "no", "none", "auto", "x" * 5000, "x" * 90, "ä" * 300, "\x00",
    "\x1b[31mred",
    "\ud7ff", "\u2028", "😀", "a\nb", "a\tb", "'", '"', '"""', "`id`", "$(id)", "${HOME}", "{", "}", "[",
    "]", "{}",
    "[]", "&a x", "*a", "!!python/object:os.system x", "!!binary AAAA", "---", "...", "#", ": ", "- ", "|",
    ">", "%",
    "@", ",", ";", "1..8", "8..1", "1..", "{1,2,4}", "H100:0", "H100:1..1000", "90s", "1h30m", "3650d",
    "99999d",
    "-5m", "12:30", "600 usd", "$1e9", "40 gpu-hours", "0 gpu-hours", "1e9 gpu-hours", "20/day", "16 gpus",
    "0 usd/month", "2030-01-01", "2030-01-01T00:00:00Z", "1999-01-01", "linear", "amdahl", "../x",
    "missing.csv", ".",
    "synthetic", "synthetic:", "synthetic:nope", "synthetic:h100?days=0", "synthetic:h100?days=1e9",
    "replay", "local",
    "uniform-progress", "{ahap: {window: 3}}", "{ahap: {window: 0}}", "{on-demand: {x: 1}}",
    "{a: {b: {c: d}}}",
)  # fmt: skip
TIMES = (
    "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "4096-10-04T00:00:00Z", "1970-01-01",
    "2025-10-04T00:10:00+23:59",
    "9999-12-31T23:59:59-23:59", "2025-02-30T00:00:00Z", "2025-10-04T00:00:00", "20251004T001000Z",
    "10000-01-01T00:00:00Z",
    "2025-10-04T24:00:00Z", "2025-W40-1", "1759536000",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 0.5, 1e308, -1e308, float("nan"), float("inf"), 10**30, "", "x",
    "x" * 5000,
    "\x00", [], {}, [[]], [None], {"a": 1}, "2025-10-04T00:00:00Z", "4096-01-01T00:00:00Z", [1, 2, 3],
)  # fmt: skip

_TOKEN = re.compile(r"\d{4}-\d\d-\d\d[T ]?[\d:.]*Z?|[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\w+|\s+|[^\w\s]")
_TIME = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER = re.compile(r"[-+]?\d")


def text(source: str, chance: random.Random) -> bytes:
    """Return a text with a few of its tokens, lines or bytes changed; of some only the numbers, a little."""
    if chance.random() < 0.35:
        for _ in range(chance.randrange(1, 6)):
            source = nudged(source, chance)
        return source.encode()
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4))):
        source = chance.choice(TEXT_CHANGES)(source, chance)
    data = source.encode("utf-8", errors="surrogatepass")
    return damaged(data, chance) if chance.random() < 0.08 else data


def token(source: str, chance: random.Random) -> str:
    """Put something else in place of a token: of its own kind more often than not."""
    found = [match for match in _TOKEN.finditer(source) if not match[0].isspace()]
    if not found:
        return source
    match = chance.choice(found)
    return source[: match.start()] + other(match[0], chance) + source[match.end() :]


def other(old: str, chance: random.Random) -> str:
    """Return something to stand where a token stood."""
    if _TIME.match(old) and chance.random() < 0.8:
        return chance.choice(TIMES)
    if _NUMBER.match(old) and chance.random() < 0.8:
        return chance.choice(NUMBERS)
    return chance.choice(WORDS + NUMBERS)


def nudged(source: str, chance: random.Random) -> str:
    """Make a number larger or smaller, so that it may still be meant."""
    found = list(re.finditer(r"\d+(?:\.\d+)?", source))
    if not found:
        return source
    match = chance.choice(found)
    number = float(match[0]) * chance.choice((0.0, 0.01, 0.1, 0.5, 0.9, 1.1, 2.0, 3.0, 10.0, 25.0, 1e3, 1e6))
    whole = match[0].isdigit() and number < 1e18 and chance.random() < 0.8
    new = str(round(number)) if whole else f"{number:.6g}"
    return source[: match.start()] + new + source[match.end() :]


def dropped(source: str, chance: random.Random) -> str:
    """Leave out a token."""
    found = list(_TOKEN.finditer(source))
    if not found:
        return source
    match = chance.choice(found)
    return source[: match.start()] + source[match.end() :]


def value(source: str, chance: random.Random) -> str:
    """Replace all that follows the first colon or comma of a line."""
    lines = source.splitlines(keepends=True)
    at = chance.randrange(max(1, len(lines)))
    for sign in (": ", ","):
        if lines and sign in lines[at]:
            lines[at] = lines[at].split(sign)[0] + sign + chance.choice(WORDS + NUMBERS) + "\n"
            break
    return "".join(lines)


def line(source: str, chance: random.Random) -> str:
    """Leave out a line, write it twice, move it, or indent it."""
    lines = source.splitlines(keepends=True)
    if not lines:
        return source
    taken = lines.pop(chance.randrange(len(lines)))
    place = chance.randrange(len(lines) + 1)
    new = chance.choice(([], [taken], [taken, taken], ["  " + taken], ["\t" + taken], [taken.strip()]))
    return "".join([*lines[:place], *new, *lines[place:]])


def cut_short(source: str, chance: random.Random) -> str:
    """Lose the end, or the beginning."""
    at = chance.randrange(len(source) + 1)
    return source[:at] if chance.random() < 0.8 else source[at:]


def inserted(source: str, chance: random.Random) -> str:
    """Write something where nothing was asked for."""
    at = chance.randrange(len(source) + 1)
    return source[:at] + chance.choice(WORDS + NUMBERS + TIMES) + source[at:]


TEXT_CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    nudged, nudged, nudged, nudged, nudged, token, token, token, value, value, dropped, line, cut_short,
    inserted,
)  # fmt: skip


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return bytes with some flipped, lost, zeroed or put in."""
    if not data:
        return b"\xff"
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 3, 20))):
        at = chance.randrange(max(1, len(changed)))
        kind = chance.randrange(5)
        if kind == 0 and changed:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[at : at + chance.choice((1, 1, 7, 500))]
        elif kind == 2:
            changed[at:at] = chance.choice(
                (b"\xff", b"\x00", b"\xc3\x28", b"\xed\xa0\x80", b"PAR1", bytes(64))
            )
        elif kind == 3:
            changed[at : at + 16] = bytes(16)
        else:
            changed = changed[: max(1, at)]
    return bytes(changed)


def tree(source: str, chance: random.Random) -> bytes:
    """Return a JSON document with some of its values or keys changed; or damaged as a text is."""
    if chance.random() < 0.25:
        return text(source, chance)
    document = json.loads(source)
    for _ in range(chance.choice((1, 1, 2, 3))):
        document = _replaced(document, chance)
    if chance.random() < 0.02:
        return (b"[" * 100_000) + source.encode()
    return json.dumps(document).encode("utf-8", errors="surrogatepass")


def _replaced(node: Any, chance: random.Random) -> Any:
    """Go down a tree by chance and put another value somewhere."""
    if isinstance(node, dict) and node and chance.random() < 0.85:
        key = chance.choice(sorted(node))
        kind = chance.random()
        if kind < 0.1:
            return {name: part for name, part in node.items() if name != key}
        if kind < 0.15:
            return {**node, chance.choice(WORDS): chance.choice(VALUES)}
        return {**node, key: _replaced(node[key], chance)}
    if isinstance(node, list) and node and chance.random() < 0.85:
        at = chance.randrange(len(node))
        if chance.random() < 0.1:
            return node[:at] + node[at + 1 :]
        return [*node[:at], _replaced(node[at], chance), *node[at + 1 :]]
    return chance.choice(VALUES)
