"""The search for the price at which the best choices meet the budget.

Two choices, one within the budget and one beyond it, lie on a chord in the plane of GPUs and jobs
present. The best choice at the chord's own price either lies below it and takes the place of one of the
two, or nothing does: then the chord is an edge of the frontier, and both are best at its price. Unlike a
bisection this ends at the exact price, after few steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from slacktide.budget.solution.width_options import Total, WidthOptions

CHORD_TOLERANCE = 1e-14
"""A choice counts as below a chord by more than this share of its cost: sums are no more exact."""
PATIENCE = 12
"""After this many chords every second step halves the range of prices: chords alone may creep."""
MOST_STEPS = 400
NEAR = 1e-5
"""How far from the price of a chord its true price may be, as a share of it."""


class FrontierEdge(NamedTuple):
    """An edge of the frontier; at its end both totals are the same and the price is 0."""

    low: Total
    high: Total
    price: float
    """Jobs fewer by one more GPU."""


def find_edge(choices: WidthOptions, is_low: Callable[[Total], bool]) -> FrontierEdge:
    """Find the edge between totals that are low and others; the narrowest must be low."""
    low, high = choices.cheapest(0.0, 1.0), choices.cheapest(1.0, 0.0)
    if is_low(high):
        return FrontierEdge(high, high, 0.0)
    least, most, chord = 0.0, math.inf, math.inf
    for step in range(MOST_STEPS):
        if high.gpus <= low.gpus:
            break
        chord = (low.jobs - high.jobs) / (high.gpus - low.gpus)
        halve = step >= PATIENCE and step % 2 == 1 and least > 0.0 and most < math.inf
        price = math.sqrt(least * most) if halve else chord
        middle = choices.cheapest(1.0, price)
        if not halve and _is_edge(low, high, middle, price):
            break
        if is_low(middle):
            low, most = middle, price
        else:
            high, least = middle, price
    return FrontierEdge(low, high, chord)


def polished(choices: WidthOptions, edge: FrontierEdge, is_low: Callable[[Total], bool]) -> FrontierEdge:
    """Bisect the price of an edge where choices move smoothly with it.

    There a chord is an edge to within rounding as soon as its ends are some 1e-7 apart.
    """
    low, high = (choices.cheapest(1.0, edge.price * (1.0 + side * NEAR)) for side in (1.0, -1.0))
    if not is_low(low) or is_low(high):
        return edge
    most, least = edge.price * (1.0 + NEAR), edge.price * (1.0 - NEAR)
    while least < (price := (least + most) / 2.0) < most:
        middle = choices.cheapest(1.0, price)
        if is_low(middle):
            low, most = middle, price
        else:
            high, least = middle, price
    return FrontierEdge(low, high, price)


def _is_edge(low: Total, high: Total, middle: Total, price: float) -> bool:
    """Whether the best choice at a chord's price lies no lower than the chord."""
    cost = min(low.cost(price), high.cost(price))
    return middle.cost(price) >= cost * (1.0 - CHORD_TOLERANCE)
