"""Rewrites parts of a job file's text: takes out secrets, sets the class, writes measured speedups into it.

Except by `with_keys`, the text is changed as YAML nodes, which remember how each value was written: `4` stays
a number and `KEY:` stays without a value. Comments are lost where something is changed, which is intended:
they may hold what was taken out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import yaml

from slacktide.core.errors import FileError
from slacktide.files.job import parse_job
from slacktide.files.work import read_table

SECRETS = "secrets"
INHERITED = (
    "work", "phases", "speedup", "restart", "deadline", "value", "worthless_after", "patience", "priority",
    "checkpoint", "resources",
)  # fmt: skip
"""Keys that a job may take from its class in a fleet file."""
_ENDLESS = 1 << 30  # so that long lines are not wrapped


def without_secrets(text: str) -> str:
    """Return a job file's text without the values of its secrets; a text without secrets is unchanged.

    A secret without a value is looked up where the job runs.
    """
    root = _composed(text)
    secrets = _entries(root).get(SECRETS)
    if root is None or not isinstance(secrets, yaml.MappingNode) or not secrets.value:
        return text
    # A new node for each secret: YAML would write a node that is used twice as an alias.
    secrets.value = [(name, yaml.ScalarNode("tag:yaml.org,2002:null", "null")) for name, _ in secrets.value]
    return _written(root)


def with_class(text: str, name: str) -> str:
    """Return a job file's text with this class in place of any class that it names."""
    root = _composed(text)
    if not isinstance(root, yaml.MappingNode):
        return text
    others = [(key, value) for key, value in root.value if getattr(key, "value", None) != "class"]
    root.value = [*others, (_text("class"), _text(name))]
    return _written(root)


def class_named(text: str) -> str:
    """Return the class that a job file names; empty for none."""
    return getattr(_entries(_composed(text)).get("class"), "value", "")


def is_bare(text: str) -> bool:
    """Whether a job file names its class in a fleet, and leaves its GPUs or its work to the class."""
    return leaves_to_class(_entries(_composed(text)))


def leaves_to_class(keys: Collection[str]) -> bool:
    """Whether a job file with these keys names its class, and leaves its GPUs or its work to the class."""
    return "class" in keys and not ("resources" in keys and ("work" in keys or "phases" in keys))


def with_usual(text: str, others: str) -> str:
    """Return a job file's text with the keys that only the other text has added to it."""
    root, present = _composed(text), _entries(_composed(text)).keys()
    if not isinstance(root, yaml.MappingNode):
        return text
    # `work` and `phases` exclude each other: either one in the file replaces both of the class.
    sized = bool({"work", "phases"} & present)
    more = [
        (_text(name), value)
        for name, value in _entries(_composed(others)).items()
        if name not in present and not (sized and name in ("work", "phases"))
    ]
    root.value = [*root.value, *more]
    return _written(root)


def with_tables(text: str, path: str) -> str:
    """Return a file's text with every speedup that is in a CSV file as a table; others are unchanged.

    CSV files are relative to `path`. Raises FileError where one cannot be read.
    """
    root = _composed(text)
    files = [node for node in _speedups(root) if "csv" in _entries(node)]
    for node in files:
        node.value = [(_text("table"), _table(node, path))]
    return text if root is None or not files else _written(root)


def class_text(fleet: str, name: str) -> str:
    """Return the keys of a class in a fleet file as a job file's text; empty if there is no such class."""
    classes = _entries(_composed(fleet)).get("classes")
    for node in classes.value if isinstance(classes, yaml.SequenceNode) else ():
        entries = _entries(node)
        if getattr(entries.get("name"), "value", None) == name:
            kept = [(_text(key), entries[key]) for key in INHERITED if key in entries]
            endless = [(key, node) for key, node in kept if (key.value, node.value) != ("deadline", "none")]
            return _written(yaml.MappingNode("tag:yaml.org,2002:map", endless))
    return ""


def _composed(text: str) -> yaml.Node | None:
    root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    return root


def _entries(root: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(root, yaml.MappingNode):
        return {}
    return {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}


def _speedups(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _speedups(item)
    for name, value in _entries(node).items():
        if name == "speedup" and isinstance(value, yaml.MappingNode):
            yield value
        else:
            yield from _speedups(value)


def _table(node: yaml.MappingNode, path: str) -> yaml.Node:
    rows = read_table(_written(node), path).points
    whole, real = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
    pairs = [
        (yaml.ScalarNode(whole, f"{gpus:.0f}"), yaml.ScalarNode(real, repr(float(rate))))
        for gpus, rate in rows
    ]
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs)


def _scalars(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        yield from (scalar for item in node.value for scalar in _scalars(item))
    elif isinstance(node, yaml.MappingNode):
        yield from (scalar for pair in node.value for item in pair for scalar in _scalars(item))


def _text(words: str) -> yaml.ScalarNode:
    return yaml.ScalarNode("tag:yaml.org,2002:str", words)


def _written(root: yaml.Node) -> str:
    for node in _scalars(root):
        if node.style is None and node.value == "":
            node.value = "null"  # an empty value would be written as a tag, and our reader refuses tags
    written: str = yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=_ENDLESS)
    return written


def with_keys(text: str, lines: Mapping[str, str], path: str | Path) -> str:
    """Return a job file's text with these values at these top-level keys; missing keys come last.

    Only the values are replaced, so comments stay. Raises FileError where the file is not written key by
    key, or would not be a job file any more.
    """
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, yaml.MappingNode) or root.flow_style:
        raise FileError(
            "a job file must be written with a key per line to be changed, got { }; copy the lines", path=path
        )
    places = {key.value: (key.start_mark.index, _end(value)) for key, value in root.value}
    changed = text
    # From the last value to the first: positions before a change stay valid.
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
    """Return where a value ends; the end that YAML gives for a block is where the next value begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    index: int = node.end_mark.index
    return index
