"""Setup of a Ray node before its first task: it must run the same code as the sweep's own process.

These functions are sent by value, because a node may have no Slacktide or another version; so they import
only the standard library until that is settled. If the node's own code differs, the sweep's is unpacked into
a folder named by its digest, where compiled code finds the same files the next time.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import io
import os
import platform
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

NEEDED = ("numpy", "numba", "llvmlite")
"""Libraries that results depend on; every node must have the same versions of these ..."""
ALIKE = ("scipy", "statsmodels")
"""... and of these, if it has them."""
KEPT_FOLDERS = 8  # how many packages of code stay on a node


def code_files(package: str) -> list[tuple[str, Path]]:
    """Return the files of a package as this process would import it, by name; none if there is no package."""
    spec = importlib.util.find_spec(package)
    roots = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec is not None else []
    return [
        (f"{package}/{path.relative_to(root).as_posix()}", path)
        for root in roots
        for path in sorted(root.rglob("*.py"))
    ]


def code_digest(package: str) -> str:
    """Return a digest of the code of a package as this process would import it."""
    digest = hashlib.sha256()
    for name, path in code_files(package):
        content = path.read_bytes()
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def code_archive(package: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in code_files(package):
            archive.writestr(name, path.read_bytes())
    return out.getvalue()


def versions() -> dict[str, str]:
    """Return the versions of the libraries that results depend on, as far as they are installed."""
    installed = {}
    for name in (*NEEDED, *ALIKE):
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return installed


def check_versions(wanted: Mapping[str, str]) -> str:
    """Return what differs on this node in a sentence; empty when results will be the same."""
    installed = versions()
    for name, version in wanted.items():
        here = installed.get(name, "none")
        if here != version and not (here == "none" and name in ALIKE):
            return (
                f"every node must have {name} {version}, as the sweep's own process, got "
                f"{here} on {platform.node()}; install it there, or start the cluster with "
                "this Python environment"
            )
    return ""


def settle(digests: Mapping[str, str], archive: Callable[[str], bytes]) -> None:
    """Make the sweep's code importable here: the node's own where it is the same, else an unpacked copy."""
    for package, digest in digests.items():
        # An imported package was settled by an earlier task: a worker belongs to one sweeping process.
        if package not in sys.modules and code_digest(package) != digest:
            sys.path.insert(0, str(unpacked(f"{package}-{digest}", partial(archive, package))))
            importlib.invalidate_caches()


def unpacked(name: str, archive: Callable[[], bytes]) -> Path:
    """Return the folder with this code, unpacked once on each node; it appears whole or not at all."""
    usual = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    root = Path(os.environ.get("SLACKTIDE_CACHE") or Path(usual) / "slacktide") / "code"
    folder = root / name
    if not folder.is_dir():
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = tempfile.mkdtemp(dir=root)
        with zipfile.ZipFile(io.BytesIO(archive())) as packed:
            packed.extractall(fresh)
        try:
            os.rename(fresh, folder)
        except OSError:  # another worker of this node was faster
            shutil.rmtree(fresh, ignore_errors=True)
    os.utime(folder)
    prune(root)
    return folder


def prune(root: Path) -> None:
    """Remove old unpacked code; the KEPT_FOLDERS that were used last stay."""

    def used(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:  # removed by another worker meanwhile
            return 0.0

    for old in sorted(root.iterdir(), key=used, reverse=True)[KEPT_FOLDERS:]:
        shutil.rmtree(old, ignore_errors=True)


def do(
    wanted: Mapping[str, str],
    digests: Mapping[str, str],
    archives: Mapping[str, Any],
    package: list[Any],
    task: bytes,
) -> Any:
    """Do one task of a sweep; returns its packed result, or a sentence that says why it cannot be done here.

    Archives and the package are Ray references inside containers, so that Ray does not fetch them unasked.
    """
    get = importlib.import_module("ray").get
    differs = check_versions(wanted)
    if differs:
        return differs
    settle(digests, lambda name: bytes(get(archives[name])))
    try:
        task_package = importlib.import_module("slacktide.simulation.parallel.task_package")
    except ImportError as error:
        return (
            f"every node must have what Slacktide needs, got: {error} on {platform.node()}; install it there"
        )
    key, content = package
    return task_package.do(key, lambda: get(content), task)
