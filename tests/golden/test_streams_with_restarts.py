"""Streams whose classes have a restart: every number of every policy, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .parts_of_streams import FOLDER, SETTINGS, told

RESTART_HOURS = 0.06


@pytest.mark.parametrize("setting", SETTINGS)
def test_streams_with_restarts_are_as_they_were(setting: str, golden: Callable[[Path, str], None]) -> None:
    golden(FOLDER / "with-restarts" / f"{setting}.json", told(setting, RESTART_HOURS))
