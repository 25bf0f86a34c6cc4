"""A house for every test of the API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .parts_of_api import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """The application on a journal of its own."""
    made = House(tmp_path)
    yield made
    made.close()
