"""Fixtures that many tests share."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

from tests.parts_of_order import in_order

ROOT = Path(__file__).parents[1]

# Whoever started the tests may ignore signals (nohup, a shell's background), and what they start would too.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)


os.environ["SLACKTIDE_CONFIG"] = os.devnull  # the settings of whoever runs the tests are no part of them


# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real traces; tests that need it are skipped where it is not."""
    folder = Path(os.environ.get("SLACKTIDE_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "markets").is_dir():
        pytest.skip(f"real traces are not at {folder}; set SLACKTIDE_DATA")
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files anew from what came out"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have long tests begun first: one that begins last is waited for alone."""
    items[:] = in_order(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compare a text with a golden file, or write it when asked to."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} must exist; write it with --update-golden"
        assert text == path.read_text(encoding="utf-8"), f"{path.name} differs; if meant, --update-golden"

    return compare
