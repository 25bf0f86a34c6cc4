"""A cache of the values that were used last, kept by name, so that it holds no market."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class LruCache(Generic[Key, Value]):
    """The values used last, as many as are allowed. Keys name pasts (`Past.mark`) instead of holding them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def __iter__(self) -> Iterator[Key]:
        return iter(self._values)

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the value of a key, made now where it is not kept."""
        if key not in self._values:
            self._values[key] = make()
            if len(self._values) > self._most:
                self._values.popitem(last=False)
        self._values.move_to_end(key)
        return self._values[key]
