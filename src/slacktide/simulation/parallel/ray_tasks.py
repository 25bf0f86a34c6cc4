"""Running the tasks of a sweep on the nodes of a Ray cluster.

Each task is one Ray task on one CPU. If a worker or node dies, nothing is lost: Ray repeats its tasks
elsewhere, with the same results. Nothing is read from a shared disk."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import pickle
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from slacktide.core.errors import BackendError, InputError, shown
from slacktide.simulation.parallel import node_setup, task_package
from slacktide.simulation.parallel.base import Result, Shared, Task

TRIES_AGAIN = 20  # how often a task is done again when the worker or node that did it dies


class RayTasks:
    """Runs tasks on the Ray cluster to which this process is connected; made by `connected`."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._do = ray.remote(num_cpus=1, max_retries=TRIES_AGAIN)(node_setup.do)
        self._digests: dict[str, str] = {}
        self._archives: dict[str, Any] = {}

    @property
    def workers(self) -> int:
        """The CPUs of the cluster as it is now."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    def each(
        self, work: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[Result]:
        """Yield the result of each task; raises BackendError when the cluster cannot do them."""
        if self.workers < 1:
            raise BackendError("a Ray cluster must have a CPU for tasks, got none; add a node that has CPUs")
        packed = task_package.pack(work, shared)
        self._bring("slacktide", work.__module__.partition(".")[0])
        about = [node_setup.versions(), dict(self._digests), dict(self._archives)]
        given = [*map(self._ray.put, about), [packed.key, self._ray.put(packed.content)]]
        with _by_value(self._ray, node_setup):
            return self._results([self._do.remote(*given, pickle.dumps(task)) for task in tasks])

    def _bring(self, *packages: str) -> None:
        """Put the code of packages where nodes that need it can fetch it."""
        for package in packages:
            if package not in self._digests and node_setup.code_files(package):
                self._digests[package] = node_setup.code_digest(package)
                self._archives[package] = self._ray.put(node_setup.code_archive(package))

    def _results(self, under_way: list[Any]) -> Iterator[Any]:
        try:
            for number, reference in enumerate(under_way):
                packed = self._get(reference)
                under_way[number] = None  # so that the cluster can drop the result
                if isinstance(packed, str):  # a sentence that says why it cannot be done there
                    raise BackendError(packed)
                yield task_package.result(packed)
        finally:
            for reference in under_way:
                if reference is not None:
                    with suppress(Exception):  # it may be done, or the cluster gone
                        self._ray.cancel(reference, force=True)

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            raise BackendError(
                f"the cluster must do every task of a sweep in the end, got {type(error).__name__}: {first}"
            ) from error


@contextmanager
def connected(address: str) -> Iterator[RayTasks]:
    """Connect to a Ray cluster for the length of a sweep; raises BackendError when it does not answer.

    A process that is connected already, such as a notebook, stays connected to the same cluster.
    """
    try:
        reach(address)
    except OSError as error:
        raise _unanswered(address, error) from error
    ray = importlib.import_module("ray")
    if ray.is_initialized():
        yield RayTasks(ray)
        return
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # ConnectionError, RuntimeError, ValueError, and others that Ray raises
        raise _unanswered(address, error) from error
    try:
        yield RayTasks(ray)
    finally:
        ray.shutdown()


def _unanswered(address: str, error: Exception) -> BackendError:
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return BackendError(
        f"a Ray cluster must answer at {shown(address)}, got: {first}; see whether it is running, and runs "
        "this version of Ray and Python"
    )


@contextmanager
def _by_value(ray: Any, module: ModuleType) -> Iterator[None]:
    """Send the functions of a module by value, for nodes that do not have the module."""
    ray.cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[module.__name__])


PATIENCE_S = 5.0
LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Set to 0, this keeps Ray at 127.0.0.1; it must be set before Ray is imported."""


def check_installed() -> None:
    if importlib.util.find_spec("ray") is None:
        raise InputError("--on ray must find Ray, got none; pip install 'slacktide[ray]'")


def reach(address: str) -> None:
    """Check that something listens at an address; raises InputError if that is invalid, else OSError.

    Ray replaces 127.0.0.1 by this machine's address in its network. A cluster that listens on loopback only
    cannot be reached there, so in that case Ray is told to stay on loopback.
    """
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        return
    host, port = host_and_port(address)
    _knock(host, port)
    if host in ("127.0.0.1", "localhost") and not _listens(_own_address(), port):
        os.environ[LOOPBACK_ONLY] = "0"


def host_and_port(address: str) -> tuple[str, int]:
    """Read `HOST:PORT` or `ray://HOST:PORT`; raises InputError."""
    try:
        parts = urlsplit(address if "://" in address else f"ray://{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise InputError(f"the address of a Ray cluster must be HOST:PORT, got {shown(address)}")
    return host, port


def _knock(host: str, port: int) -> None:
    socket.create_connection((host, port), timeout=PATIENCE_S).close()


def _listens(host: str, port: int) -> bool:
    try:
        _knock(host, port)
    except OSError:
        return False
    return True


def _own_address() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 80))
        except OSError:  # no network at all
            return "127.0.0.1"
        return str(one.getsockname()[0])
