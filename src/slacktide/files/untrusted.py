"""Checks on job files that others sent, made before such a file is read.

Reading a job file loads the policy that it names and opens the file that its speedup is in: a server must
know both beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator

from slacktide.core.own_class import is_place
from slacktide.core.yaml_tree import Mistakes, Scalar, Section, Series, Tree, parse_tree
from slacktide.files.job import JOB_KEYS
from slacktide.files.secrecy import kept_secret


def code_named(text: str, path: str) -> str:
    """Return the word in a job file's policy that names code to load, `module:Class`; empty without one.

    Raises FileError for a text that is not YAML.
    """
    with kept_secret(text, JOB_KEYS):
        tree = parse_tree(text, Mistakes(path))
        entry = tree.entries.get("policy") if isinstance(tree, Section) else None
        words = () if entry is None else _words(entry.value)
        return next((word for word in words if is_place(word)), "")


def file_named(text: str, path: str) -> bool:
    """Whether a speedup in a job file, or in a phase of it, is in another file.

    Raises FileError for a text that is not YAML.
    """
    with kept_secret(text, JOB_KEYS):
        return any("csv" in speedup.entries for speedup in _speedups(parse_tree(text, Mistakes(path))))


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
