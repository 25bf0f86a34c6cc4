"""Machines that only copy checkpoints need pyarrow and nothing else, and controllers not even that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def imported(code: str) -> set[str]:
    """Which packages a new Python has imported after some code."""
    code += "\nimport sys; print(*{name.split('.')[0] for name in sys.modules})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_process_that_copies_imports_nothing_but_the_standard_library_at_first() -> None:
    found = imported("import slacktide.backends.checkpoints.vault")
    assert found - imported("") - set(sys.stdlib_module_names) == {"slacktide"}
    assert "pyarrow" not in imported("import slacktide.backends.checkpoints.stored"), (
        "a controller needs none"
    )


def test_a_vault_needs_pyarrow_alone(store: Path, work: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('numpy', 'numba', 'yaml', 'click', 'rich', 'matplotlib'): sys.modules[name] = None\n"
        "import pathlib\n"
        "from slacktide.files.store_url import open_store\n"
        "from slacktide.backends.checkpoints.vault import Vault\n"
        f"work = pathlib.Path({str(work)!r})\n"
        f"assert Vault(*open_store({f'file://{store}'!r}), 'j', 'j').save(work, 1, 0.5).files == 2"
    )
    assert "pyarrow" in imported(code)
