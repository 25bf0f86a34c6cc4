"""Reads `resources` of a job file: one GPU type, or a choice of several, each with its places and speed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from slacktide.core.errors import InputError, shown
from slacktide.core.types import PoolChoice
from slacktide.core.units import Accelerators
from slacktide.core.yaml_fields import Fields, items, number, scalar
from slacktide.core.yaml_tree import Mistakes, Tree
from slacktide.files import keys

MAX_SPEED = 1000.0  # no GPU in use is this many times as fast as another one
MAX_CHOICES = 256
_MAX_INFRA = 200

_OUTER = ("accelerators", "infra", "any_of")
_INNER = ("accelerators", "infra", "speed")


class Resources(NamedTuple):
    """The GPU that work is counted on, all widths, and the choices where there are any."""

    gpu: str
    widths: tuple[int, ...]
    pools: tuple[PoolChoice, ...] = ()


ONE_GPU = Resources("GPU", (1,))
"""Stands in for resources that could not be read, so that the rest of the file is still checked."""


def resources(tree: Tree, mistakes: Mistakes) -> Resources:
    """Read one GPU type, or a choice of several."""
    fields = Fields(tree, mistakes, _OUTER, prefix="resources.")
    if "any_of" not in fields:
        fields.require("accelerators", "H100:1..8")
    gpus = fields.read("accelerators", keys.accelerators, None)
    infra = fields.read("infra", scalar(_infra), "")
    if "any_of" in fields:
        choices = fields.read("any_of", lambda tree, mistakes: _choices(tree, mistakes, gpus, infra), ())
        return _union(choices) if choices else ONE_GPU
    if gpus is None:
        return ONE_GPU
    return Resources(*gpus, (PoolChoice(gpus.gpu, infra, gpus.widths),) if infra else ())


def _choices(tree: Tree, mistakes: Mistakes, gpus: Accelerators | None, infra: str) -> tuple[PoolChoice, ...]:
    """Read a list of choices; what a choice leaves out is taken from the keys next to `any_of`."""
    listed = items(tree, "a list such as [{accelerators: H100:1..8}]")
    if len(listed) > MAX_CHOICES:
        raise InputError(f"must be a list of at most {MAX_CHOICES} choices, got {len(listed)}")
    read = [_choice(item, which, mistakes, gpus, infra) for which, item in enumerate(listed, start=1)]
    return tuple(choice for choice in read if choice is not None)


def _choice(
    tree: Tree, which: int, mistakes: Mistakes, gpus: Accelerators | None, infra: str
) -> PoolChoice | None:
    fields = Fields.of_item(tree, mistakes, _INNER, f"resources.any_of[{which}]")
    if fields is None:
        return None
    if gpus is None:
        fields.require("accelerators", "H100:1..8")
    own = fields.read("accelerators", keys.accelerators, gpus)
    place = fields.read("infra", scalar(_infra), infra)
    speed = fields.read("speed", scalar(_speed), 1.0)
    return None if own is None else PoolChoice(own.gpu, place, own.widths, speed)


def _union(choices: Sequence[PoolChoice]) -> Resources:
    """Put choices together. The reference is the first of speed 1, or the first where none has it."""
    reference = next((choice for choice in choices if choice.speed == 1.0), choices[0])
    widths = sorted({width for choice in choices for width in choice.widths})
    return Resources(reference.gpu, tuple(widths), tuple(choices))


def _infra(text: str) -> str:
    """Read a place: names or `*`, separated by `/`."""
    parts = text.strip().split("/")
    if len(text) > _MAX_INFRA or not all(part.strip() == part and part for part in parts):
        raise InputError(f"must be a cloud, region or zone, such as gcp/us-central1-a, got {shown(text)}")
    return text.strip()


def _speed(text: str) -> float:
    if not 0 < (found := number(text)) <= MAX_SPEED:
        raise InputError(f"must be > 0 and <= {MAX_SPEED:g}, got {shown(text)}; 1 is the reference GPU")
    return found
