"""From a job file to what a back end needs to start its workers; the file is read nowhere further out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from slacktide.backend.base import LaunchSpec
from slacktide.errors import InputError
from slacktide.jobfile import JobFile, read_job_file


def launch_of(job: str, file: JobFile | None) -> LaunchSpec:
    """Return how a job's workers are started: paths from its file's folder, variables with their values.

    A job that came without a file has nothing to start. Raises InputError when a variable has no value.
    """
    if file is None:
        return LaunchSpec(job=job)
    folder = Path(file.path).absolute().parent
    return LaunchSpec(
        job=job,
        run=file.run or "",
        setup=file.setup,
        workdir=str(folder / (file.workdir or ".")),
        env=_values(file.envs, "variable"),
        secrets=tuple(file.secrets),
        checkpoint_dir=str(folder / file.checkpoint_dir) if file.checkpoint_dir else None,
        grace_s=file.grace_hours * 3600.0,
    )


def secrets_of(file: JobFile | None) -> Mapping[str, str]:
    """Return the values of a job's secrets: from its file where they stand, else from the environment.

    The journal does not keep them, so the file is read where it lies. Raises InputError when one has none.
    """
    if file is None:
        return {}
    secrets = file.secrets
    if any(value is None for value in secrets.values()) and Path(file.path).is_file():
        written = read_job_file(file.path).secrets
        secrets = {name: value or written.get(name) for name, value in secrets.items()}
    return _values(secrets, "secret")


def _values(variables: Mapping[str, str | None], what: str) -> dict[str, str]:
    found = {name: os.environ.get(name) if value is None else value for name, value in variables.items()}
    for name, value in found.items():
        if value is None:
            raise InputError(f"{what} {name} must have a value, got none; set it here or write it down")
    return {name: value for name, value in found.items() if value is not None}
