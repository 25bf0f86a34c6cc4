"""Imports point inwards: a module uses its own row of the house or rows below it, never above."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "slacktide"

ROWS: dict[str, int] = {
    "arrays": 0, "errors": 0, "demo": 0,
    "types": 1, "speedup": 1, "units": 1, "files": 1,
    "compiled": 2, "events": 2, "ledger": 2, "physics": 2, "register": 2, "tariff": 2,
    "market": 3, "forecast": 3, "solve": 3, "learn": 3, "budget": 3,
    "policy": 4,
    "backtesting": 5, "report": 5, "store": 5, "backend": 5,
    "jobfile": 5,
    "engine": 6,
    "service": 7, "running": 7, "submitting": 7, "checks": 7,
    "cli": 8, "api": 8, "web": 8, "__main__": 8, "__init__": 9,
}  # fmt: skip
APART = {"backtesting", "report", "store", "backend"}
"""Siblings of one row that do not import each other."""

MODULES = sorted(SOURCE.rglob("*.py"))


def part(module: Path | str) -> str:
    """Return the first name below the package: the row's key."""
    if isinstance(module, Path):
        inside = module.relative_to(SOURCE)
        return inside.parts[0] if len(inside.parts) > 1 else inside.stem
    names = module.split(".")
    return names[1] if len(names) > 1 else "__init__"


def imports(module: Path) -> Iterator[tuple[str, int]]:
    """Yield what a module imports from the package at run time, and in which line."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "slacktide":
            deeper = node.module == "slacktide"
            for alias in node.names:
                yield (f"slacktide.{alias.name}" if deeper else str(node.module)), node.lineno
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "slacktide":
                    yield alias.name, node.lineno


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_inwards(module: Path) -> None:
    mine = part(module)
    assert mine in ROWS, f"{mine} has no row; add it to ROWS and to docs/design.md"
    for target, line in imports(module):
        other = part(target)
        where = f"{module.relative_to(SOURCE)}:{line} imports {target}"
        assert other in ROWS, where
        assert ROWS[other] <= ROWS[mine], f"{where}, which lies further out"
        assert other == mine or not {other, mine} <= APART, f"{where}, its sibling"


def test_house_rows_name_only_what_may_exist() -> None:
    built = {part(module) for module in MODULES}
    assert built <= set(ROWS)


HEAVY = ("numpy", "numba", "scipy", "pyarrow", "matplotlib", "rich", "yaml")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from slacktide.cli import run; run(['--help']);"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
