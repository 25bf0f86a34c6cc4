"""Streams whose restarts cost nothing, the papers' model: every number of every policy, to the last bit.

A change of the program must not move these; those with restarts stand in `test_streams_with_restarts.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .parts_of_streams import FOLDER, SETTINGS, told


@pytest.mark.parametrize("setting", SETTINGS)
def test_streams_without_restarts_are_as_they_were(setting: str, golden: Callable[[Path, str], None]) -> None:
    golden(FOLDER / f"{setting}.json", told(setting, 0.0))
