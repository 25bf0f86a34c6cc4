"""Tasks spread over the nodes of a Ray cluster.

Each task is one Ray task on one CPU. A worker or node that dies takes nothing with it: Ray does its tasks
again elsewhere, and they come to the same. Nothing is read from a shared disk.
"""

from __future__ import annotations

import importlib
import logging
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from slacktide.core.errors import BackendError, shown
from slacktide.simulation.parallel import arrival, parcel
from slacktide.simulation.parallel.base import Result, Shared, Task
from slacktide.simulation.parallel.ray_address import reach

TRIES_AGAIN = 20  # how often a task is done again when the worker or node that did it dies


class RayTasks:
    """Does tasks on a Ray cluster that this process is connected to; made by `connected`."""

    def __init__(self, ray: Any) -> None:
        """Take over a connection."""
        self._ray = ray
        self._do = ray.remote(num_cpus=1, max_retries=TRIES_AGAIN)(arrival.do)
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
        packed = parcel.pack(work, shared)
        self._bring("slacktide", work.__module__.partition(".")[0])
        about = [arrival.versions(), dict(self._digests), dict(self._archives)]
        given = [*map(self._ray.put, about), [self._ray.put(pickle.dumps(packed))]]
        with _by_value(self._ray, arrival):
            return self._results([self._do.remote(*given, pickle.dumps(task)) for task in tasks])

    def _bring(self, *packages: str) -> None:
        """Have the code of packages ready for nodes that need it."""
        for package in packages:
            if package not in self._digests and arrival.code_files(package):
                self._digests[package] = arrival.code_digest(package)
                self._archives[package] = self._ray.put(arrival.code_archive(package))

    def _results(self, under_way: list[Any]) -> Iterator[Any]:
        try:
            for number, one in enumerate(under_way):
                found = self._get(one)
                under_way[number] = None  # so that the cluster need not keep it
                if isinstance(found, str):
                    raise BackendError(found)
                yield parcel.result(found)
        finally:
            for one in under_way:
                if one is not None:
                    with suppress(Exception):  # it may be done, or the cluster gone
                        self._ray.cancel(one, force=True)

    def _get(self, one: Any) -> Any:
        try:
            return self._ray.get(one)
        except self._ray.exceptions.RayError as error:
            first = str(error).strip().splitlines()[0]
            raise BackendError(
                f"the cluster must do every task of a sweep in the end, got {type(error).__name__}: {first}"
            ) from error


@contextmanager
def connected(address: str) -> Iterator[RayTasks]:
    """Connect to a Ray cluster for the length of a sweep; raises BackendError when it does not answer.

    A process that is connected already, such as a notebook, stays so, to the cluster it is connected to.
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
    except Exception as error:  # ConnectionError, RuntimeError, ValueError: whatever Ray has to say
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
    """Let the functions of a module travel as they are, for nodes that do not have it."""
    ray.cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[module.__name__])
