"""A job file's text changed in one place: without its secrets, fit to be kept; with another class; or with
its measured speedups in it, fit to be read elsewhere.

The text is changed as YAML's own nodes, which remember how each value was written: `4` stays a number and
`KEY:` stays without a value. Comments are lost where something is changed, which is as well: they may hold
what was taken out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml

SECRETS = "secrets"
INHERITED = (
    "work", "phases", "speedup", "restart", "deadline", "value", "worthless_after", "patience", "priority",
    "checkpoint", "resources",
)  # fmt: skip
"""What a job may have from its class in a fleet file."""
_ENDLESS = 1 << 30
"""Long lines are not broken: they come back as they were."""


def without_secrets(text: str) -> str:
    """Return a job file's text with the value of every secret taken out; without secrets it is unchanged.

    A secret without a value is one to be looked up where the job runs.
    """
    import yaml

    root = _composed(text)
    secrets = _entries(root).get(SECRETS)
    if root is None or not isinstance(secrets, yaml.MappingNode) or not secrets.value:
        return text
    secrets.value = [(name, _null()) for name, _ in secrets.value]
    return _written(root)


def with_class(text: str, name: str) -> str:
    """Return a job file's text with this class, whatever class it names."""
    import yaml

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
    """Whether a job file names its class in a fleet, and leaves its GPUs or its work to that."""
    said = _entries(_composed(text)).keys()
    return "class" in said and not ("resources" in said and {"work", "phases"} & said)


def with_usual(text: str, others: str) -> str:
    """Return a job file's text with what stands in another text and not in it."""
    import yaml

    root, said = _composed(text), _entries(_composed(text)).keys()
    if not isinstance(root, yaml.MappingNode):
        return text
    sized = bool({"work", "phases"} & said)
    more = [
        (_text(name), value)
        for name, value in _entries(_composed(others)).items()
        if name not in said and not (sized and name in ("work", "phases"))
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
    """Return what a fleet file says of a class, in the words of a job file; empty where it is not there."""
    import yaml

    classes = _entries(_composed(fleet)).get("classes")
    for one in classes.value if isinstance(classes, yaml.SequenceNode) else ():
        entries = _entries(one)
        if getattr(entries.get("name"), "value", None) == name:
            kept = [(_text(key), entries[key]) for key in INHERITED if key in entries]
            endless = [(key, node) for key, node in kept if (key.value, node.value) != ("deadline", "none")]
            return _written(yaml.MappingNode("tag:yaml.org,2002:map", endless))
    return ""


def _composed(text: str) -> yaml.Node | None:
    import yaml

    root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    return root


def _entries(root: yaml.Node | None) -> dict[str, yaml.Node]:
    import yaml

    if not isinstance(root, yaml.MappingNode):
        return {}
    return {key.value: value for key, value in root.value if isinstance(key, yaml.ScalarNode)}


def _speedups(node: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    """Yield every speedup that is a mapping, however deep it stands."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _speedups(item)
    for name, value in _entries(node).items():
        if name == "speedup" and isinstance(value, yaml.MappingNode):
            yield value
        else:
            yield from _speedups(value)


def _table(node: yaml.MappingNode, path: str) -> yaml.Node:
    """Read the CSV file that a speedup names, as widths and rates."""
    import yaml

    from slacktide.files.scaling import read_table

    rows = read_table(_written(node), path).points
    whole, real = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
    pairs = [
        (yaml.ScalarNode(whole, f"{gpus:.0f}"), yaml.ScalarNode(real, repr(float(rate))))
        for gpus, rate in rows
    ]
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs)


def _scalars(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    import yaml

    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        yield from (scalar for item in node.value for scalar in _scalars(item))
    elif isinstance(node, yaml.MappingNode):
        yield from (scalar for pair in node.value for item in pair for scalar in _scalars(item))


def _text(words: str) -> yaml.ScalarNode:
    import yaml

    return yaml.ScalarNode("tag:yaml.org,2002:str", words)


def _null() -> yaml.ScalarNode:
    import yaml

    return yaml.ScalarNode("tag:yaml.org,2002:null", "null")


def _written(root: yaml.Node) -> str:
    import yaml

    for node in _scalars(root):
        if node.style is None and node.value == "":
            node.value = "null"  # nothing is written as a tag otherwise, and tags are refused
    written: str = yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=_ENDLESS)
    return written
