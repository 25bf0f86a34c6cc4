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

KEPT = 2  # parcels that a worker keeps open; a sweep has one, and the next one soon follows


class Parcel(NamedTuple):
    """A function and what its tasks share, packed."""

    key: str  # names the content
    sources: tuple[own_class.Source, ...]
    content: bytes


class Failure(NamedTuple):
    """What a task raised, so that it can be raised again elsewhere."""

    kind: type[BaseException]
    message: str
    facts: dict[str, Any]


def pack(work: Callable[[Any, Any], Any], shared: object) -> Parcel:
    """Pack a function of a module and what its tasks share; raises InputError if something cannot travel."""
    content = _pickled((work, shared))
    return Parcel(hashlib.sha256(content).hexdigest(), own_class.sources(), content)


def _pickled(thing: object) -> bytes:
    try:
        return pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputError(
            f"what is done by other processes must be able to travel, got: {error}; "
            "define classes of your own at the top of a module, or leave --on out"
        ) from error


_open: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {}


def opened(parcel: Parcel) -> tuple[Callable[[Any, Any], Any], Any]:
    """Return the function and what is shared; the same objects each time, so that what they keep is kept."""
    if parcel.key not in _open:
        own_class.adopt(parcel.sources)
        while len(_open) >= KEPT:
            del _open[next(iter(_open))]
        _open[parcel.key] = pickle.loads(parcel.content)
    return _open[parcel.key]


def do(parcel: Parcel, task: bytes) -> bytes:
    """Do one packed task and pack its result, or what it raised."""
    try:
        work, shared = opened(parcel)
        return pickle.dumps(work(shared, pickle.loads(task)), protocol=pickle.HIGHEST_PROTOCOL)
    except SlacktideError as error:
        return pickle.dumps(Failure(type(error), str(error), dict(vars(error))))
    except ModuleNotFoundError as error:
        return pickle.dumps(Failure(BackendError, _missing(error), {}))
    except Exception:  # a mistake in the code: said with its place, which only this process knows
        return pickle.dumps(Failure(RuntimeError, traceback.format_exc(), {}))


def _missing(error: ModuleNotFoundError) -> str:
    return (
        f"every worker must have the modules that a sweep uses, got: {error}; install what is missing with "
        f"{Path(sys.executable).name} on every node, or put a policy of your own into one file"
    )


def result(packed: bytes) -> Any:
    """Return what a task came to, or raise what it raised."""
    found = pickle.loads(packed)
    if isinstance(found, Failure):
        raise _again(found)
    return found


def _again(failure: Failure) -> BaseException:
    # Not by its constructor, which may want more than a message.
    error = failure.kind.__new__(failure.kind, failure.message)
    error.args = (failure.message,)
    vars(error).update(failure.facts)
    return error
