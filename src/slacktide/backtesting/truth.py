"""What a job really is, apart from what its file says: so that back-tests show what a wrong file costs."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from slacktide.errors import InputError
from slacktide.speedup import Speedup
from slacktide.types import Job


@dataclass(frozen=True, slots=True)
class Paced:
    """A speedup that was measured to be another than said: by a factor, and by another for each doubling."""

    said: Speedup
    factor: float
    exponent: float

    def __call__(self, gpus: float) -> float:
        return self.said(gpus) * self.factor * gpus**self.exponent if gpus > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Truth:
    """How a job differs from its file."""

    work: float = 1.0
    """It takes this many times the GPU-hours."""
    speed: float = 1.0
    """On its greatest width it is this many times as fast as said, on one GPU just as fast."""

    def __post_init__(self) -> None:
        for name, number in (("work", self.work), ("speed", self.speed)):
            if not 0.01 <= number <= 100.0:
                raise InputError(f"the truth's {name} must be in 0.01..100, got {number:g}", field=name)

    def of(self, job: Job) -> Job:
        """Return the job as it is. Its work stays as said, for progress is told in shares of that."""
        if self == AS_SAID:
            return job
        doublings = math.log2(job.max_gpus)
        exponent = math.log2(self.speed) / doublings if doublings else 0.0

        def paced(speedup: Speedup) -> Paced:
            return Paced(speedup, 1.0 / self.work, exponent)

        if not job.phases:
            return dataclasses.replace(job, speedup=paced(job.speedup))
        phases = tuple(dataclasses.replace(phase, speedup=paced(phase.speedup)) for phase in job.phases)
        return dataclasses.replace(job, phases=phases)


AS_SAID = Truth()
