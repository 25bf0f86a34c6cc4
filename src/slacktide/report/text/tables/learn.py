"""What was learned, as a page of text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from slacktide.policies.selection.rate import written
from slacktide.report.printing import rendered
from slacktide.report.wire.values import picked

if TYPE_CHECKING:
    from rich.table import Table

    from slacktide.policies.selection.hedge import Hedge

SHOWN = 15  # arms in the table; nobody reads a set of a hundred to its end
CHANGES = 5  # how many of the last changes of the leader are listed


def as_json(hedge: Hedge, state: str) -> dict[str, Any]:
    """Return what was learned under its documented keys."""
    regret = hedge.regret()
    return {
        "state": state,
        "jobs": hedge.ended,
        "open": sorted(hedge.open),
        "rate": next(iter(written(hedge.rate))),
        "eta": hedge.eta,
        "leader": hedge.leader,
        "regret": {**picked(regret, "best", "expected", "realised", "bound"), "delay": hedge.tally.delay},
        "arms": [_arm(hedge, place) for place in _order(hedge)],
        "leaders": [{"jobs": jobs, "policy": arm} for jobs, arm in hedge.leaders],
    }


def page(hedge: Hedge, state: str) -> list[Any]:
    """Return what was learned as things to print: the leader, the weights, the regret, its history."""
    if not hedge.ended:
        return [
            f"nothing learned yet in {_escape(state)}: 'policy: auto' is {_escape(hedge.leader)}",
            "[dim]teach it: slacktide learn JOB --market FILE --jobs 200[/dim]",
            "",
            _table(hedge),
        ]
    jobs = f"{hedge.ended} job" + "s" * (hedge.ended != 1)
    share = f"{hedge.weights.max():.0%}"
    return [
        f"after {jobs} [bold]{_escape(hedge.leader)}[/bold] leads with {share} of the trust",
        "",
        _table(hedge),
        "",
        _regret(hedge),
        _changes(hedge),
    ]


def text(hedge: Hedge, state: str) -> str:
    """Return the page as plain text."""
    return rendered(*page(hedge, state))


def _order(hedge: Hedge) -> list[int]:
    return [int(place) for place in np.argsort(-hedge.weights, kind="stable")]


def _arm(hedge: Hedge, place: int) -> dict[str, Any]:
    return {
        "policy": hedge.arms[place],
        "weight": float(hedge.weights[place]),
        "prior": float(hedge.prior[place]),
        "mean_utility": float(hedge.utility[place] / hedge.ended) if hedge.ended else None,
    }


def _table(hedge: Hedge) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("policy", no_wrap=True)
    for title in ("weight", "initially", "mean utility"):
        table.add_column(title, justify="right", no_wrap=True)
    order = _order(hedge)
    for arm in (_arm(hedge, place) for place in order[:SHOWN]):
        mean = "-" if arm["mean_utility"] is None else f"{arm['mean_utility']:.4f}"
        table.add_row(_escape(arm["policy"]), f"{arm['weight']:.1%}", f"{arm['prior']:.1%}", mean)
    if len(order) > SHOWN:
        rest = float(hedge.weights[order[SHOWN:]].sum())
        table.add_row(f"[dim]{len(order) - SHOWN} others[/dim]", f"[dim]{rest:.1%}[/dim]")
    return table


def _regret(hedge: Hedge) -> str:
    regret = hedge.regret()
    share = f" ({regret.expected / regret.bound:.0%} of it)" if regret.bound > 0 else ""
    return (
        f"regret so far against {_escape(regret.best)}: {regret.expected:.3f} expected, "
        f"{regret.realised:.3f} realised; the expected one cannot exceed {regret.bound:.3f}{share}\n"
        "[dim]utility is scaled for each job: 0 is all GPUs on demand and no result, "
        "1 is the full value at no cost[/dim]"
    )


def _changes(hedge: Hedge) -> str:
    last = hedge.leaders[-CHANGES:]
    left = len(hedge.leaders) - len(last)
    lines = [f"  from job {jobs + 1:>5}  {_escape(arm)}" for jobs, arm in last]
    return "\n".join([f"leaders{f' (after {left} earlier ones)' if left else ''}:", *lines])


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)
