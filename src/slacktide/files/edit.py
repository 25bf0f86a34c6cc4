"""Changes some keys of a job file and leaves the rest as it was written, comments included."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from slacktide.core.errors import FileError
from slacktide.files.job import parse_job


def with_keys(text: str, lines: Mapping[str, str], path: str | Path) -> str:
    """Return a job file's text with these values at these top-level keys; those it does not have come last.

    Comments behind a value stay. Raises FileError where the file is not written key by key, or would not be
    a job file any more.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise FileError(
            "a job file must be written with a key per line to be changed, got { }; copy the lines", path=path
        )
    places = {key.value: (key.start_mark.index, _end(value)) for key, value in root.value}
    changed = text
    for key, (begin, end) in sorted(places.items(), key=lambda item: item[1], reverse=True):
        if key in lines:
            changed = f"{changed[:begin]}{key}: {lines[key]}{changed[end:]}"
    missing = [f"{key}: {value}\n" for key, value in lines.items() if key not in places]
    if missing and not changed.endswith("\n"):
        changed += "\n"
    changed += "".join(missing)
    parse_job(changed, path=path)
    return changed


def _end(node: yaml.Node) -> int:
    """Return where a value ends; what YAML calls the end of a block is the beginning of what follows it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    index: int = node.end_mark.index
    return index
