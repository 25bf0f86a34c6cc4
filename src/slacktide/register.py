"""Names to classes: how plug-ins are found, made from a name or a mapping, and described.

Built-in plug-ins are found by importing every module of their package, third parties' through
the entry-point group of the same kind; both only when a name is first looked up.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any, Generic, TypeAlias, TypeVar

from slacktide.errors import InputError, UnknownNameError, shown, unknown_name

Plugin = TypeVar("Plugin")
Spec: TypeAlias = str | Mapping[str, Any]
"""A plug-in as users write it: `name`, or `{name: {parameter: value}}`."""


class Register(Generic[Plugin]):
    """The known plug-ins of one kind."""

    def __init__(self, kind: str, *, package: str, entry_points: str) -> None:
        self.kind = kind
        self._package = package
        self._entry_points = entry_points
        self._classes: dict[str, type[Any]] = {}
        self._loaded = False

    def register(self, cls: type[Plugin]) -> type[Plugin]:
        """Add a class under its own name: `UniformProgress` becomes `uniform-progress`."""
        name = kebab(cls.__name__)
        present = self._classes.get(name)
        if present is not None and present.__qualname__ != cls.__qualname__:
            raise InputError(f"{self.kind} names must be unique, got {shown(name)} twice")
        self._classes[name] = cls
        return cls

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._classes))

    def __contains__(self, name: object) -> bool:
        self._load()
        return name in self._classes

    def get(self, name: str) -> type[Any]:
        """Return the class of this name; raises UnknownNameError with "did you mean"."""
        self._load()
        if name not in self._classes:
            raise UnknownNameError(self.kind, name, self._classes)
        return self._classes[name]

    def make(self, spec: Spec | Plugin) -> Plugin:
        """Make a plug-in from a name, from `{name: {parameter: value}}`, or pass one through."""
        if isinstance(spec, str):
            return self._build(spec, {})
        if not isinstance(spec, Mapping):
            return spec
        if len(spec) != 1:
            raise InputError(f"a {self.kind} must be one name with its parameters, got {sorted(spec)}")
        ((name, parameters),) = spec.items()
        if parameters is None:
            parameters = {}
        if not isinstance(parameters, Mapping):
            raise InputError(
                f"{self.kind} {shown(name)}: parameters must be a mapping, got {shown(parameters)}"
            )
        return self._build(name, parameters)

    def _build(self, name: str, parameters: Mapping[str, Any]) -> Plugin:
        cls = self.get(name)
        known = {field.name: field for field in dataclasses.fields(cls) if field.init}
        for key in parameters:
            if key not in known:
                raise InputError(f"{self.kind} {shown(name)}: {unknown_name('a parameter', str(key), known)}")
        missing = [key for key, field in known.items() if key not in parameters and _required(field)]
        if missing:
            raise InputError(f"{self.kind} {shown(name)}: parameter {shown(missing[0])} must be given")
        try:
            plugin: Plugin = cls(**parameters)
        except TypeError as error:
            raise InputError(f"{self.kind} {shown(name)}: {error}") from error
        return plugin

    def name_of(self, plugin: Plugin) -> str:
        """Return the name a plug-in is registered under, or the one its class would have."""
        return kebab(type(plugin).__name__)

    def summary(self, name: str) -> str:
        """Return the first sentence of a plug-in's documentation."""
        text = inspect.getdoc(self.get(name)) or ""
        return " ".join(text.split("\n\n")[0].split())

    def parameters(self, name: str) -> dict[str, Any]:
        """Return the parameters of a plug-in with their defaults; None where one must be given."""
        fields = dataclasses.fields(self.get(name))
        return {field.name: None if _required(field) else field.default for field in fields if field.init}

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__, f"{self._package}."):
            importlib.import_module(module.name)
        for entry in metadata.entry_points(group=self._entry_points):
            try:
                self.register(entry.load())
            except Exception as error:
                raise InputError(
                    f"the {self.kind} {shown(entry.name)} of entry-point group {self._entry_points!r} "
                    f"({entry.value}) must load, got {type(error).__name__}: {error}"
                ) from error


def kebab(name: str) -> str:
    """Write a class name in lower case with hyphens."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def _required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
