"""The environment variables of a worker: those it inherits, those its job declares, and its rank."""

from __future__ import annotations

import os
import socket
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from slacktide.backends.process_table import MARKER, OUTER
from slacktide.backends.workers.job_folder import Intent
from slacktide.backends.workers.launch import Launch

HANDED_DOWN = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH",
    "CUDA_HOME", "CUDA_PATH", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES",
    "OMP_NUM_THREADS", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
)  # fmt: skip
"""The controller's variables that every job inherits: who the user is, where programs and libraries are, how
text and time are written. None of them holds a secret, which is why there is no `NVIDIA_*`."""
LOCALE = "LC_"  # all variables that begin like this are inherited too
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
"""Inherited too, in lower or upper case, unless the address names a user: then it may hold a password."""

NOTES = "SLACKTIDE_NOTES"
"""Where a worker and its controller leave notes for each other: a path, to which suffixes are added."""
ADDED = "SLACKTIDE_ADDED"  # set in a worker that joins others that already work: it has to wait for them

CAPACITY = "SLACKTIDE_CAPACITY_TYPE"  # what a worker's GPU is rented as

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_HOST = "127.0.0.1"


def handed_down(base: Mapping[str, str]) -> dict[str, str]:
    """Return those of the controller's variables that any job may see; the others may hold secrets."""
    return {name: value for name, value in base.items() if _is_handed_down(name, value)}


def _is_handed_down(name: str, value: str) -> bool:
    if name.lower() in PROXIES:
        return "@" not in value
    return name in HANDED_DOWN or name.startswith(LOCALE)


def job_variables(base: Mapping[str, str], launch: Launch, progress: Path) -> dict[str, str]:
    """Return the variables of every command of a job: a few of the controller's, the job's own, then ours."""
    return {
        "OMP_NUM_THREADS": "1",
        **handed_down(base),
        "PYTHONUNBUFFERED": "1",
        **launch.variables,
        **_outer(base),
        "SLACKTIDE_JOB_ID": launch.job,
        "SLACKTIDE_CHECKPOINT_DIR": os.path.abspath(launch.checkpoint_dir),
        "SLACKTIDE_PROGRESS": os.path.abspath(progress),
        "SLACKTIDE_GRACE_SECONDS": f"{launch.spec.grace_s:g}",
        "SLACKTIDE_PYTHON": sys.executable,
        "SKYPILOT_TASK_ID": launch.job,
    }


def _outer(base: Mapping[str, str]) -> dict[str, str]:
    """Name the workers in which this controller itself runs, if it does: when they end, so must ours."""
    outer = [base[name] for name in (MARKER, OUTER) if base.get(name)]
    return {OUTER: " ".join(outer)} if outer else {}


def rank_variables(intent: Intent, rank: int) -> dict[str, str]:
    """Return the variables of one worker alone.

    It is presented as the only worker of a machine with one GPU. A script that picks its GPU by LOCAL_RANK
    and one that takes the first that it sees then both find the right one.
    """
    at = intent.rank_numbers.index(rank)
    addresses = intent.addresses or (_HOST,) * len(intent.kinds)
    workers = len(addresses)
    device = {_VISIBLE: intent.devices[at]} if intent.devices else {}
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(workers),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": addresses[0],
        "MASTER_PORT": str(intent.master_port),
        "SLACKTIDE_ATTEMPT": str(intent.attempt),
        CAPACITY: intent.kinds[at],
        "SKYPILOT_NODE_RANK": str(rank),
        "SKYPILOT_NUM_NODES": str(workers),
        "SKYPILOT_NUM_GPUS_PER_NODE": "1",
        "SKYPILOT_NODE_IPS": "\n".join(addresses),
        **device,
    }


def note_variables(intent: Intent, stem: Path) -> dict[str, str]:
    """Return the variables with which a worker can go on in another set, or join one that already works."""
    return {NOTES: str(stem), **({ADDED: "1"} if intent.reforms else {})}


def machine_devices(base: Mapping[str, str], folder: Path = Path("/dev")) -> tuple[str, ...]:
    """Return the GPUs we may use: those the controller was given, else all of the machine."""
    if _VISIBLE in base:
        return tuple(filter(None, (name.strip() for name in base[_VISIBLE].split(","))))
    numbers = (path.name.removeprefix("nvidia") for path in folder.glob("nvidia[0-9]*"))
    return tuple(sorted((number for number in numbers if number.isdecimal()), key=int))


def least_used(devices: tuple[str, ...], used: Iterable[str], workers: int) -> tuple[str, ...]:
    """Return a GPU for each worker: free ones first, and none shared by more workers than needed."""
    if not devices:
        return ()
    load = Counter(used)
    chosen = []
    for _ in range(workers):
        device = min(devices, key=lambda name: load[name])
        load[device] += 1
        chosen.append(device)
    return tuple(chosen)


def free_port(host: str = _HOST) -> int:
    """Return a port that is free at this moment, on loopback or another address of this machine."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
