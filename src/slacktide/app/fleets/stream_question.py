"""What to simulate of a fleet without a market: its stream of jobs, recorded or drawn, on its budget."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slacktide.app.fleets.budgets import budget_gpus
from slacktide.app.fleets.jobs_question import JobsQuestion
from slacktide.app.fleets.streams import simulate, usual_allocators
from slacktide.budget.arrivals import draw_stream
from slacktide.budget.fleet import Fleet
from slacktide.budget.stream import Stream
from slacktide.core.errors import InputError
from slacktide.files.fleet.fleet import FleetFile, read_fleet_file
from slacktide.files.fleet.recorded_jobs import read_jobs
from slacktide.results.fleets.stream import StreamComparison
from slacktide.simulation.compare import Progress

USUAL_JOBS = 20_000
MAX_JOBS = 10_000_000
"""More jobs than memory is sure to hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamQuestion(JobsQuestion):
    """Jobs on machines at one price: also how these come and go."""

    node_gpus: int | None = None
    provisioning_hours: float | None = None
    idle_grace_hours: float | None = None


@dataclass(frozen=True, slots=True)
class StreamAnswer:
    """What came of it, and in words where the jobs came from."""

    comparison: StreamComparison
    told: str


def simulate_stream(question: StreamQuestion, *, progress: Progress | None = None) -> StreamAnswer:
    """Run the jobs of a fleet under allocators at equal spending; raises as `simulate`, and FileError."""
    stream, told = _stream(question)
    policies = question.policies or usual_allocators(question.file.policy)
    return StreamAnswer(simulate(stream, _fleet(question), policies, progress=progress), told)


def _stream(question: StreamQuestion) -> tuple[Stream, str]:
    """Read or draw the stream, and say in words where it came from."""
    file, seed = question.file, question.seed
    sizes = question.sizes or file.stream.sizes
    if question.jobs is not None:
        for name, given in (("count", question.count), ("arrivals", question.arrivals)):
            if given is not None:
                raise InputError(f"--{name} must not be given with --jobs, whose arrivals are recorded")
        stream = read_jobs(question.jobs, file.classes, sizes=sizes, seed=seed)
        return stream, f"recorded in {Path(question.jobs).name}"
    count = USUAL_JOBS if question.count is None else question.count
    if count > MAX_JOBS:
        raise InputError(f"--count must be <= {MAX_JOBS}, got {count}")
    arrivals = question.arrivals or file.stream.arrivals
    stream = draw_stream(file.classes, count, arrivals=arrivals, sizes=sizes, seed=seed)
    return stream, f"{arrivals} arrivals and {sizes} sizes, seed {seed}"


def _fleet(question: StreamQuestion) -> Fleet:
    file, usual = question.file, question.file.stream
    return Fleet(
        file.classes,
        budget_gpus=budget_gpus(file, question.budget),
        node_gpus=usual.node_gpus if question.node_gpus is None else question.node_gpus,
        provisioning_hours=_either(question.provisioning_hours, usual.provisioning_hours),
        idle_grace_hours=_either(question.idle_grace_hours, usual.idle_grace_hours),
    )


def _either(given: float | None, usual: float) -> float:
    return usual if given is None else given


__all__ = ["FleetFile", "StreamAnswer", "StreamQuestion", "read_fleet_file", "simulate_stream"]
