"""Every back end keeps the contract."""

from __future__ import annotations

import pytest

from slacktide.backend.base import backends
from slacktide.checks.backend import check_backend


def test_the_usual_ones_are_known() -> None:
    assert {"local", "replay"} <= set(backends)


@pytest.mark.parametrize("name", sorted(backends))
def test_back_ends_keep_the_contract(name: str) -> None:
    check_backend(backends.get(name))
