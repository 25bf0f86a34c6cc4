"""What travels to a worker and back: a function with what its tasks share, files of users' own, results.

All of it is bytes of our own making, so that arrays arrive as they would be made there, and classes of users'
own files are known on machines that do not have the files.
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

KEPT = 2  # packages that a worker keeps open; a sweep has one, and the next one soon follows


class TaskPackage(NamedTuple):
    """A function and what its tasks share, packed."""

    key: str  # names the content
    content: bytes  # after the users' own files that it needs


class Failure(NamedTuple):
    """What a task raised, so that it can be raised again elsewhere."""

    kind: type[BaseException]
    message: str
    facts: dict[str, Any]


def pack(work: Callable[[Any, Any], Any], shared: object) -> TaskPackage:
    """Pack a function of a module and what its tasks share; raises InputError if something cannot travel."""
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
    """Return the function and what is shared; the same objects each time, so that what they keep is kept."""
    if key not in _open:
        sources, content = pickle.loads(packed)
        own_class.adopt(sources)
        while len(_open) >= KEPT:
            del _open[next(iter(_open))]
        _open[key] = pickle.loads(content)
    return _open[key]


def do(key: str, fetch: Callable[[], bytes], task: bytes) -> bytes:
    """Do one packed task of a package, whose content is fetched once; pack its result, or what it raised."""
    # Not in the `try`: what cannot be fetched is no mistake of the task, but a worker that is lost.
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
    except Exception:  # a mistake in the code: reported with its place, which only this process knows
        return pickle.dumps(Failure(RuntimeError, traceback.format_exc(), {}))


def result(packed: bytes) -> Any:
    """Return what a task came to, or raise what it raised."""
    found = pickle.loads(packed)
    if not isinstance(found, Failure):
        return found
    # Not by its constructor, which may want more than a message.
    error = found.kind.__new__(found.kind, found.message)
    error.args = (found.message,)
    vars(error).update(found.facts)
    raise error
