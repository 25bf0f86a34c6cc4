"""The formats that pictures and pages can be written in, chosen by the ending of the file's name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from slacktide.core.errors import InputError, shown

PICTURES = (".png", ".svg", ".pdf")
PAGES = (".html", ".htm")


def ending_of(path: str | os.PathLike[str], known: Sequence[str], what: str) -> str:
    """Return the ending that says how to write a file; raises InputError when it is none of the known ones.

    A pipe or a device has no ending and gets the first format.
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending in known:
        return ending
    if target.exists() and not target.is_file() and not target.is_dir():
        return known[0]
    endings = f"{', '.join(known[:-1])} or {known[-1]}"
    came = shown(target.suffix) if target.suffix else f"{shown(str(path))} without an ending"
    raise InputError(f"{what} must be written to a file that ends in {endings}, got {came}")


def picture_format(path: str | os.PathLike[str]) -> str:
    """Return the format of a picture by its file's ending: png, svg or pdf; raises InputError."""
    return ending_of(path, PICTURES, "a picture").removeprefix(".")


def check_page(path: str | os.PathLike[str]) -> None:
    """Raise InputError unless a page can be written to this file."""
    ending_of(path, PAGES, "a page")
