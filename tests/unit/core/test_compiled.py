"""Compiled twins: the one that Python calls, and the one that is called within compiled code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slacktide.core import compiled as compiled_module
from slacktide.core.compiled import compilable, compiled


@compilable
def twice(number: float) -> float:
    return 2.0 * number


@compilable
def rule(number: float) -> float:
    """Stand for what is bound."""
    return number


@compilable
def next_of(number: float) -> float:
    return rule(number) + 1.0


@compilable
def both(number: float) -> float:
    return next_of(number) + twice(number)


def test_one_function_is_called_by_python_and_within_compiled_code() -> None:
    bound: Any = compiled(next_of, rule=twice)
    assert bound(3.0) == 7.0
    assert compiled(both)(3.0) == both(3.0) == 10.0
    assert compiled(twice)(3.0) == 6.0


def test_a_result_of_compiled_may_be_bound_and_is_still_called_by_python() -> None:
    inner: Any = compiled(next_of, rule=twice)
    assert compiled(next_of, rule=inner)(3.0) == 8.0
    assert inner(3.0) == 7.0
    assert compiled(next_of, rule=inner) is compiled(next_of, rule=inner)


def test_only_marked_functions_are_compiled() -> None:
    with pytest.raises(TypeError, match="must be marked @compilable"):
        compiled(test_only_marked_functions_are_compiled)


def test_machine_code_is_filed_under_all_sources_that_are_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "slacktide/core/compiled.py": "",
        "slacktide/physics/rule.py": "@compilable\ndef rule(): ...",
        "slacktide/units/__init__.py": "DAY = 24",
        "slacktide/units/hours.py": "from slacktide import units",
        "slacktide_more/kernel.py": "from slacktide.units import hours\n@inlined\ndef kernel(): ...",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(compiled_module, "__file__", str(tmp_path / "slacktide/core/compiled.py"))
    before, changed = compiled_module._digest(), set()
    for name, text in texts.items():
        (tmp_path / name).write_text(f"{text}\nA = 1")
        if compiled_module._digest() != before:
            changed.add(name)
        (tmp_path / name).write_text(text)
    assert changed == {*texts} - {"slacktide/core/compiled.py"}
