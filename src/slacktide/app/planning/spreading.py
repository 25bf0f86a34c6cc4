"""Where the many runs of a back-test are computed (`--on`): this process, several, or a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from slacktide.backends.ray.cluster_note import find_cluster
from slacktide.backends.ray.node_settings import token_environ
from slacktide.core.errors import InputError, shown
from slacktide.simulation.parallel.base import HERE, Spread
from slacktide.simulation.parallel.processes import Processes


@contextmanager
def open_spread(place: str | None = None) -> Iterator[Spread]:
    """Open the place where many independent runs are computed.

    `place` is `processes`, `processes:N`, `ray` or `ray:ADDRESS`; None stands for this process.
    Raises InputError for other words, and when Ray or a cluster is missing; BackendError when a cluster does
    not answer.
    """
    if place is None:
        yield HERE
        return
    kind, colon, about = place.partition(":")
    if kind == "processes" and (not colon or about.isdecimal()):
        with Processes(int(about) if colon else None) as processes:
            yield processes
    elif kind == "ray" and (not colon or about):
        from slacktide.simulation.parallel.ray_tasks import check_installed, connected

        check_installed()  # to say that Ray is missing before asking where a cluster is
        with connected(about or cluster_address()) as tasks:
            yield tasks
    else:
        must = "--on must be processes, processes:N, ray or ray:ADDRESS"
        raise InputError(f"{must}, got {shown(place)}")


def cluster_address() -> str:
    """Return the address of the cluster to use when none is named; raises InputError if none is found."""
    cluster = find_cluster()
    if not cluster.address:
        raise InputError(
            "--on ray must find a cluster, got none: RAY_ADDRESS is not set and no local one is running; "
            "start one with 'slacktide cluster up', or give --on ray:ADDRESS"
        )
    os.environ.update(token_environ({}, cluster.token))
    return cluster.address


__all__ = ["Spread", "cluster_address", "open_spread"]
