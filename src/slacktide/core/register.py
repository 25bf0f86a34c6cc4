"""Plug-in registers: find a plug-in by its name, make it from YAML parameters, and describe it.

A plug-in of Slacktide is in a module of its name (`uniform-progress` in `uniform_progress.py`), so looking up
one name imports one module; other packages provide theirs as entry points. All plug-ins are imported only to
list their names, or when a name is not found otherwise. Users' own classes are named `module:Class`; only
registers that say which methods such a class must have accept them.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import re
import threading
from collections.abc import Iterator, Mapping
from importlib import metadata
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from slacktide.core.errors import InputError, UnknownNameError, shown, unknown_name
from slacktide.core.own_class import Spec, check_decides, check_does, is_place, load

Plugin = TypeVar("Plugin")
REQUIRED = object()
"""Stands for the default of a parameter that has none."""
REINSTALL = (
    "is part of the papers' experiments, which ship with Slacktide but are not installed here; "
    "install all of it again: python -m pip install --force-reinstall slacktide"
)
"""What a message says about a plug-in of the papers' package if that is not installed."""


class Register(Generic[Plugin]):
    """The known plug-ins of one kind."""

    def __init__(
        self,
        kind: str,
        *,
        packages: tuple[str, ...],
        entry_points: str,
        view: str = "",
        verbs: tuple[str, ...] = (),
        papers: tuple[str, ...] = (),
    ) -> None:
        """Make a register; users' own classes must have `decide(self, view)` and the methods in `verbs`.

        If both are empty, users' own classes are refused. `papers` are the names of plug-ins in the papers'
        package: files and journals may contain them, so a message says how to install a missing one.
        """
        self.kind = kind
        self._view, self._verbs = view, verbs
        self._packages = packages
        self._entry_points = entry_points
        self._papers = papers
        self._classes: dict[str, type[Any]] = {}
        self._ready: set[str] = set()
        self._loading, self._loaded = False, False
        self._lock = threading.RLock()

    def register(self, cls: type[Plugin]) -> type[Plugin]:
        """Add a class under its own name: `UniformProgress` becomes `uniform-progress`."""
        name = kebab(cls.__name__)
        present = self._classes.get(name)
        if present is not None and (
            present.__qualname__ != cls.__qualname__ or (self._ships(present) and not self._ships(cls))
        ):
            raise InputError(f"{self.kind} names must be unique, got {shown(name)} twice")
        self._classes[name] = cls
        return cls

    def __iter__(self) -> Iterator[str]:
        self._load()
        return iter(sorted(self._classes))

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def get(self, name: str) -> type[Any]:
        """Return the class of a name, or at `module:Class`; raises UnknownNameError with "did you mean"."""
        if (self._view or self._verbs) and is_place(name):
            cls = load(name, self.kind)
            if self._view:
                check_decides(cls, self.kind, self._view)
            check_does(cls, self.kind, self._verbs)
            return cls
        known = self._find(name)
        if known is not None:
            return known
        self.check_installed(name)
        raise UnknownNameError(self.kind, name, self._classes)

    def check_installed(self, name: str) -> None:
        """Raise InputError with the remedy if a name is of the papers' package and that is not installed."""
        if name in self._papers and self._find(name) is None:
            raise InputError(f"the {self.kind} {shown(name)} {REINSTALL}")

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
        known = _parameters_of(cls)
        for key in parameters:
            if key not in known:
                raise InputError(f"{self.kind} {shown(name)}: {unknown_name('a parameter', str(key), known)}")
        hints = _hints_of(cls)
        for key, value in parameters.items():
            must = wanted_type(hints.get(key, Any), value)
            if must:
                raise InputError(f"{self.kind} {shown(name)}: {key} must be {must}, got {shown(value)}")
        missing = [key for key, usual in known.items() if key not in parameters and usual is REQUIRED]
        if missing:
            raise InputError(f"{self.kind} {shown(name)}: parameter {shown(missing[0])} must be given")
        try:
            plugin: Plugin = cls(**parameters)
        except TypeError as error:
            raise InputError(f"{self.kind} {shown(name)}: {error}") from error
        return plugin

    def name_of(self, plugin: Plugin) -> str:
        """Return the name a plug-in is registered under, or the one its class would have.

        A user's own class with the name of one that ships with Slacktide gets the prefix `own-`.
        """
        cls = type(plugin)
        name = kebab(cls.__name__)
        known = self._classes.get(name)
        if known is not cls:  # a plug-in that ships under this name may not be imported yet
            known = self._find(name)
        taken = known is not None and known is not cls and (self._ships(known) or name in self._papers)
        return f"own-{name}" if taken else name

    def changed(self, plugin: Plugin) -> dict[str, Any]:
        """Return the parameters of a plug-in that are not at their defaults."""
        if not dataclasses.is_dataclass(plugin):
            return {}
        usual = _parameters_of(type(plugin))
        given = {key: getattr(plugin, key) for key in usual}
        return {key: value for key, value in given.items() if usual[key] is REQUIRED or value != usual[key]}

    def _ships(self, cls: type[Any]) -> bool:
        return cls.__module__.startswith(tuple(f"{package}." for package in self._packages))

    def summary(self, name: str) -> str:
        """Return the first paragraph of a plug-in's docstring."""
        text = inspect.getdoc(self.get(name)) or ""
        return " ".join(text.split("\n\n")[0].split())

    def parameters(self, name: str) -> dict[str, Any]:
        """Return the parameters of a plug-in with their defaults; None where one must be given."""
        parameters = _parameters_of(self.get(name))
        return {key: None if usual is REQUIRED else usual for key, usual in parameters.items()}

    def _find(self, name: str) -> type[Any] | None:
        """Return the class of a name, importing as little as possible; None if no plug-in has it."""
        if not self._loaded and name not in self._ready:
            with self._lock:
                if not self._loading:
                    self._import_module_of(name)
                    if name not in self._classes:
                        self._load_entries(name)
                    if name not in self._classes:
                        self._load()
                    # Only now: a class is registered before the rest of its module has been executed, and
                    # another thread must not get it that early.
                    self._ready.add(name)
        return self._classes.get(name)

    def _import_module_of(self, name: str) -> None:
        module = name.replace("-", "_")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", module):
            return
        for package in self._packages:
            if importlib.util.find_spec(f"{package}.{module}") is not None:
                importlib.import_module(f"{package}.{module}")

    def _load(self) -> None:
        """Import all plug-ins once; other threads that need them wait until that is done."""
        if self._loaded:
            return
        with self._lock:
            if self._loading:  # a module that is being loaded looks a name up
                return
            self._loading = True
            try:
                for package in map(importlib.import_module, self._packages):
                    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                        importlib.import_module(module.name)
                self._load_entries()
            finally:
                self._loaded = True

    def _load_entries(self, name: str | None = None) -> None:
        """Register the plug-ins of other packages: all, or only the one of this name."""
        for entry in metadata.entry_points(group=self._entry_points):
            if name not in (None, entry.name):
                continue
            try:
                self.register(entry.load())
            except Exception as error:
                if entry.name in self._papers and isinstance(error, ModuleNotFoundError):
                    continue  # the others work without it; `get` says how to install this one
                raise InputError(
                    f"the {self.kind} {shown(entry.name)} of entry-point group {self._entry_points!r} "
                    f"({entry.value}) must load, got {type(error).__name__}: {error}"
                ) from error


def extension(group: str, name: str, what: str) -> Any:
    """Return the object of an entry point of Slacktide; raises InputError with the remedy if it is missing.

    Plug-ins, which other packages can add, have a `Register` instead.
    """
    for entry in metadata.entry_points(group=group, name=name):
        try:
            return entry.load()
        except ModuleNotFoundError as error:
            raise InputError(f"{what} {shown(name)} {REINSTALL}; got {error}") from error
    raise InputError(f"{what} {shown(name)} {REINSTALL}")


def kebab(name: str) -> str:
    """Write a class name in lower case with hyphens."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


def _parameters_of(cls: type[Any]) -> dict[str, Any]:
    """Return the parameters of a class with their defaults, REQUIRED where one must be given."""
    if dataclasses.is_dataclass(cls):
        return {field.name: _usual(field) for field in dataclasses.fields(cls) if field.init}
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    signature = inspect.signature(cls).parameters.items()
    return {
        name: REQUIRED if parameter.default is parameter.empty else parameter.default
        for name, parameter in signature
        if parameter.kind in named
    }


PLAIN: dict[type[Any], str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "nothing",
}  # fmt: skip
"""The types of parameters that are checked, as users call them."""


def wanted_type(hint: Any, value: object) -> str:
    """Return in words the type that a value lacks; empty if it fits, or if the hint is not checked."""
    options = get_args(hint) if isinstance(hint, UnionType) or get_origin(hint) is Union else (hint,)
    if any(not isinstance(option, type) or option not in PLAIN for option in options):
        return ""
    kinds = [Real if option is float else Integral if option is int else option for option in options]
    fits = any(isinstance(value, kind) for kind in kinds) and (bool in options or not isinstance(value, bool))
    return "" if fits else " or ".join(PLAIN[option] for option in options)


def _hints_of(cls: type[Any]) -> dict[str, Any]:
    """Return the type hints of a class's parameters; none where they cannot be resolved."""
    try:
        return get_type_hints(cls if dataclasses.is_dataclass(cls) else cls.__init__)
    except (NameError, TypeError, AttributeError):  # names that only type checkers import
        return {}


def _usual(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return REQUIRED if field.default is dataclasses.MISSING else field.default


__all__ = ["REQUIRED", "Register", "Spec", "extension", "kebab"]
