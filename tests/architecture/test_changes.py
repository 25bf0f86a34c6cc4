"""Steps of the engine yield what is to be written and done; a call whose result is dropped does nothing."""

from __future__ import annotations

import ast

from tests.architecture.test_layers import PRODUCT, SOURCE

TREES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
    for path in (SOURCE / PRODUCT / "engine").rglob("*.py")
}
YIELDING = ("Changes", "Changing")


def is_step(node: ast.stmt) -> bool:
    """Whether a function says that it yields changes."""
    if not isinstance(node, ast.FunctionDef) or node.returns is None:
        return False
    return ast.unparse(node.returns).split("[")[0] in YIELDING


STEPS = {
    f"{module}.{node.name}"
    for module, tree in TREES.items()
    for node in tree.body
    if isinstance(node, ast.FunctionDef) and is_step(node)
}


def known_names(module: str, tree: ast.Module) -> dict[str, str]:
    """Return what each name of a module stands for, as far as functions and modules are concerned."""
    names = {node.name: f"{module}.{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_no_step_is_called_for_nothing() -> None:
    assert len(STEPS) > 20
    dropped = []
    for module, tree in TREES.items():
        names = known_names(module, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call):
                first, dot, rest = ast.unparse(node.value.func).partition(".")
                if f"{names.get(first)}{dot}{rest}" in STEPS:
                    dropped.append(f"{module}:{node.lineno}")
    assert not dropped, "write `yield from`, or have the engine perform them"
