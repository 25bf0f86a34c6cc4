"""JSON Schema of our types: requests by msgspec, answers by field name, with null for infinite numbers."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from slacktide.app.task_requests import schema_of

Schema = dict[str, Any]

PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    float: {"type": ["number", "null"]},
    Any: {},
    type(None): {"type": "null"},
}


class Schemas:
    """Writes the schemas of types, each of ours once, to be referred to by its name."""

    def __init__(self) -> None:
        self.named: dict[str, Schema] = {}

    def of(self, hint: Any) -> Schema:
        """Return the schema of a type; raises TypeError for one that has none."""
        if hint in PLAIN:
            return dict(PLAIN[hint])
        origin, inner = get_origin(hint), get_args(hint)
        if origin is Literal:
            return {"type": "string", "enum": list(inner)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(each) for each in inner]}
        if origin in (list, tuple, Sequence):
            return {"type": "array", "items": self.of(inner[0])}
        if origin in (dict, Mapping):
            return {"type": "object", "additionalProperties": self.of(inner[1])}
        if isinstance(hint, type) and issubclass(hint, Struct):
            return self._request(hint)
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return self._named(hint)
        raise TypeError(f"a type of the API must be one that JSON can hold, got {hint!r}")

    def _request(self, kind: type[Struct]) -> Schema:
        about = {name: value for name, value in schema_of(kind).items() if name != "title"}
        self.named[kind.__name__] = {"required": [], **about}
        return {"$ref": f"#/components/schemas/{kind.__name__}"}

    def _named(self, kind: type[Any]) -> Schema:
        name = kind.__name__
        if name not in self.named:
            self.named[name] = {}  # so that a type may hold itself
            self.named[name] = self._object(kind)
        return {"$ref": f"#/components/schemas/{name}"}

    def _object(self, kind: type[Any]) -> Schema:
        hints, properties, required = get_type_hints(kind), {}, []
        for one in dataclasses.fields(kind):
            name = one.metadata.get("name", one.name)
            properties[name] = self.of(hints[one.name])
            if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
                required.append(name)
        said = (kind.__doc__ or "").strip().split("\n\n")[0]
        found: Schema = {"type": "object", "description": " ".join(said.split()), "properties": properties}
        return {**found, "required": required, "additionalProperties": False}
