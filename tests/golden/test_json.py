"""What `-o json` prints for the shipped examples: all of it, but for the last bits of floats.

Powers and logarithms of arrays end in other bits on other processors (NumPy takes the widest vectors that
there are), so numbers may differ by one part in 10 ** 12, and nothing else may.
Their own markets have slots of minutes; these are coarser, so that all of it takes seconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from slacktide.cli import run

FLOAT = re.compile(r"-?\d+\.\d+(?:e[-+]\d+)?|-?\d+e[-+]\d+")
ROOT = Path(__file__).parents[2]
H100, V100 = (f"synthetic:{name}?days=12&slot=1h&seed=4" for name in ("h100", "v100"))
COARSE = H100.replace("slot=1h", "slot=2h")
COMMANDS = {
    "plan-llama-lora": ("plan", "examples/llama-lora.yaml", "--market", COARSE),
    "plan-one-v100": ("plan", "examples/one-v100.yaml", "--market", V100),
    "plan-soft-deadline": ("plan", "examples/soft-deadline.yaml", "--market", H100),
    "plan-discrete-widths": ("plan", "examples/discrete-widths.yaml", "--market", COARSE),
    "backtest-llama-lora": ("backtest", "examples/llama-lora.yaml", "--market", H100, "--starts", "3"),
    "backtest-one-v100": ("backtest", "examples/one-v100.yaml", "--market", V100, "--starts", "3"),
    "backtest-soft-deadline": ("backtest", "examples/soft-deadline.yaml", "--market", H100, "--starts", "3"),
    "backtest-discrete-widths": (
        "backtest", "examples/discrete-widths.yaml", "--market", H100, "--starts", "3",
        "--policy", "uniform-progress,ahap,ahanp",
    ),
    "budget": ("budget", "examples/fleet.yaml"),
    "budget-frontier": ("budget", "examples/fleet.yaml", "--frontier", "--budget", "24 gpus"),
    "budget-response": ("budget", "examples/fleet.yaml", "--response", "2h", "--continuous"),
    "simulate": ("simulate", "examples/fleet.yaml", "--count", "120"),
    "simulate-nodes": (
        "simulate", "examples/fleet.yaml", "--count", "150", "--node-gpus", "4",
        "--policy", "fixed-width,online-width,srpt",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_json_is_as_it_was(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    golden: Callable[[Path, str], None],
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("SLACKTIDE_HOME", str(tmp_path))
    assert run([*COMMANDS[name], "-o", "json"]) == 0
    path, text = Path(__file__).parent / "json" / f"{name}.json", capsys.readouterr().out
    golden(
        path, path.read_text("utf-8") if path.exists() and is_same(text, path.read_text("utf-8")) else text
    )


def is_same(text: str, other: str) -> bool:
    """Whether two texts are the same but for the last bits of the numbers in them."""
    if FLOAT.sub("", text) != FLOAT.sub("", other):
        return False
    pairs = zip(FLOAT.findall(text), FLOAT.findall(other), strict=True)
    return all(math.isclose(float(one), float(two), rel_tol=1e-12, abs_tol=1e-15) for one, two in pairs)


def test_only_last_bits_may_differ() -> None:
    assert is_same('{"a": 1, "b": 0.30000000000000004}', '{"a": 1, "b": 0.3}')
    assert not is_same('{"a": 1, "b": 0.3}', '{"a": 1, "b": 0.30000001}')
    assert not is_same('{"a": 1, "b": 0.3}', '{"a": 2, "b": 0.3}')
    assert not is_same('{"a": 0.3}', '{"b": 0.3}')
