"""A stand-in for the module `sky`: the functions of SkyPilot 0.14 that we call, with its signatures.

It is copied to a folder as `sky/__init__.py` and imported by child processes. All clusters and requests are
in the file that $SKY_STAND_IN names. A cluster is INIT until it was listed once; down takes one listing, too.
"""

from __future__ import annotations

import enum
import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any


class ResourcesUnavailableError(Exception):
    """No cloud has it."""


class NoCloudAccessError(Exception):
    """No credentials."""


class ClusterStatus(enum.Enum):
    """States of a cluster."""

    INIT = "INIT"
    UP = "UP"
    STOPPED = "STOPPED"
    AUTOSTOPPING = "AUTOSTOPPING"


class Resources:
    """What a node must have."""

    def __init__(
        self,
        cloud: Any = None,
        instance_type: str | None = None,
        cpus: Any = None,
        memory: Any = None,
        accelerators: Any = None,
        accelerator_args: Any = None,
        infra: str | None = None,
        use_spot: bool | None = None,
        job_recovery: Any = None,
        region: str | None = None,
        zone: str | None = None,
        image_id: Any = None,
        disk_size: Any = None,
        disk_tier: Any = None,
        network_tier: Any = None,
        local_disk: str | None = None,
        max_hourly_cost: float | None = None,
        ports: Any = None,
        labels: dict[str, str] | None = None,
        autostop: Any = None,
    ) -> None:
        self.asked = {"accelerators": accelerators, "infra": infra, "use_spot": use_spot, "labels": labels}


class Task:
    """What is run."""

    def __init__(
        self,
        name: str | None = None,
        *,
        setup: Any = None,
        run: Any = None,
        envs: Any = None,
        secrets: Any = None,
        workdir: Any = None,
        num_nodes: int | None = None,
        file_mounts: Any = None,
        storage_mounts: Any = None,
        volumes: Any = None,
        resources: Any = None,
    ) -> None:
        self.name, self.setup, self.run = name, setup, run
        self.resources: Any = resources

    def set_resources(self, resources: Any) -> Task:
        """Set what the node must have."""
        self.resources = resources
        return self


@contextmanager
def _state() -> Iterator[dict[str, Any]]:
    with open(os.environ["SKY_STAND_IN"], "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        state = json.loads(file.read() or '{"clusters": {}, "requests": [], "launches": 0}')
        yield state
        file.truncate(0)
        file.write(json.dumps(state))


def _asked(state: dict[str, Any], name: str, cluster: str | None, **facts: Any) -> str:
    request = {
        "request_id": uuid.uuid4().hex, "name": f"sky.{name}", "status": "SUCCEEDED", "cluster_name": cluster,
        "created_at": time.time(), "value": None, "error": None, **facts,
    }  # fmt: skip
    state["requests"].append(request)
    return str(request["request_id"])


def launch(
    task: Any,
    cluster_name: str | None = None,
    retry_until_up: bool = False,
    idle_minutes_to_autostop: int | None = None,
    wait_for: Any = None,
    dryrun: bool = False,
    down: bool = False,
    backend: Any = None,
    optimize_target: Any = None,
    no_setup: bool = False,
    clone_disk_from: str | None = None,
    fast: bool = False,
    resize: bool = False,
) -> str:
    """Begin to launch; accelerators named FULL, DENIED and BROKEN fail."""
    print("Running on cluster:", cluster_name)  # as SkyPilot does
    asked = task.resources.asked
    (kind,) = asked["accelerators"]
    with _state() as state:
        state["launches"] += 1
        if kind in ("FULL", "DENIED", "BROKEN"):
            return _asked(state, "launch", cluster_name, status="FAILED", error=kind)
        if kind == "SLOW":
            return _asked(state, "launch", cluster_name, status="RUNNING")
        about = {
            **asked,
            "run": task.run,
            "setup": task.setup,
            "down": down,
            "idle": idle_minutes_to_autostop,
        }
        state["clusters"].setdefault(cluster_name, {"status": "INIT", "at": int(time.time()), "about": about})
        return _asked(state, "launch", cluster_name)


def down(
    cluster_name: str, purge: bool = False, graceful: bool = False, graceful_timeout: int | None = None
) -> str:
    """Begin to take a cluster down."""
    with _state() as state:
        if cluster_name in state["clusters"]:
            state["clusters"][cluster_name]["status"] = "DOWN"
            return _asked(state, "down", cluster_name, status="RUNNING")
        return _asked(state, "down", cluster_name, status="FAILED", error="BROKEN")


def status(cluster_names: list[str] | None = None, refresh: Any = None, all_users: bool = False) -> str:
    """List clusters."""
    if os.environ.get("SKY_STAND_IN_DENIES"):
        raise NoCloudAccessError("no cloud is enabled")
    with _state() as state:
        found = [name for name in state["clusters"] if cluster_names is None or name in cluster_names]
        return _asked(state, "status", None, value=found)


def get(request_id: str) -> Any:
    """Wait for a request."""
    with _state() as state:
        request = next(one for one in state["requests"] if one["request_id"] == request_id)
        found = [_record(state, name) for name in request["value"] or ()]
    if request["error"] is not None:
        errors = {"FULL": ResourcesUnavailableError, "DENIED": NoCloudAccessError}
        raise errors.get(request["error"], RuntimeError)(f"{request['error']} as asked\nmore lines")
    return [one for one in found if one is not None] if request["name"] == "sky.status" else None


def _record(state: dict[str, Any], name: str) -> dict[str, Any] | None:
    cluster = state["clusters"][name]
    now = cluster["status"]
    if now == "DOWN":
        del state["clusters"][name]
        for one in state["requests"]:
            if one["cluster_name"] == name and one["name"] == "sky.down":
                one["status"] = "SUCCEEDED"
        return None
    cluster["status"] = "UP" if now == "INIT" else now
    return {
        "name": name, "launched_at": cluster["at"], "status": ClusterStatus(now), "autostop": 5,
        "to_down": True, "handle": SimpleNamespace(head_ip="10.1.2.3"), "init_kind": None,
        "init_status_reason": None,
    }  # fmt: skip


def api_status(
    request_ids: Any = None,
    all_status: bool = False,
    limit: int | None = None,
    fields: Any = None,
    cluster_name: str | None = None,
) -> list[Any]:
    """List requests."""
    with _state() as state:
        found = [SimpleNamespace(**one) for one in state["requests"]]
    return [one for one in found if cluster_name in (None, one.cluster_name)]


def api_cancel(request_ids: Any = None, all_users: bool = False, silent: bool = False) -> str:
    """Cancel requests."""
    with _state() as state:
        for one in state["requests"]:
            if one["request_id"] in request_ids and one["status"] == "RUNNING":
                one["status"] = "CANCELLED"
        return _asked(state, "api_cancel", None)
