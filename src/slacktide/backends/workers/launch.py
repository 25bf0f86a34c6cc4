"""What is to run: a job's commands, where, and with which variables."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from slacktide.core.errors import InputError

Kind: TypeAlias = Literal["spot", "on-demand"]
"""What a worker's GPU is rented as."""

LONGEST_TEXT_BYTES = 100_000
"""An argument or variable of a new process may have 128 KiB on Linux; some room is left for our own."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,80}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A job as the machine needs to know it."""

    job_id: str
    """Letters, digits, dots, dashes and underscores, at most 80: it names a folder."""
    run: str
    """Shell text of the user, started once per worker."""
    setup: str | None = None
    """Shell text that has to succeed once before the first worker is started."""
    workdir: Path
    checkpoint_dir: Path
    """Made when it is missing; the same for all attempts."""
    grace_s: float
    """How long a worker may take to end after SIGTERM before SIGKILL ends it."""
    checkpoints: bool = True
    """Whether it makes any, which must then be found wherever it goes on."""
    checkpoint_url: str | None = None
    """The store to which checkpoints are copied, and from which they are brought."""
    checkpoint_owner: str = ""
    """Whose the checkpoints are in that store; empty: the owner's whose workers these are."""
    checkpoint_keep: int = 2
    """How many checkpoints the store keeps."""
    worked: bool = False
    """Whether the job has done work already, which must not be begun anew."""
    progress_log: str | None = None
    """The pattern that finds progress in what rank 0 prints."""
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables like `envs`, but never printed and never written to disk."""


def check_name(what: str, name: str) -> None:
    """Refuse a name that cannot safely be part of a path; raises InputError."""
    if not is_name(name):
        raise InputError(
            f"{what} must be 1 to 80 letters, digits, dots, dashes or underscores, got {name!r}; rename it"
        )


def is_name(name: str) -> bool:
    """Say whether a name can safely be part of a path."""
    return _NAME.fullmatch(name) is not None and name not in {".", ".."}


def check_launch(launch: Launch) -> None:
    """Refuse what could not be started, and make the checkpoint folder; raises InputError."""
    check_name("a job id", launch.job_id)
    if not (math.isfinite(launch.grace_s) and launch.grace_s >= 0):
        raise InputError(f"grace_s must be a number >= 0, got {launch.grace_s}")
    _check_text("run", launch.run)
    _check_text("setup", launch.setup or "")
    for name, value in {**launch.envs, **launch.secrets}.items():
        if not _VARIABLE.fullmatch(name):
            raise InputError(f"a variable's name must be letters, digits and underscores, got {name!r}")
        _check_text(f"variable {name}", value)
    if not launch.workdir.is_dir():
        raise InputError(f"workdir must be a folder, found none at {launch.workdir}; check the path")
    _check_writable(launch.checkpoint_dir)


def _check_text(what: str, text: str) -> None:
    """Refuse what a process cannot be given; the text itself is not shown, for it may be a secret."""
    if "\0" in text:
        raise InputError(f"{what} must be text, got a zero byte in it; remove it")
    size = len(os.fsencode(text))
    if size > LONGEST_TEXT_BYTES:
        raise InputError(
            f"{what} must have at most {LONGEST_TEXT_BYTES} bytes, got {size}; put it into a file"
        )


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"the checkpoint folder must be writable, got: {error.strerror} at {folder}; choose another"
        ) from error
