"""What a stream is made of: classes of jobs that arrive at a rate, do some work and scale in some way."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from slacktide.errors import InputError
from slacktide.speedup import Linear, Speedup
from slacktide.types import MAX_GPUS, Phase

ANY_WIDTH = tuple(range(1, 1025))
"""The widths of a class that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """Jobs that are alike: how often they come, how much work they bring, how they scale.

    Give `work_gpu_hours` and `speedup`, or `phases` when a job scales differently as it goes on.
    Raises InputError when a number cannot be meant.
    """

    name: str
    arrivals_per_hour: float
    work_gpu_hours: float = math.nan
    """Mean work of a job; the sum over its phases where those are given."""
    speedup: Speedup = field(default_factory=Linear)
    phases: tuple[Phase, ...] = ()
    """What a job passes through, in order; a class without phases is one phase."""
    restart_hours: float = 0.0
    """Hours without progress after a start, the first one included, and after every change of width; the
    new width is billed meanwhile."""
    widths: tuple[int, ...] = ANY_WIDTH
    """The widths a job may have, ascending."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.arrivals_per_hour) and self.arrivals_per_hour > 0):
            raise InputError(
                f"class {self.name!r}: arrivals_per_hour must be > 0, got {self.arrivals_per_hour:g}"
            )
        if not (math.isfinite(self.restart_hours) and self.restart_hours >= 0):
            raise InputError(f"class {self.name!r}: restart_hours must be >= 0, got {self.restart_hours:g}")
        if not self.phases:
            try:
                object.__setattr__(self, "phases", (Phase(self.work_gpu_hours, self.speedup),))
            except InputError as error:
                raise InputError(f"class {self.name!r}: {error}") from error
        object.__setattr__(self, "work_gpu_hours", sum(phase.work_gpu_hours for phase in self.phases))
        self._check_widths()

    def _check_widths(self) -> None:
        if not self.widths:
            raise InputError(f"class {self.name!r}: widths must name at least one width, got none")
        if self.widths is not ANY_WIDTH:
            object.__setattr__(self, "widths", tuple(sorted(set(self.widths))))
        least, most = self.widths[0], self.widths[-1]
        if not 1 <= least <= most <= MAX_GPUS:
            wrong = least if least < 1 else most
            raise InputError(f"class {self.name!r}: a width must be in 1..{MAX_GPUS}, got {wrong}")

    @property
    def load_gpus(self) -> float:
        """Work that arrives per hour: the GPUs it would keep busy one by one, the rho of the papers."""
        return self.arrivals_per_hour * self.work_gpu_hours
