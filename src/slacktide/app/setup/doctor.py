"""Checks what this machine has and lacks; installs, starts and sends nothing, and reads no secret."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from slacktide.app.settings.files import project_path, user_path
from slacktide.app.settings.settings import read_all
from slacktide.core.compiled import cache_dir
from slacktide.core.errors import SlacktideError
from slacktide.journal.store.paths import journal_path

OLDEST_PYTHON = (3, 11)
LEAST_FREE_GB = 1.0  # with less, journals and checkpoints soon fill the disk
PORT = 8470  # where `slacktide serve` listens by default
EXTRAS: dict[str, tuple[tuple[str, ...], str]] = {
    "arima": (("statsmodels",), "the forecaster `arima`"),
    "aws": (("boto3",), "live AWS prices, and checkpoints in S3"),
    "bound": (("scipy",), "`simulate --bound`"),
    "checks": (("hypothesis",), "checks of your own plug-ins"),
    "docs": (("mkdocs", "mkdocstrings"), "building the documentation as a site"),
    "ray": (("ray",), "jobs on several machines"),
    "serve": (("starlette", "uvicorn"), "`slacktide serve`"),
    "torch": (("torch",), "the PyTorch examples"),
    "trainers": (("accelerate", "lightning", "transformers"), "callbacks for transformers and Lightning"),
}
"""What each extra of the package brings, and what it is for."""
AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip

State = Literal["ok", "optional", "missing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked for."""

    name: str
    state: State  # `missing`: Slacktide does not work without it; `optional`: a part of it does not
    found: str
    remedy: str = ""  # what to do about it; empty if nothing need be done


def examine() -> list[Finding]:
    return [finding for look in LOOKS for finding in look()]


def _python() -> Iterator[Finding]:
    found = ".".join(map(str, sys.version_info[:3]))
    remedy = f"install Python {'.'.join(map(str, OLDEST_PYTHON))} or newer"
    yield _either("python", sys.version_info[:2] >= OLDEST_PYTHON, f"Python {found}", remedy)
    yield Finding("sqlite", "ok", f"SQLite {sqlite3.sqlite_version}")


def _extras() -> Iterator[Finding]:
    for extra, (modules, purpose) in EXTRAS.items():
        absent = [module for module in modules if find_spec(module) is None]
        found = f"no {', '.join(absent)}" if absent else ", ".join(map(_version, modules))
        remedy = f"pip install 'slacktide[{extra}]', for {purpose}"
        yield _either(f"extra {extra}", not absent, found, remedy, "optional")


def _version(module: str) -> str:
    try:
        return f"{module} {metadata.version(module)}"
    except metadata.PackageNotFoundError:
        return module


def _journal() -> Iterator[Finding]:
    path = _own_journal()
    folder = next(parent for parent in path.parents if parent.is_dir())
    fits = os.access(path if path.exists() else folder, os.W_OK) and os.access(folder, os.W_OK | os.X_OK)
    remedy = f"make {folder} writable, or name another with --journal or SLACKTIDE_HOME"
    yield _either("journal", fits, f"{path}{'' if path.exists() else ' (not there yet)'}", remedy)
    free_gb = shutil.disk_usage(folder).free / 1e9
    room = f"make room on the disk of {folder}: at least {LEAST_FREE_GB:g} GB"
    yield _either("disk space", free_gb >= LEAST_FREE_GB, f"{free_gb:,.1f} GB free at {folder}", room)


def _own_journal() -> Path:
    """Return the journal that commands use here; mistakes in settings are reported by `_settings`."""
    named = os.environ.get("SLACKTIDE_JOURNAL")
    if not named:
        with suppress(SlacktideError):
            setting = read_all(os.environ.get("SLACKTIDE_PROFILE") or None).get("journal")
            named = None if setting is None else str(setting.value)
    return Path(named or journal_path()).absolute()


def _kernels() -> Iterator[Finding]:
    folder = cache_dir()
    yield _either("cache", os.access(folder, os.W_OK), str(folder), "name a folder with SLACKTIDE_CACHE")
    count = sum(1 for _ in folder.rglob("*.nbc"))
    found = f"{count} compiled" if count else "none yet: first runs compile for up to a minute"
    yield Finding("machine code", "ok", found)


def _clock() -> Iterator[Finding]:
    now, installed = time.time(), Path(__file__).stat().st_mtime
    found = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    yield _either("clock", now >= installed, found, "set the clock: it is before Slacktide was installed")


def _ray() -> Iterator[Finding]:
    if find_spec("ray") is not None:
        named = bool(os.environ.get("RAY_ADDRESS"))
        found = f"RAY_ADDRESS is {'' if named else 'not '}set"
        remedy = "`slacktide cluster up` starts one to try; RAY_ADDRESS names another"
        yield _either("ray cluster", named, found, remedy, "optional")


def _aws() -> Iterator[Finding]:
    """Report whether there are credentials; only names of variables and files are looked at."""
    variable = next((name for name in AWS_VARIABLES if os.environ.get(name)), None)
    file = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials")
    fits, remedy = bool(variable or file.is_file()), "`aws configure`, for live AWS prices and S3"
    found = f"present ({variable or file})" if fits else "none found"
    yield _either("aws credentials", fits, found, remedy, "optional")


def _port() -> Iterator[Finding]:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as door:
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind(("127.0.0.1", PORT))
        except OSError as error:
            remedy = "a server may be running already; otherwise `slacktide serve --port N`"
            yield Finding("port", "optional", f"{PORT}: {error.strerror}", remedy)
        else:
            yield Finding("port", "ok", f"{PORT} is free")


def _settings() -> Iterator[Finding]:
    try:
        settings = read_all(os.environ.get("SLACKTIDE_PROFILE") or None)
    except SlacktideError as error:
        yield Finding("settings", "missing", str(error), "correct the file; `slacktide config` checks it")
        return
    paths = [str(file.path) for file in settings.files]
    absent = f"none at {user_path()}" + ("" if project_path() else ", no slacktide.toml here")
    yield Finding("settings", "ok", ", ".join(paths) or absent)
    for note in settings.notes:
        yield Finding("settings", "missing", note, "see docs/howto/config.md")


def _either(name: str, fits: bool, found: str, remedy: str, lacking: State = "missing") -> Finding:
    return Finding(name, "ok", found) if fits else Finding(name, lacking, found, remedy)


LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python, _journal, _kernels, _clock, _settings, _port, _extras, _ray, _aws,
)  # fmt: skip
