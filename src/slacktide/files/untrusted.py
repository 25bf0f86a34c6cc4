"""Checks on job files that others sent, made before such a file is read.

Reading a job file loads the policy that it names and opens the file that its speedup is in: a server must
know both beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from slacktide.core.own_class import is_place
from slacktide.core.yaml_tree import Scalar, Section, Series, Tree
from slacktide.files.job import JobText


class Named(NamedTuple):
    """What a job file names that reading it would load or open."""

    code: str  # what in its policy says where code is to be found; empty where nothing does
    csv: bool  # whether a speedup, or one of a phase, is in another file


def named_in(job: JobText) -> Named:
    """Return what reading a job file would load or open, without doing so."""
    policy = job.tree.entries.get("policy") if isinstance(job.tree, Section) else None
    words = () if policy is None else _words(policy.value)
    code = next((word for word in words if is_place(word)), "")
    return Named(code, any("csv" in speedup.entries for speedup in _speedups(job.tree)))


def _speedups(tree: Tree | None) -> Iterator[Section]:
    """Yield every speedup, at any depth."""
    if isinstance(tree, Series):
        for item in tree.items:
            yield from _speedups(item)
    elif isinstance(tree, Section):
        for key, entry in tree.entries.items():
            if key == "speedup" and isinstance(entry.value, Section):
                yield entry.value
            yield from _speedups(entry.value)


def _words(tree: Tree | None) -> Iterator[str]:
    if isinstance(tree, Scalar):
        yield tree.text
    elif isinstance(tree, Series):
        for item in tree.items:
            yield from _words(item)
    elif isinstance(tree, Section):
        for key, entry in tree.entries.items():
            yield key
            yield from _words(entry.value)
