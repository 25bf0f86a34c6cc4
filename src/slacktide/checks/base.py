"""What all contracts share: the error of a broken promise, and the ways in which one is found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

PAUSE_S = 0.02  # between two looks at something that is waited for

Found = TypeVar("Found")
Plugin = TypeVar("Plugin")
AnyCase = TypeVar("AnyCase")


class CheckFailed(AssertionError):
    """A plug-in does not keep a promise of its contract."""


def must(holds: object, words: str) -> None:
    """Raise CheckFailed with what does not hold."""
    if not holds:
        raise CheckFailed(words)


def wait_until(
    look: Callable[[], Found], condition: Callable[[Found], object], words: str, patience_s: float
) -> Found:
    """Look until something holds, and return what was seen then; raises CheckFailed if it never does."""
    give_up = time.monotonic() + patience_s
    # What was seen is returned, and not looked at again: what changes may have changed back by then.
    while not condition(found := look()):
        must(time.monotonic() < give_up, f"{words} within {patience_s:g} s")
        time.sleep(PAUSE_S)
    return found


def run_all(
    checks: Iterable[Callable[[Plugin, AnyCase, np.random.Generator], None]],
    plugin: Plugin,
    cases: Callable[[], Iterable[AnyCase]],
    seed: int,
) -> None:
    """Run every check on every case; raises CheckFailed at the first broken promise."""
    for check in checks:
        # Each check draws from a generator of its own, so that one fails alike alone and among the others.
        rng = np.random.default_rng(seed)
        for case in cases():
            check(plugin, case, rng)
