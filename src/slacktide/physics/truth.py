"""The real work and speed of a job whose file is wrong, for back-tests."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from slacktide.core.errors import InputError, shown
from slacktide.core.speedup import Speedup
from slacktide.core.types import Job, Phase

LEAST, MOST = 0.01, 100.0  # factors beyond these are typing mistakes
FACTORS = ("work", "speed", "later")
RANDOM = "random"
HALF = 0.5  # the share of the work after which a pace that changes does so


@dataclass(frozen=True, slots=True)
class Paced:
    """A speedup that differs from what the file says: by a factor, and by another one for each doubling."""

    said: Speedup
    factor: float
    exponent: float

    def __call__(self, gpus: float) -> float:
        return self.said(gpus) * self.factor * gpus**self.exponent if gpus > 0 else 0.0


def _check(name: str, number: float) -> None:
    if not LEAST <= number <= MOST:
        raise InputError(f"the truth's {name} must be in {LEAST:g}..{MOST:g}, got {number:g}", field=name)


@dataclass(frozen=True, slots=True)
class Truth:
    """How a job differs from its file."""

    work: float = 1.0  # it takes this many times the GPU-hours
    speed: float = 1.0  # at its greatest width it is this many times as fast as stated, on one GPU as stated
    later: float = 1.0
    """In the second half of its work it is this many times as fast as in the first: a pace that changes."""

    def __post_init__(self) -> None:
        for name in FACTORS:
            _check(name, getattr(self, name))

    def at(self, start: int) -> Truth:
        """Return the truth of a job that starts in this slot: the same for every slot."""
        return self

    def of(self, job: Job) -> Job:
        """Return the real job. Its work stays as stated, because progress is reported in shares of it."""
        if self == AS_SAID:
            return job
        doublings = math.log2(job.max_gpus)
        exponent = math.log2(self.speed) / doublings if doublings else 0.0

        def paced(phase: Phase, factor: float) -> Phase:
            return Phase(phase.work_gpu_hours, Paced(phase.speedup, factor / self.work, exponent))

        if self.later != 1.0:
            before, after = _halves(job)
            parts = [paced(phase, 1.0) for phase in before] + [paced(phase, self.later) for phase in after]
            return dataclasses.replace(job, phases=tuple(parts))
        return at_pace(job, 1.0 / self.work, exponent)


AS_SAID = Truth()


def at_pace(job: Job, factor: float, exponent: float) -> Job:
    """Return a job with every speedup multiplied by a factor and by a power of the width."""
    return job.with_speedups(lambda speedup: Paced(speedup, factor, exponent))


@dataclass(frozen=True, slots=True)
class RandomTruth:
    """A truth that is drawn for each start: every factor between two bounds, evenly on a logarithmic scale.

    The draw depends on the seed and the slot only: every policy that begins in one slot meets the same job.
    """

    work: tuple[float, float] = (0.5, 2.0)
    speed: tuple[float, float] = (1.0, 1.0)
    later: tuple[float, float] = (1.0, 1.0)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in FACTORS:
            low, high = getattr(self, name)
            _check(name, low)
            _check(name, high)
            if low > high:
                raise InputError(
                    f"the truth's {name} must rise from its first bound to its second, got {low:g}..{high:g}",
                    field=name,
                )
        if self.seed < 0:
            raise InputError(f"the truth's seed must be >= 0, got {self.seed}", field="seed")

    def at(self, start: int) -> Truth:
        """Draw the truth of a job that starts in this slot."""
        shares = np.random.default_rng((self.seed, start)).random(len(FACTORS)).tolist()
        bounds = (self.work, self.speed, self.later)
        return Truth(*(_between(two, share) for two, share in zip(bounds, shares, strict=True)))


Truths: TypeAlias = Truth | RandomTruth  # what a job is from each start: always the same, or drawn


def parse_truth(text: str) -> Truths:
    """Read `--truth`: factors as `work=1.5,speed=0.8`, bounds of random ones as `work=0.5..2`, or `random`.

    Raises InputError for anything else.

    """
    given: dict[str, Any] = {}
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if name not in (*FACTORS, "seed", RANDOM) or bool(equals) == (name == RANDOM):
            raise InputError(
                "--truth must be factors such as work=1.5,speed=0.8, bounds such as work=0.5..2,seed=3, or "
                f"random; its keys are {', '.join((*FACTORS, 'seed'))}; got {shown(word.strip())}"
            )
        if name in given:
            raise InputError(f"--truth must name {name} once, got {shown(text)}")
        given[name] = _value(name, value)
    is_random, seed = given.pop(RANDOM, False), given.pop("seed", None)
    ranges = {name: factor for name, factor in given.items() if isinstance(factor, tuple)}
    if not is_random and not ranges:
        if seed is not None:
            raise InputError(
                f"--truth: a seed needs something random to go with it, got {shown(text)}; "
                "write work=0.5..2,seed=3 or random,seed=3"
            )
        return Truth(**given)
    bounds = {name: ranges.get(name, (factor, factor)) for name, factor in given.items()}
    if not is_random:
        bounds.setdefault("work", (1.0, 1.0))
    return RandomTruth(**bounds, seed=seed or 0)


def _value(name: str, text: str) -> Any:
    """Read a factor, two bounds of it, or a seed."""
    if name == RANDOM:
        return True
    if name == "seed":
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise InputError(f"--truth: seed must be a whole number >= 0, got {shown(text)}")
        return int(text)
    low, dots, high = text.partition("..")
    return (_number(name, low), _number(name, high)) if dots else _number(name, low)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"--truth: {name} must be a number such as 1.5, or two bounds such as 0.5..2, got {shown(text)}"
        ) from None


def _between(bounds: tuple[float, float], share: float) -> float:
    low, high = bounds
    return low if low == high else math.exp(math.log(low) + share * math.log(high / low))


def _halves(job: Job) -> tuple[list[Phase], list[Phase]]:
    """Cut a job's phases where half of its work is done."""
    before, after, done = list[Phase](), list[Phase](), 0.0
    half = HALF * job.work_gpu_hours
    for phase in job.parts:
        first = min(max(half - done, 0.0), phase.work_gpu_hours)
        done += phase.work_gpu_hours
        # The phase in the middle is in both halves, with its share of the work in each.
        if first > 0.0:
            before.append(dataclasses.replace(phase, work_gpu_hours=first))
        if first < phase.work_gpu_hours:
            after.append(dataclasses.replace(phase, work_gpu_hours=phase.work_gpu_hours - first))
    return before, after
