"""Titles, questions and tables of the budget experiments; every number is read from the rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from slacktide.report import words
from slacktide.report.text.tables.grid import Column, Grid
from slacktide_papers.budget.rows import BAND, FIXED, ONLINE, SLOW_BAND, Check, Contest, Cost, Point

BANDS = (BAND, SLOW_BAND)
CLAIMED = (1.6, 2.0)
"""How much longer jobs take with Pollux-style autoscaling than with BOA Constrictor, as its paper says."""

TITLES = {
    "paper": "1. The paper's figure: mean response time against budget",
    "mixes": "2. Other fleets of this kind",
    "autoscaling": "3. Compared with autoscaling, at equal bills",
    "machines": "4. What restarts, nodes and waiting for nodes cost",
    "epochs": "5. Restarts by application and speedups that change: the claim taken apart",
}
QUESTION_OF_ALL = (
    "Li et al. 2024, How to Rent GPUs on a Budget: one fixed width for each class is the best that any "
    "policy can do. And the comparison that BOA Constrictor (2026) makes: how much sooner are jobs done than "
    "with autoscaling in the manner of Pollux, for the same money?"
)
WINDOW = (
    "A bill is all GPU-hours paid for until the last job is done, per hour of the time over which jobs "
    "arrived. It is the same window for every policy and leaves no job out: slow policies pay for the tail. "
    "After the last job arrives, idle machines are not paid for, in fixed clusters neither."
)
QUESTIONS = {
    "paper": (
        "Two classes of one GPU-hour each on average, Amdahl with 80 % parallel work and the square root, as "
        "many jobs of the one as of the other. Lines without marks are formulas; marks are simulated. Fixed "
        "clusters with FIFO and SRPT have the best of several widths at each size. Below: how wide each "
        "class should be."
    ),
    "mixes": (
        "Who is frequent, how jobs come and how their sizes are spread is changed. The bound is the optimum "
        "for the jobs that really came: no policy can be below it, not even one that knows sizes or the "
        "future."
    ),
    "autoscaling": (
        "Recorded or synthetic streams of training jobs. Fixed-width knows the rates of the stream; the "
        "efficiency band only looks at the present jobs and rents GPUs so that the sum of "
        "speedups over GPUs stays in a band, once a minute as Pollux does, or every ten minutes. Both know "
        "the speedups; online-width knows neither rates nor speedups. The second picture divides by "
        "fixed-width's mean at the same bill, read between points; settings that cost more and take longer "
        "than another of the same policy are left out of it."
    ),
    "machines": (
        "One thing is made worse at a time on one stream, then all together; each policy pays what it costs."
    ),
    "epochs": (
        "BOA Constrictor's setting: 85 jobs whose speedup changes while they train, restarts that differ by "
        "application, nodes of four, an autoscaler that decides once a minute. What each epoch gains from "
        "more GPUs is not measured but assumed: the gradient noise scale grows tenfold over five phases of "
        "equal work, and 60 % of what a job loses on many GPUs is samples that large batches waste where the "
        "noise is small; over all phases the times add up to the measured ones. Restarts take 15, 27, 50, "
        "91, 165 and 300 s, in the order of model sizes (NCF, ResNet-18, ResNet-50, DeepSpeech 2, YOLOv3, "
        "BERT); this spread is assumed as well. The 85 jobs have the same mix in every draw and come at "
        "random, 20 an hour. Everybody is compared with fixed-width, which knows the phases, at bills of "
        "1.6 to 3.4 times the load."
    ),
}
CONTESTS_NOTE = (
    "Over all settings whose bill is between 1.1 and 4 times the stream's load. Above 1 the policy's jobs "
    "take longer than the reference's at the same bill. The last column is for the 95th percentile."
)


def times(ratio: float) -> str:
    """Write a ratio with two digits."""
    return words.ratio(ratio)


def verdict(middle: float, most: float) -> str:
    """Say whether a ratio, the middle one of some streams, is the claimed one."""
    low, high = CLAIMED
    if low <= middle <= high:
        return "as claimed."
    if middle > high:
        return "more than claimed."
    return "less than claimed." if most < low else "less than claimed on most streams."


def groups(points: Sequence[Point]) -> list[list[Point]]:
    """Return the points grouped by stream and machines."""
    return [list(group) for _, group in groupby(points, key=lambda point: (point.panel, point.machines))]


def contests_grid(contests: Sequence[Contest]) -> Grid:
    """Return how every policy did compared with those that plan widths."""
    columns = (
        Column("stream", right=False), Column("machines", right=False), Column("policy", right=False),
        Column("over", right=False), Column("median"), Column("least"), Column("greatest"),
        Column("settings"), Column("p95, median"),
    )  # fmt: skip
    rows = tuple(
        (
            one.panel, one.machines, one.series, one.reference, times(one.median), times(one.least),
            times(one.greatest), str(one.points), times(one.p95_median),
        )
        for one in contests
    )  # fmt: skip
    return Grid(columns, rows)


def summary_grid(contests: Sequence[Contest]) -> Grid:
    """Return the autoscalers and the planners compared with fixed-width, for a terminal."""
    shown = [one for one in contests if one.reference == FIXED and one.series in (*BANDS, ONLINE)]
    columns = (
        Column("stream", right=False), Column("machines", right=False), Column("policy", right=False),
        Column("median"), Column("least"), Column("greatest"), Column("p95"),
    )  # fmt: skip
    rows = tuple(
        (one.panel, one.machines, one.series, times(one.median), times(one.least), times(one.greatest),
         times(one.p95_median))
        for one in shown
    )  # fmt: skip
    return Grid(columns, rows)


def checks_grid(checks: Sequence[Check]) -> Grid:
    """Return the formula next to simulations."""
    columns = (
        Column("fleet", right=False), Column("budget"), Column("mean, formula"), Column("simulated"),
        Column("standard error"), Column("GPUs simulated"), Column("over its own bound"),
    )  # fmt: skip
    rows = tuple(
        (
            one.panel, f"{one.budget_gpus:.3f}", f"{one.formula_hours:.4f} h", f"{one.simulated_hours:.4f} h",
            f"{one.error_hours:.4f} h", f"{one.simulated_gpus:.3f}", f"{one.over_bound:.6f}",
        )
        for one in checks
    )  # fmt: skip
    return Grid(columns, rows)


def points_grid(points: Sequence[Point]) -> Grid:
    """Return all runs on one stream."""
    columns = (
        Column(f"{points[0].panel}, {points[0].machines}", right=False), Column("setting", right=False),
        Column("GPUs"), Column("of load"), Column("mean"), Column("p95"), Column("over bound"),
        Column("restart"), Column("idle"), Column("resizes"), Column("peak"),
    )  # fmt: skip
    rows = tuple(
        (
            one.series, one.knob, f"{one.average_gpus:.2f}", times(one.load_multiple),
            f"{one.mean_hours:.3f} h", f"{one.p95_hours:.3f} h", f"{one.over_bound:.3f}",
            words.percent(one.restart_share),
            words.percent(one.idle_share + one.fragmentation_share), f"{one.resizes:,}", f"{one.peak_gpus:,}",
        )
        for one in points
    )  # fmt: skip
    return Grid(columns, rows)


def costs_grid(costs: Sequence[Cost]) -> Grid:
    """Return what machines cost each policy."""
    columns = (
        Column("machines", right=False), Column("policy", right=False), Column("bill"), Column("mean"),
        Column("over ideal machines"), Column("over fixed-width"),
    )  # fmt: skip
    rows = tuple(
        (
            one.machines, one.series, times(one.load_multiple), f"{one.mean_hours:.3f} h",
            times(one.over_ideal), times(one.over_fixed),
        )
        for one in costs
    )  # fmt: skip
    return Grid(columns, rows)
