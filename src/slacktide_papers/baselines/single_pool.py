"""How policies over pools see a job that may not move: as a choice among one pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from slacktide.core.quotes import Quote, Sighting
from slacktide.market.tape import Past
from slacktide.policies.view import Places, View


def over_pools(view: View) -> View:
    """Return a view that has places: for a job that stays in its pool, a view of that pool alone."""
    if view.places is not None:
        return view
    return replace(
        view,
        pools=(view.pools[view.pool],),
        pool=0,
        known=_Own(view),
        places=Places((view.job,), np.zeros((1, 1)), np.zeros((1, 1))),
        state=view.state._replace(pool=0),
    )


class _Own:
    """What is known of the one pool that a job may be in."""

    def __init__(self, view: View) -> None:
        self._view = view

    def past(self, pool: int) -> Past:
        return self._view.past()

    def forecast(self, pool: int) -> Sequence[Quote]:
        return self._view.forecast()

    def sightings(self, pool: int) -> Sequence[Sighting]:
        return self._view.sightings(self._view.pool)
