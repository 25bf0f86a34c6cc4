"""Imports point one way: a package uses the packages before it in one order, never those after it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PRODUCT, PAPERS = "slacktide", "slacktide_papers"

ORDER = (
    "core", "physics", "market", "budget", "solvers", "journal", "results", "policies", "allocators",
    "providers", "files", "simulation", "backends", "engine", "report", "checks", "app", "client", "service",
    "cli", "__main__", PAPERS, "__init__",
)  # fmt: skip
"""A package may import those before it; `docs/architecture.md` says what each owns."""
ALONE = {"worker": {"worker"}, "demo": {"demo", "worker"}}
"""What training scripts import: it must work where nothing else of Slacktide does."""
HELPERS = "testing"
"""What tests of plug-ins need. It may import what comes before `app`; only verbs import it."""

MODULES = sorted(SOURCE.rglob("*.py"))
MOST_ENTRIES, MOST_PACKAGES = 15, 24


def part(names: Sequence[str]) -> str:
    """Return the package of a module: the first name below the product, or the papers' package."""
    if names[0] != PRODUCT:
        return names[0]
    return names[1] if len(names) > 1 else "__init__"


def may_import(mine: str, other: str) -> bool:
    """Whether a package may import another, for typing only or at run time."""
    if mine in ALONE:
        return other in ALONE[mine]
    if other in ALONE:
        return mine in {"backends", "app", "cli", PAPERS, "__init__"}  # they know their names and forms
    if mine == HELPERS:
        return other == HELPERS or ORDER.index(other) < ORDER.index("app")
    if other == HELPERS:
        return mine in {"app", PAPERS}
    return ORDER.index(other) <= ORDER.index(mine)


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
def test_imports_point_one_way(module: Path) -> None:
    mine = part(module.relative_to(SOURCE).with_suffix("").parts)
    for target, line in imports(module):
        other = part(target.split("."))
        where = f"{module.relative_to(SOURCE)}:{line} imports {target}"
        assert may_import(mine, other), f"{where}, which comes after {mine}"


def test_no_modules_import_each_other_in_a_circle() -> None:
    names = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in MODULES
    }
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        uses = graph.setdefault(name, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                uses |= {one if one in names else str(node.module) for one in inner} & set(names)
            elif isinstance(node, ast.Import):
                uses |= {alias.name for alias in node.names} & set(names)
        uses -= {name, PRODUCT}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


OPEN_TO_COMMANDS = {"cli", "app", "client", "service", "report", "core", "results", "journal", "physics"}
"""What commands may use: verbs, what shows their results, and the types in which both speak."""


def test_commands_only_turn_arguments_into_requests_and_results_into_text() -> None:
    for module in (SOURCE / PRODUCT / "cli").rglob("*.py"):
        others = {part(target.split(".")) for target, _ in imports(module)} - OPEN_TO_COMMANDS
        assert not others, f"{module.relative_to(SOURCE)} uses {others}: go through slacktide.app"


def test_imports_for_typing_only_are_seen(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("if TYPE_CHECKING:\n    from slacktide import cli\n    import slacktide.engine.bill\n")
    assert list(imports(module)) == [("slacktide.cli", 2), ("slacktide.engine.bill", 3)]


def test_the_product_does_not_know_the_papers() -> None:
    for module in (SOURCE / PRODUCT).rglob("*.py"):
        assert PAPERS not in module.read_text(encoding="utf-8"), module


def test_every_package_has_its_place() -> None:
    found = {part(module.relative_to(SOURCE).with_suffix("").parts) for module in MODULES}
    assert found == {*ORDER, *ALONE, HELPERS}


def folders() -> list[Path]:
    """Return every folder of the product that has modules."""
    return sorted({module.parent for module in (SOURCE / PRODUCT).rglob("*.py")})


def folders_of_files() -> list[Path]:
    """Return every folder of the product, also those that have only scripts, styles or templates."""
    files = (
        path for path in (SOURCE / PRODUCT).rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    return sorted({path.parent for path in files})


@pytest.mark.parametrize("folder", folders_of_files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_folders_can_be_looked_over(folder: Path) -> None:
    entries = {entry.name for entry in folder.iterdir()} - {"__pycache__", "__init__.py", "py.typed"}
    most = MOST_PACKAGES if folder == SOURCE / PRODUCT else MOST_ENTRIES
    assert len(entries) <= most, f"{folder} has {len(entries)} entries; group what belongs together"


@pytest.mark.parametrize("folder", folders(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_folders_say_what_they_own(folder: Path) -> None:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert said, f"{folder}/__init__.py must say what the folder owns and where to begin"


HEAVY = (
    "numpy",
    "numba",
    "scipy",
    "pyarrow",
    "matplotlib",
    "rich",
    "yaml",
    "starlette",
    "tomlkit",
    "uvicorn",
)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from slacktide.cli import run; run(['--help']);"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.splitlines()[-1] == "[]"
