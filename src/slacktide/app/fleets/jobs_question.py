"""What both kinds of simulation ask: a fleet file, its jobs, its budget, and the allocators to compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slacktide.allocators.view import AnyAllocator
from slacktide.core.register import Spec
from slacktide.files.fleet.fleet import FleetFile


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsQuestion:
    """A fleet file, and what is to be different from it."""

    file: FleetFile
    jobs: str | None = None
    """A table of past jobs; None: jobs are drawn from the classes."""
    count: int | None = None
    """How many jobs to draw; None: the usual number, or with a market as many as come in its time."""
    arrivals: str | None = None
    sizes: str | None = None
    seed: int = 0
    budget: str | None = None
    """Instead of the file's."""
    policies: Sequence[Spec | AnyAllocator] = ()
    """Empty: the usual ones."""
