"""Parts that another package brings, found by the entry points of its installation."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from slacktide.core.errors import InputError, shown

REINSTALL = (
    "is part of the papers' experiments, which ship with Slacktide but are not installed here; "
    "install all of it again: python -m pip install --force-reinstall slacktide"
)
"""The answer to a name of the papers' package where it is missing; nothing here imports that package."""


def extension(group: str, name: str, what: str) -> Any:
    """Return what one of our own entry points stands for; raises InputError with the remedy if it is missing.

    Groups of plug-ins, which anyone may add to, are read by their register.
    """
    for entry in metadata.entry_points(group=group, name=name):
        try:
            return entry.load()
        except ModuleNotFoundError as error:
            raise InputError(f"{what} {shown(name)} {REINSTALL}; got {error}") from error
    raise InputError(f"{what} {shown(name)} {REINSTALL}")
