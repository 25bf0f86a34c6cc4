"""What the experiment with restarts by application showed: a table, and what the ratio is made of."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from slacktide.report.text.tables.grid import Column, Grid
from slacktide_papers.budget import rows
from slacktide_papers.budget.applications import BY_APPLICATION, HALF_MINUTE, NO_RESTARTS
from slacktide_papers.budget.rows import Contest
from slacktide_papers.budget.words import CLAIMED, times, verdict

LINES = (
    ("autoscaler as published", rows.AS_PUBLISHED, BY_APPLICATION),
    ("speedups known", rows.SPEEDUPS_KNOWN, BY_APPLICATION),
    ("speedups and restarts known", rows.RESTARTS_KNOWN, BY_APPLICATION),
    ("the same, all restarts 30 s", rows.RESTARTS_KNOWN, HALF_MINUTE),
    ("the same, no restarts", rows.RESTARTS_KNOWN, NO_RESTARTS),
    ("as published, no restarts", rows.AS_PUBLISHED, NO_RESTARTS),
    ("one width per application, no phases", rows.PER_APPLICATION, BY_APPLICATION),
    ("one width for all", rows.ONE_WIDTH, BY_APPLICATION),
    ("fixed cluster, EQUI", rows.EQUI, BY_APPLICATION),
)
"""What is shown: its name, the policy, and with which restarts; the reference has the same restarts."""
(PUBLISHED, SPEEDUPS, AWARE, SHORT, NEVER, LEARNING, SINGLE, COMMON, _) = (line[0] for line in LINES)
SETS = ("85 drawn jobs", "recorded streams")


class Middle(NamedTuple):
    """A ratio over many streams."""

    median: float
    least: float
    greatest: float
    streams: int


def middles(contests: Sequence[Contest], which: str) -> dict[str, Middle]:
    """Return each line's ratio over the streams of a set; a line without any is left out."""
    mine = [one for one in contests if one.panel.startswith(rows.DRAWN) == (which == SETS[0])]
    found = {}
    for label, series, machines in LINES:
        each = [one.median for one in mine if (one.series, one.machines) == (series, machines.name)]
        if each:
            found[label] = Middle(median(each), min(each), max(each), len(each))
    return found


def epoch_grid(contests: Sequence[Contest]) -> Grid:
    """Return all lines with the median and the range over the streams of each set that there is."""
    known = {which: found for which in SETS if (found := middles(contests, which))}
    columns = [Column("mean completion over fixed-width with phases", right=False)]
    for which in known:
        columns += [Column(f"{which}: median"), Column("range")]
    table = []
    for label, _, _ in LINES:
        cells = [label]
        for found in known.values():
            cells += _cells(found.get(label))
        table.append(tuple(cells))
    return Grid(tuple(columns), tuple(table))


def _cells(one: Middle | None) -> list[str]:
    return ["", ""] if one is None else [times(one.median), f"{times(one.least)}–{times(one.greatest)}"]


def epoch_findings(contests: Sequence[Contest]) -> list[str]:
    """Say for each set of streams what the ratio is, what it is made of, and what widths alone are worth."""
    sentences = []
    for which in SETS:
        found = middles(contests, which)
        if set(found) >= {PUBLISHED, SPEEDUPS, AWARE, SHORT, NEVER, LEARNING}:
            sentences += [_claim(which, found), _parts(which, found), _aware(which, found)]
        if set(found) >= {SINGLE, COMMON}:
            sentences.append(_widths(which, found))
    return sentences


def _claim(which: str, found: dict[str, Middle]) -> str:
    one = found[PUBLISHED]
    return (
        f"Restarts by application and speedups that change, {which} ({one.streams} streams): the autoscaler "
        f"as published takes {times(one.median)} as long as fixed-width with phases at the same bill "
        f"({times(one.least)} to {times(one.greatest)} by stream), where {CLAIMED[0]:g} to {CLAIMED[1]:g} is "
        f"claimed: {verdict(one.median, one.greatest)}"
    )


def _parts(which: str, found: dict[str, Middle]) -> str:
    published, learning, never = (found[label].median for label in (PUBLISHED, LEARNING, NEVER))
    whole = published - 1.0
    parts = (
        (
            published - learning,
            f"is restarts, which not resizing saves (without any it takes {times(learning)})",
        ),
        (learning - never, f"is beginning on one GPU to learn speedups (with both gone: {times(never)})"),
        (never - 1.0, "is left, for sizing by efficiency once a minute where fixed-width goes by a price"),
    )
    causes = "; ".join(f"{part:.2f} ({_share(part, whole)}) {what}" for part, what in parts)
    return f"What that is made of, {which}: of the {whole:.2f} that it takes longer, {causes}."


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}".replace("%", " %").replace("-", "−") if whole > 0 else "no share"


def _aware(which: str, found: dict[str, Middle]) -> str:
    knowing, aware, short = (times(found[label].median) for label in (SPEEDUPS, AWARE, SHORT))
    return (
        f"Given the speedups, the autoscaler takes {knowing}; given each application's restart too, where it "
        f"believed in 30 s, {aware}; where all restarts do take 30 s, {short} ({which})."
    )


def _widths(which: str, found: dict[str, Middle]) -> str:
    single, common = found[SINGLE].median, found[COMMON].median
    return (
        f"Of those that do not resize, {which}: one width per application, which does not know the phases, "
        f"takes {times(single)}, so phases are worth {single - 1.0:.2f}; one width for all takes "
        f"{times(common)}, so knowing one speedup per application is worth {common - single:.2f}."
    )
