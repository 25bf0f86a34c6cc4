"""What can be reached from an object by its references: how it is shown that a view leads to no future."""

from __future__ import annotations

import gc
import struct
import types
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

_NOT_STATE = (type, types.ModuleType, types.FrameType, types.CodeType)
"""What every object leads to and none owns: whole programs hang on them."""


def reachable(root: object) -> Iterator[object]:
    """Yield all objects that hold the state of this one: fields, closures, bound objects, bases of arrays."""
    seen: set[int] = set()
    found: list[object] = [root]  # keeps what was made on the way alive, so that no id is used twice
    for thing in found:
        if id(thing) not in seen and not isinstance(thing, _NOT_STATE):
            seen.add(id(thing))
            yield thing
            found += _referred(thing)


def find_numbers(root: object, numbers: Sequence[float]) -> list[str]:
    """Return where these numbers can be reached from an object, hidden parts of arrays included."""
    patterns = [struct.pack("=d", number) for number in numbers]
    patterns += [struct.pack("=q", int(number)) for number in numbers if number == int(number)]
    return [_described(thing) for thing in reachable(root) if _holds(thing, numbers, patterns)]


def _referred(thing: object) -> list[Any]:
    if isinstance(thing, types.FunctionType):  # not its globals: they are the program
        return [thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
    if isinstance(thing, np.ndarray):
        return [thing.base, *gc.get_referents(thing)]
    return gc.get_referents(thing)


def _holds(thing: object, numbers: Sequence[float], patterns: Sequence[bytes]) -> bool:
    if isinstance(thing, int | float):
        return thing in numbers
    if isinstance(thing, np.ndarray):
        return thing.dtype != object and any(one in np.ascontiguousarray(thing).tobytes() for one in patterns)
    if isinstance(thing, bytes | bytearray | memoryview):
        return any(one in bytes(thing) for one in patterns)
    return False


def _described(thing: object) -> str:
    return f"{type(thing).__name__} of {len(thing)}" if isinstance(thing, np.ndarray) else repr(thing)
