"""Metrics for Prometheus: what jobs hold and cost, how often the engine steps, what the server answers."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

from slacktide.app.alerts.outbox import HookStatus
from slacktide.app.journal.listing import elapsed_hours, held_by, status_of, task_of
from slacktide.journal.state.journal_state import JobRecord, JournalState
from slacktide.physics.ledger import StretchSums

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
STEP_BOUNDS_S = (
    0.01, 0.025, 0.05, 0.055, 0.06, 0.065, 0.07, 0.08, 0.09, 0.1, 0.125, 0.15, 0.2, 0.25, 0.5, 1.0, 2.5
)  # fmt: skip
"""Finest around the usual gap, which is the engine's pause and a few milliseconds of work."""
RECENT_HOURS = 24.0
"""For this long after its end, on the market's clock, a job has series of its own, if it is still among the
last that ended; later it counts only in the totals."""


Samples: TypeAlias = Iterable[tuple[Mapping[str, str], float]]  # labels, and a value


class Histogram:
    """A Prometheus histogram of durations."""

    def __init__(self, name: str, meaning: str, bounds_s: tuple[float, ...] = BOUNDS_S) -> None:
        self._name, self._meaning, self._bounds_s = name, meaning, bounds_s
        self._took: Counter[int] = Counter()
        self._sum_s = 0.0

    def add(self, seconds: float) -> None:
        self._took[bisect_left(self._bounds_s, seconds)] += 1
        self._sum_s += seconds

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self._name} {self._meaning}"
        yield f"# TYPE {self._name} histogram"
        sums = list(accumulate(self._took[place] for place in range(len(self._bounds_s) + 1)))
        for bound, total in zip((*map(str, self._bounds_s), "+Inf"), sums, strict=True):
            yield f'{self._name}_bucket{{le="{bound}"}} {total}'
        yield f"{self._name}_sum {self._sum_s:.6f}"
        yield f"{self._name}_count {sums[-1]}"


class Counts:
    """Counts the server's answers, and how long they took."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self.reads = Histogram(
            "slacktide_http_request_duration_seconds",
            "How long requests took, without streams and costly questions.",
        )

    def answered(self, method: str, status: int) -> None:
        self.answers[method, status] += 1

    def lines(self) -> Iterator[str]:
        answers = [({"method": name, "status": str(code)}, n) for (name, code), n in self.answers.items()]
        yield from family(
            "slacktide_http_responses_total", "counter", "Answers by method and status.", answers
        )
        yield from self.reads.lines()


def state_lines(state: JournalState, *, in_charge: bool) -> Iterator[str]:
    active, now = state.active, state.now_hours
    states = Counter(state.ended.states)
    states.update(status_of(record, state, in_charge=in_charge) for record in active)
    recent = [
        record
        for record in state.jobs.at_hand.values()
        if record.ended is None or now - record.ended.at_hours < RECENT_HOURS
    ]
    spent = ((record, *amount) for record in recent for amount in _amounts(record.money.bill, "usd"))
    costs = ((_labels(record, kind), usd) for record, kind, usd in spent)
    gpus = ((_labels(record, kind), count) for record in recent for kind, count in _held(record))
    done = ((record.job, record.progress.state.progress_gpu_hours / task_of(record)[0]) for record in recent)
    elapsed = ((record.job, 3600.0 * elapsed_hours(record, now)) for record in recent)
    taken = ((record.job, record.holding.preemptions) for record in recent)
    families: tuple[tuple[str, str, str, Samples], ...] = (
        ("slacktide_jobs", "gauge", "Jobs by state.", (({"state": name}, n) for name, n in states.items())),
        ("slacktide_events_total", "counter", "Events in the journal.", [({}, state.seq)]),
        ("slacktide_cost_usd_total", "counter", "What all jobs cost.", _totals(state, active, "usd")),
        (
            "slacktide_gpu_seconds_total", "counter", "GPU time that all jobs held.",
            _totals(state, active, "gpu_hours", 3600.0),
        ),
        ("slacktide_job_cost_usd_total", "counter", "What a job cost.", costs),
        ("slacktide_job_gpus", "gauge", "GPUs that a job holds.", gpus),
        ("slacktide_job_progress_ratio", "gauge", "Share of a job's work that is done.", _by_job(done)),
        (
            "slacktide_job_elapsed_seconds", "gauge",
            "How long a job has been under way, on the market's clock.", _by_job(elapsed),
        ),
        (
            "slacktide_job_preemptions_total", "counter", "How often the market took spot GPUs from a job.",
            _by_job(taken),
        ),
        ("slacktide_machines", "gauge", "Machines with an open ticket.", [({}, len(state.tickets.open))]),
    )  # fmt: skip
    for metric in families:
        yield from family(*metric)


def _by_job(values: Iterable[tuple[str, float]]) -> Samples:
    return (({"job": job}, value) for job, value in values)


def hook_lines(hooks: Sequence[HookStatus]) -> Iterator[str]:
    """Yield the metrics of the hooks for alerts; nothing without hooks."""
    figures = (
        ("slacktide_alerts_sent_total", "counter", "Alerts that a hook accepted.", "sent"),
        ("slacktide_alerts_failed_total", "counter", "Tries that a hook did not accept.", "failed"),
        ("slacktide_alerts_dropped_total", "counter", "Alerts that a hook refused for good.", "dropped"),
        ("slacktide_alerts_waiting", "gauge", "Alerts that wait for a hook.", "waiting"),
    )
    for name, kind, meaning, count in figures if hooks else ():
        yield from family(
            name, kind, meaning, (({"hook": hook.name}, getattr(hook, count)) for hook in hooks)
        )


def _labels(record: JobRecord, kind: str) -> dict[str, str]:
    return {"job": record.job, "capacity_type": kind, "pool": record.paid_pool}


def _amounts(spent: StretchSums, unit: str) -> tuple[tuple[str, float], ...]:
    return ("spot", getattr(spent, f"spot_{unit}")), ("on-demand", getattr(spent, f"on_demand_{unit}"))


def _held(record: JobRecord) -> tuple[tuple[str, int], ...]:
    held = held_by(record)
    return ("spot", held.spot_gpus), ("on-demand", held.on_demand_gpus)


def _totals(state: JournalState, active: Iterable[JobRecord], unit: str, times: float = 1.0) -> Samples:
    sums: Counter[tuple[str, str]] = Counter()
    running = [(record.submitted.pool, record.money.bill) for record in active]
    for pool, sums_of_pool in (*state.ended.pools.items(), *running):
        for kind, amount in _amounts(sums_of_pool, unit):
            sums[kind, pool] += amount  # type: ignore[assignment]
    for (kind, pool), amount in sums.items():
        yield {"capacity_type": kind, "pool": pool}, amount * times


def family(name: str, kind: str, meaning: str, samples: Samples) -> Iterator[str]:
    """Yield the samples of one metric in Prometheus' text form."""
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for labels, value in samples:
        inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{{{inside}}} {value:.10g}" if inside else f"{name} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
