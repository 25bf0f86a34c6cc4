"""The short form of the kill campaign: real controllers, workers and supervisors die, nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_kills_lose_nothing(seed: int) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("workers are looked for in /proc, which this system does not have")
    command = [sys.executable, "-m", "campaigns", "kills", "--count", "8", "--seed", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 kills" in done.stdout
