"""Colours of the dashboard: text can be read in both themes, and lines are told apart without them."""

from __future__ import annotations

import itertools
import re

import pytest

from slacktide.service.dashboard.pages import static_files

READABLE, SEEN = 4.5, 3.0
"""The contrasts that WCAG 2.1 asks of text, and of lines and borders that matter (1.4.3 and 1.4.11)."""
PAPERS = ("paper", "card", "wash")
TEXTS = ("ink", "soft", "link", "good", "warn", "bad")
LINES = ("spot", "demand", "even", "offered", "done", "second", "third", "fourth", "focus")


def style() -> str:
    """Return the style sheet."""
    return static_files()["app.css"].content.decode()


def themes() -> dict[str, dict[str, str]]:
    """Return the variables of both themes; the dark one changes some."""
    blocks = re.findall(r":root \{(.*?)\}", style(), re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block)) for block in blocks)
    return {"light": light, "dark": {**light, **dark}}


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, as WCAG defines it."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Return how well one colour is seen on another: from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_and_lines_are_seen(theme: str) -> None:
    colours = themes()[theme]
    needed = [*itertools.product(TEXTS, PAPERS, [READABLE]), *itertools.product(LINES, ["card"], [SEEN])]
    needed += [(fore, "bar", READABLE) for fore in ("on-bar", "live", "away")]
    needed += [("on-bar", "main", READABLE)]
    poor = [(fore, back) for fore, back, least in needed if contrast(colours[fore], colours[back]) < least]
    assert poor == []


def test_every_line_has_dashes_of_its_own() -> None:
    looks = dict(re.findall(r"\.line\.(\w+) \{(.*?)\}", style()))
    dashes = {look: re.findall(r"stroke-dasharray: ([\d ]+)", rule) for look, rule in looks.items()}
    solid = [look for look, found in dashes.items() if not found]
    assert sorted(solid) == ["done", "spot"], "these two never stand in one chart"
    patterns = [found[0] for found in dashes.values() if found]
    assert len(patterns) == len(set(patterns)), patterns


def test_nothing_moves_for_who_wants_it_still() -> None:
    moving = re.findall(r"[^{}]*\{[^{}]*(?:transition|animation)[^{}]*\}", style())
    calm = style().partition("@media (prefers-reduced-motion: no-preference)")[2]
    assert all(rule.strip() in calm for rule in moving)
