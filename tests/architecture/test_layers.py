"""Imports point inwards: a module uses its own row of the house or rows below it, never above."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PRODUCT, PAPERS = "slacktide", "slacktide_papers"

ROWS: dict[str, int] = {
    "arrays": 0, "errors": 0, "demo": 0, "worker": 0,
    "types": 1, "speedup": 1, "units": 1, "files": 1, "boot": 1,
    "yaml_tree": 1, "yaml_fields": 1,
    "compiled": 2, "own_class": 2, "register": 2, "physics": 2, "pace": 2, "tariff": 2, "ledger": 2,
    "events": 2, "truth": 2,
    "market": 3, "forecast": 3, "solve": 3, "learn": 3, "budget": 3,
    "site": 4, "policy": 4, "allocate": 4, "results": 4,
    "provider": 4, "spread": 4,
    "backtesting": 5, "jobfile": 5, "store": 5, "backend": 5, "report": 5, "checkpoints": 5,
    "feeds": 5,
    "engine": 6,
    "app": 7, "checks": 7,
    "api": 8, "web": 8, "cli": 8, "__main__": 8, PAPERS: 8,
    "__init__": 9,
}  # fmt: skip
APART = {"backtesting", "jobfile", "store", "backend", "report"}
"""Siblings of one row that do not import each other."""

MODULES = sorted(SOURCE.rglob("*.py"))


def part(names: Sequence[str]) -> str:
    """Return the row's key of a module: the first name below the product, or the papers' package."""
    if names[0] != PRODUCT:
        return names[0]
    return names[1] if len(names) > 1 else "__init__"


def imports(module: Path) -> Iterator[tuple[str, int]]:
    """Yield what a module imports of our packages, for typing only or at run time, and in which line."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}:{node.lineno} must say in full what it imports"
            deeper = node.module == PRODUCT
            found = [f"{PRODUCT}.{alias.name}" if deeper else str(node.module) for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        yield from ((name, node.lineno) for name in found if name.split(".")[0] in (PRODUCT, PAPERS))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_inwards(module: Path) -> None:
    mine = part(module.relative_to(SOURCE).with_suffix("").parts)
    assert mine in ROWS, f"{mine} has no row; add it to ROWS and to docs/design.md"
    for target, line in imports(module):
        other = part(target.split("."))
        where = f"{module.relative_to(SOURCE)}:{line} imports {target}"
        assert other in ROWS, where
        assert ROWS[other] <= ROWS[mine], f"{where}, which lies further out"
        assert other == mine or not {other, mine} <= APART, f"{where}, its sibling"


OPEN_TO_COMMANDS = {
    "cli", "app", "api", "report", "errors", "units", "types", "results", "register", "own_class", "events",
    "ledger"
}  # fmt: skip
"""What commands may use: verbs, what shows their results, and the types in which both speak."""


def test_commands_only_turn_arguments_into_requests_and_results_into_text() -> None:
    for module in (SOURCE / PRODUCT / "cli").glob("*.py"):
        others = {part(target.split(".")) for target, _ in imports(module)} - OPEN_TO_COMMANDS
        assert not others, f"cli/{module.name} uses {others}: go through slacktide.app"


def test_imports_for_typing_only_are_seen(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("if TYPE_CHECKING:\n    from slacktide import cli\n    import slacktide.engine.bill\n")
    assert list(imports(module)) == [("slacktide.cli", 2), ("slacktide.engine.bill", 3)]


def test_the_product_does_not_know_the_papers() -> None:
    for module in (SOURCE / PRODUCT).rglob("*.py"):
        assert PAPERS not in module.read_text(encoding="utf-8"), module


def test_every_row_is_of_something_that_exists() -> None:
    assert {part(module.relative_to(SOURCE).with_suffix("").parts) for module in MODULES} == set(ROWS)


HEAVY = ("numpy", "numba", "scipy", "pyarrow", "matplotlib", "rich", "yaml", "starlette", "uvicorn")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from slacktide.cli import run; run(['--help']);"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
