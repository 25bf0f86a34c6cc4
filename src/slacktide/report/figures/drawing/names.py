"""Policies as pictures name them: by their short name, with parameters only where two would be the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from slacktide.report.figures.drawing.style import drawable


def short_names(policies: Iterable[str], limit: int = 44) -> dict[str, str]:
    """Name each policy shortly: `ahap`, or `ahap (window 3)` where another one is an `ahap` too.

    Of parameters only those are said in which the policies of one name differ.
    """
    names = list(dict.fromkeys(policies))
    alike = Counter(_stem(name) for name in names)
    short = {name: _stem(name) for name in names}
    for stem in (stem for stem, count in alike.items() if count > 1):
        short |= _distinguished([name for name in names if _stem(name) == stem])
    # Two that read the same all the same, as none of their parameters could be read, keep their full names.
    twice = Counter(short.values())
    return {name: drawable(said if twice[said] == 1 else name, limit) for name, said in short.items()}


def _stem(name: str) -> str:
    return name.partition("(")[0].strip() or name


def _distinguished(names: Sequence[str]) -> dict[str, str]:
    """Name policies of one stem by the parameters in which they differ."""
    settings = {name: _parameters(name) for name in names}
    differ = [
        key
        for key in dict.fromkeys(key for found in settings.values() for key in found)
        if len({found.get(key) for found in settings.values()}) > 1
    ]
    said = {
        name: ", ".join(f"{_spoken(key)} {found[key]}" for key in differ if key in found)
        for name, found in settings.items()
    }
    return {name: f"{_stem(name)} ({differs})" if differs else _stem(name) for name, differs in said.items()}


def _spoken(key: str) -> str:
    return key.replace("_", " ")


def _parameters(name: str) -> dict[str, str]:
    """Read `ahap(window=3,inner=other(a=1))` as parameters; a comma inside parentheses divides nothing."""
    depth, parts = 0, [""]
    for char in name.partition("(")[2].removesuffix(")"):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    pairs = (part.partition("=") for part in parts if "=" in part)
    return {key.strip(): value.strip() for key, _, value in pairs}
