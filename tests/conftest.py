"""Fixtures that many tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real traces; tests that need it are skipped where it is not."""
    folder = Path(os.environ.get("SLACKTIDE_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "markets").is_dir():
        pytest.skip(f"real traces are not at {folder}; set SLACKTIDE_DATA")
    return folder
