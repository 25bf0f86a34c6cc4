"""Turns a job file into what a back end needs to start its workers; back ends never read the file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

from slacktide.backends.base import LaunchSpec
from slacktide.core.errors import InputError
from slacktide.files.job import JobFile, read_job_file

UPLOADS = ".uploads"
"""The folder in a journal's runs that has a subfolder for each job that came over the network."""


def launch_of(job: str, file: JobFile | None, *, worked: bool = False) -> LaunchSpec:
    """Return how a job's workers are started; paths in its file are relative to the file's folder.

    Secrets and variables taken over from the submitter are only named; `secrets_of` returns their values. A
    job without a file has nothing to start.
    """
    if file is None:
        return LaunchSpec(job=job)
    folder = Path(file.path).absolute().parent
    return LaunchSpec(
        job=job,
        run=file.run or "",
        setup=file.setup,
        workdir=str(folder / (file.workdir or ".")),
        env={name: value for name, value in file.envs.items() if value is not None},
        secrets=tuple(dict.fromkeys([*_taken_over(file), *file.secrets])),
        checkpoints=math.isfinite(file.job.checkpoint_hours),
        checkpoint_dir=str(folder / file.checkpoint_dir) if file.checkpoint_dir else None,
        checkpoint_url=file.checkpoint_url,
        checkpoint_keep=file.checkpoint_keep,
        grace_s=file.grace_hours * 3600.0,
        worked=worked,
        progress_log=file.progress_log,
    )


def secrets_of(file: JobFile | None, kept: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values that are in no journal: of variables taken over from the submitter, and of secrets.

    `kept` has those that were taken over at submission. Secrets are read from the job file if it is still
    there, else from the environment; those of a job that came over the network are in `kept`, because this
    environment is not its user's. Raises InputError when one has no value.
    """
    if file is None:
        return {}
    far = came_over_network(file.path)
    needed = [*_taken_over(file), *(file.secrets if far else ())]
    for name in needed:
        if name not in kept:
            raise InputError(
                f"variable {name} must have the value that it had where the job was submitted, got none: "
                "what was kept of it next to the journal is gone; cancel the job and submit it again"
            )
    return {**{name: kept[name] for name in needed}, **({} if far else _secrets(file))}


def came_over_network(path: str) -> bool:
    """Whether a job file is in the folder for those that come over the network."""
    return Path(path).parent.parent.name == UPLOADS


def _taken_over(file: JobFile) -> list[str]:
    return [name for name, value in file.envs.items() if value is None]


def _secrets(file: JobFile) -> dict[str, str]:
    secrets = file.secrets
    if any(value is None for value in secrets.values()) and Path(file.path).is_file():
        written = read_job_file(file.path).secrets
        secrets = {name: value or written.get(name) for name, value in secrets.items()}
    found = {name: os.environ.get(name) if value is None else value for name, value in secrets.items()}
    for name, value in found.items():
        if value is None:
            raise InputError(f"secret {name} must have a value, got none; set it here or in the job file")
    return {name: value for name, value in found.items() if value is not None}
