"""The one place where a sweep is spread: a function is called for each task, and results come in order.

What a task comes to must follow from the function, what all tasks share, and the task alone. Then neither the
number of workers, nor who did what, nor when, can change a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

Shared = TypeVar("Shared")
Task = TypeVar("Task")
Result = TypeVar("Result")


class Spread(Protocol):
    """Does tasks somewhere."""

    @property
    def workers(self) -> int:
        """How many tasks can be under way at a time, as far as is known."""
        ...

    def each(
        self, work: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[Result]:
        """Yield `work(shared, task)` of each task, in the order of the tasks.

        `work` is a function of a module, since it may be called in another process; `shared` is brought to
        each worker once. What `work` raises is raised here; BackendError where workers are lost for good.
        """
        ...


class Here:
    """Does one task after another in this process, each when its result is needed."""

    workers = 1

    def each(
        self, work: Callable[[Shared, Task], Result], shared: Shared, tasks: Sequence[Task]
    ) -> Iterator[Result]:
        return (work(shared, task) for task in tasks)


HERE = Here()
