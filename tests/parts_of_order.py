"""Has the files that take longest begun first, some by each process, so that none is left for the end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

LONG_S = {
    "rig/test_rig.py": 150.0,
    "docs/test_docs.py": 70.0,
    "e2e/test_demo.py": 60.0,
    "unit/backends/test_machines_rented.py": 60.0,
    "e2e/test_nothing_false.py": 60.0,
    "campaigns/test_faults.py": 45.0,
    "e2e/test_sweeps_on_ray.py": 40.0,
    "e2e/test_controller_cli.py": 35.0,
    "crash/test_kills.py": 30.0,
    "unit/backends/test_ray_link.py": 30.0,
    "e2e/test_fleet_on_machines.py": 30.0,
    "e2e/test_training.py": 30.0,
    "e2e/test_lora_job.py": 25.0,
    "papers/budget/test_command.py": 25.0,
    "e2e/test_ray_cluster_provider.py": 25.0,
    "papers/deadline/test_command.py": 20.0,
    "campaigns/test_kills.py": 20.0,
    "e2e/test_slow_job.py": 15.0,
}
"""About how long files take that have long tests, longest first; in seconds, to deal them out by."""


class HasPath(Protocol):
    """A test."""

    @property
    def path(self) -> Path:
        """Its file."""
        ...


Test = TypeVar("Test", bound=HasPath)


def in_order(tests: Sequence[Test], processes: int) -> list[Test]:
    """Return tests in the order in which they are handed out: to each process a part, which it does in order.

    Parts are of one size (`--dist worksteal`); whoever is done takes from the end of another's.
    """
    root = Path(__file__).parent
    files = {root / name: list[Test]() for name in LONG_S}
    rest: list[Test] = []
    for test in tests:
        files.get(test.path, rest).append(test)
    hands = dealt({path: LONG_S[path.relative_to(root).as_posix()] for path in files}, processes)
    long = [[test for path in hand for test in files[path]] for hand in hands]
    return [test for part in filled(long, rest, len(tests)) for test in part]


def dealt(seconds: dict[Path, float], hands: int) -> list[list[Path]]:
    """Deal files to hands, each to the one that has least to do so far."""
    given: list[list[Path]] = [[] for _ in range(hands)]
    busy_s = [0.0] * hands
    for path, lasts_s in seconds.items():
        least = busy_s.index(min(busy_s))
        given[least].append(path)
        busy_s[least] += lasts_s
    return given


def filled(parts: Sequence[list[Test]], rest: Sequence[Test], total: int) -> list[list[Test]]:
    """Fill parts up to an equal size with the rest, in its order; what is over goes to the last."""
    found, used, left = [], 0, total
    for index, part in enumerate(parts):
        more = max(0, left // (len(parts) - index) - len(part)) if index < len(parts) - 1 else len(rest)
        found.append([*part, *rest[used : used + more]])
        used, left = used + len(rest[used : used + more]), left - len(found[-1])
    return found
