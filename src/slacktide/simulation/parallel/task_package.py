"""Packing what is sent to a worker and back: a function, what its tasks share, users' own files, results.

We pickle all of it ourselves, so that arrays arrive as they would be made there, and classes from users' own
files work on machines that do not have these files.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from slacktide.core import own_class
from slacktide.core.errors import BackendError, InputError, SlacktideError

KEPT = 2  # packages that a worker keeps open: that of the present sweep and the one before


class TaskPackage(NamedTuple):
    """A function and what its tasks share, packed."""

    key: str  # a hash of the function and what is shared
    content: bytes  # the users' own files that are needed, then the function and what is shared


class Failure(NamedTuple):
    """What a task raised, so that it can be raised again elsewhere."""

    kind: type[BaseException]
    message: str
    facts: dict[str, Any]


def pack(work: Callable[[Any, Any], Any], shared: object) -> TaskPackage:
    """Pack a function and what its tasks share; raises InputError if something cannot be pickled."""
    try:
        content = pickle.dumps((work, shared), protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputError(
            f"what is done by other processes must be able to travel, got: {error}; "
            "define classes of your own at the top of a module, or leave --on out"
        ) from error
    return TaskPackage(hashlib.sha256(content).hexdigest(), pickle.dumps((own_class.sources(), content)))


_open: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {}


def opened(key: str, packed: bytes) -> tuple[Callable[[Any, Any], Any], Any]:
    """Return the function and what is shared; the same objects each time, so that their caches last."""
    if key not in _open:
        sources, content = pickle.loads(packed)
        own_class.adopt(sources)
        while len(_open) >= KEPT:
            del _open[next(iter(_open))]
        _open[key] = pickle.loads(content)
    return _open[key]


def do(key: str, fetch: Callable[[], bytes], task: bytes) -> bytes:
    """Run one packed task, and pack its result or what it raised; `fetch` is called once per package."""
    # Not in the `try`: if this fails a worker is lost, which is not a mistake of the task.
    packed = b"" if key in _open else fetch()
    try:
        work, shared = opened(key, packed)
        return pickle.dumps(work(shared, pickle.loads(task)), protocol=pickle.HIGHEST_PROTOCOL)
    except SlacktideError as error:
        return pickle.dumps(Failure(type(error), str(error), dict(vars(error))))
    except ModuleNotFoundError as error:
        missing = (
            f"every worker must have the modules that a sweep uses, got: {error}; install what is missing "
            f"with {Path(sys.executable).name} on every node, or put a policy of your own into one file"
        )
        return pickle.dumps(Failure(BackendError, missing, {}))
    except Exception:  # a mistake in the code: reported with its traceback, which only this process has
        return pickle.dumps(Failure(RuntimeError, traceback.format_exc(), {}))


def result(packed: bytes) -> Any:
    """Return the result of a task, or raise what it raised."""
    found = pickle.loads(packed)
    if not isinstance(found, Failure):
        return found
    # Not by its constructor, which may require more than a message.
    error = found.kind.__new__(found.kind, found.message)
    error.args = (found.message,)
    vars(error).update(found.facts)
    raise error
