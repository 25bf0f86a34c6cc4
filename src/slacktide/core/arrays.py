"""Short names for types of NumPy arrays, and sequences whose items are made only when they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

Item_co = TypeVar("Item_co", covariant=True)


class LazySequence(Sequence[Item_co], ABC):
    """A sequence whose items are made when they are read."""

    __slots__ = ()

    @overload
    def __getitem__(self, index: int) -> Item_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item_co]: ...
    def __getitem__(self, index: int | slice) -> Item_co | Sequence[Item_co]:
        if isinstance(index, slice):
            return [self.item(at) for at in range(*index.indices(len(self)))]
        return self.item(index)

    @abstractmethod
    def item(self, index: int) -> Item_co:
        """Make the item at this index."""


Columns = TypeVar("Columns", bound=tuple[Any, ...])


def empty_columns(kind: type[Columns], rows: int) -> Columns:
    """Return a NamedTuple of arrays of this many zeros: integers for fields of type `Ints`, else floats."""
    kinds = (np.int64 if "Ints" in str(field) else np.float64 for field in kind.__annotations__.values())
    return kind(*(np.zeros(rows, dtype=dtype) for dtype in kinds))
