"""What the checks of all contracts share: the error that they raise, waiting, and a runner."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

PAUSE_S = 0.02  # between two looks while waiting for something

Found = TypeVar("Found")
Plugin = TypeVar("Plugin")
AnyCase = TypeVar("AnyCase")


class CheckFailed(AssertionError):
    """A plug-in does not keep a promise of its contract."""


def must(holds: object, words: str) -> None:
    """Raise CheckFailed with these words unless `holds` is true."""
    if not holds:
        raise CheckFailed(words)


def wait_until(
    look: Callable[[], Found], condition: Callable[[Found], object], words: str, patience_s: float
) -> Found:
    """Call `look` until its result meets the condition, and return it; raises CheckFailed if none does."""
    give_up = time.monotonic() + patience_s
    # The result that was tested is returned: another look might already return a different one.
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
        # Each check gets a fresh generator, so that it fails in the same way alone and among the others.
        rng = np.random.default_rng(seed)
        for case in cases():
            check(plugin, case, rng)
