"""Running the tasks of a sweep in several processes of this machine."""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import TracebackType

from slacktide.core.errors import BackendError, InputError
from slacktide.simulation.parallel import task_package
from slacktide.simulation.parallel.base import Result, Shared, Task


class Processes:
    """Runs tasks in several processes, which end with the `with` block or with this process."""

    def __init__(self, workers: int | None = None) -> None:
        """Use this many processes, or one for each core that this process may use."""
        if workers is not None and workers < 1:
            raise InputError(f"processes must be >= 1, got {workers}")
        self.workers = workers or usable_cores()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Processes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def each(
        self, work: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[Result]:
        packed = task_package.pack(work, shared)
        self._pool = pool = self._pool or _pool(self.workers)
        with tempfile.NamedTemporaryFile(prefix="slacktide-sweep-") as file:
            file.write(packed.content)
            file.flush()
            under_way: list[Future[bytes]] = []
            try:
                under_way += [pool.submit(_do, file.name, packed.key, pickle.dumps(task)) for task in tasks]
                for future in under_way:
                    yield task_package.result(future.result())
            except BrokenProcessPool as error:
                raise BackendError(
                    "every process of a sweep must live until its end, got one that was killed; look for a "
                    "lack of memory, and try fewer processes"
                ) from error
            finally:
                for future in under_way:
                    future.cancel()


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pool(workers: int) -> ProcessPoolExecutor:
    import multiprocessing

    # Spawned, not forked: they must not inherit the compiled code and threads of this process.
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_begin)


def _begin() -> None:
    """Let this worker end with the process that started it, even if that is killed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(path: str, key: str, task: bytes) -> bytes:
    return task_package.do(key, Path(path).read_bytes, task)
