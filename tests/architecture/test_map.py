"""The map of the packages in docs/architecture.md is true."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.architecture.test_layers import ALONE, HELPERS, ORDER, PAPERS, PRODUCT, SOURCE, folders

PAGE = (SOURCE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (.+) \|$", PAGE, re.MULTILINE)
DECISIONS = SOURCE.parent / "docs" / "design"


def test_the_table_has_every_package_in_the_order_of_imports() -> None:
    assert [name for name, *_ in ROWS] == [
        name for name in ORDER if name not in ("__main__", PAPERS, "__init__")
    ]


def test_packages_outside_of_the_order_are_named_below_the_table() -> None:
    after = PAGE.split("Apart from these", 1)[1]
    assert all(f"`{name}`" in after for name in (*ALONE, HELPERS, PAPERS))


def test_every_decision_is_in_the_list() -> None:
    listed = (DECISIONS / "index.md").read_text(encoding="utf-8")
    pages = {page.name for page in DECISIONS.glob("*.md")} - {"index.md"}
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", listed)) == pages


@pytest.mark.parametrize("folder", folders(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_where_to_begin_is_there(folder: Path) -> None:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    for name in re.findall(r"[Bb]egin with `([a-z0-9_]+)", said):
        places = (folder / name, folder / f"{name}.py", SOURCE / PRODUCT / name)
        assert any(place.exists() for place in places), f"{folder}/__init__.py names {name}"
