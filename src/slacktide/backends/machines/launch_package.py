"""Packs a job's working folder for other machines: a zip file of limited size, equal for equal files."""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import pickle
import shutil
import stat
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from slacktide.backends.machines.agent.messages import SHARED, LaunchPack
from slacktide.backends.workers.launch import Launch
from slacktide.core.errors import InputError

MOST_BYTES = 100 * 1024 * 1024
LEFT_OUT = (
    ".git", ".hg", ".svn", "__pycache__", ".venv", "venv", "node_modules", ".mypy_cache", ".ruff_cache",
    ".pytest_cache", "*.pyc", "*.db", "*.db-*", "*.runs",
)  # fmt: skip
"""Names that are not sent: what tools generated, and journals."""
IGNORE_FILE = ".slacktideignore"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # one time for all files, so that the same files make the same zip


def packed(launch: Launch, owner: str) -> tuple[str, LaunchPack]:
    """Return a job's package, with its working folder, and its name; raises InputError or OSError."""
    shared = None
    if launch.spec.checkpoints and launch.spec.checkpoint_url is None:
        shared = owner
        (launch.checkpoint_dir / SHARED).write_text(shared, encoding="ascii")
    # Each machine's agent has another owner name, but must find a job's checkpoints under the same one.
    pack = LaunchPack(replace(launch, checkpoint_owner=owner), zipped(launch.workdir), shared)
    return hashlib.sha256(pickle.dumps(pack)).hexdigest()[:24], pack


def zipped(folder: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the files of a folder as a zip file; raises InputError if they are too large, or OSError."""
    out, size = io.BytesIO(), 0
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder):
            found = path.stat()
            size += found.st_size
            if size > most_bytes:
                raise InputError(
                    f"the working folder must have at most {most_bytes >> 20} MB to travel to machines, "
                    f"got more in {folder}; set workdir to a smaller one, or name what stays behind in "
                    f"{IGNORE_FILE}, one pattern on a line"
                )
            entry = zipfile.ZipInfo(str(path.relative_to(folder)), _EPOCH)
            entry.external_attr = stat.S_IMODE(found.st_mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            with path.open("rb") as file:
                archive.writestr(entry, file.read(), compresslevel=1)
    return out.getvalue()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the plain files that are sent, in the order of their names."""
    patterns = (*LEFT_OUT, *_ignored(folder))
    for home, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not _is_left(folder, Path(home, name), patterns))
        for name in sorted(names):
            path = Path(home, name)
            if path.is_file() and not _is_left(folder, path, patterns):
                yield path


def _ignored(folder: Path) -> tuple[str, ...]:
    try:
        lines = (folder / IGNORE_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ()
    found = (line.strip().rstrip("/") for line in lines)
    return tuple(line for line in found if line and not line.startswith("#"))


def _is_left(root: Path, path: Path, patterns: tuple[str, ...]) -> bool:
    """Say whether a pattern matches a file's name or its path in the folder, so that it is not sent."""
    whole = str(path.relative_to(root))
    return any(fnmatch.fnmatch(name, pattern) for name in (path.name, whole) for pattern in patterns)


def check_shared(pack: LaunchPack) -> None:
    """Raise InputError for a job whose checkpoints would be on this machine alone."""
    if pack.shared is None:
        return
    folder = pack.launch.checkpoint_dir
    try:
        found = (folder / SHARED).read_text(encoding="ascii")
    except (OSError, ValueError):
        found = ""
    if found != pack.shared:
        raise InputError(
            f"the checkpoint folder of job {pack.launch.job} must be the same on all machines, or in a "
            f"store, got a machine that does not see {folder}; write checkpoint: {{url: s3://...}}"
        )


def unpacked(pack: LaunchPack, target: Path) -> Path:
    """Unpack the working folder next to an older one, then put it in that one's place."""
    draft = target.with_name(f".{target.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True, mode=0o700)
    with zipfile.ZipFile(io.BytesIO(pack.files)) as archive:
        archive.extractall(draft)
        for entry in archive.infolist():
            mode = entry.external_attr >> 16
            if mode & 0o111 and not entry.is_dir():
                os.chmod(draft / entry.filename, 0o700)
    shutil.rmtree(target, ignore_errors=True)
    draft.rename(target)
    return target
