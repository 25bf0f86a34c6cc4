"""The short form of the fault campaign: one play of each kind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from campaigns.faults import PLAYS, title
from campaigns.faults.machine import compiler

ROOT = Path(__file__).parents[2]
SHORT = {
    "workers get a stop signal": 1,
    "a machine is lost while no controller runs": 1,
    "the clock is set": 2,
    "a secret is missing": 1,
    "a feed misbehaves": 2,
    "a disk is full for a while": 1,
}
"""Plays that go through all that the campaign can do to a run, with the round of the plays that is tried."""


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("name", SHORT)
def test_a_fault_breaks_no_law(name: str) -> None:
    if not Path("/proc/self/environ").exists():
        pytest.skip("workers are looked for in /proc, which this system does not have")
    seed = [title(play) for play in PLAYS].index(name) + SHORT[name] * len(PLAYS)
    command = [sys.executable, "-m", "campaigns", "faults", "--count", "1", "--seed", str(seed)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"1 {name}" in done.stdout
