"""How a sweep is spread over workers: a function is called for each task, and results come in order.

A result must depend on nothing but the function, what all tasks share, and the task. Then the number of
workers, and which of them did what and when, cannot change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


class Spread(Protocol):
    """Runs tasks, here or elsewhere."""

    @property
    def workers(self) -> int:
        """How many tasks can run at a time, as far as is known."""
        ...

    def each(
        self, work: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[Result]:
        """Yield `work(shared, task)` of each task, in the order of the tasks.

        `work` must be defined at the top of a module, since it may be called in another process; `shared` is
        sent to each worker once. Raises what `work` raises, and BackendError if workers are lost for good.
        """
        ...


class Here:
    """Runs one task after another in this process, each when its result is needed."""

    workers = 1

    def each(
        self, work: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[Result]:
        return (work(shared, task) for task in tasks)


HERE = Here()
