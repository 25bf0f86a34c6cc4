"""Find, load and check users' own classes, which are named `module:Class` or `file.py:Class`.

A name is first looked up as a file in the folder of the job file that names it, or of the command, then
among the modules that Python can import. A file found this way is named by its full path from then on, so
that a journal refers to the same class from whichever folder it is read.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple, TypeAlias

from slacktide.core.errors import InputError, listed, shown

Spec: TypeAlias = str | Mapping[str, Any]
"""A plug-in as users write it: `name`, or `{name: {parameter: value}}`."""
SUFFIX = ".py"
_PREFIX = "slacktide_own_"


class Source(NamedTuple):
    """A user's own file that was loaded, with all that another process needs to load it too."""

    module: str
    path: str
    content: bytes


_loaded: dict[str, Source] = {}


def one_of(kind: str) -> str:
    """Return a kind of plug-in with its article."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def is_place(name: object) -> bool:
    """Whether a name is of the form `module:Class` or `file.py:Class`, unlike registered names."""
    return isinstance(name, str) and ":" in name


def with_full_path(spec: Spec, *folders: Path) -> Spec:
    """Return a spec whose class, if its file is in one of these folders, is named by the file's full path."""
    if isinstance(spec, str):
        return _full_path(spec, folders) if is_place(spec) else spec
    if not isinstance(spec, Mapping):
        return spec
    return {_full_path(name, folders) if is_place(name) else name: spec[name] for name in spec}


def _full_path(place: str, folders: Sequence[Path]) -> str:
    module, _, name = place.rpartition(":")
    is_file = module.endswith(SUFFIX)
    file = module if is_file else module.replace(".", "/") + SUFFIX
    found = next((folder / file for folder in folders if (folder / file).is_file()), None)
    if found is None and is_file:
        found = folders[0] / file  # so that the error message names the whole path
    return place if found is None else f"{found.resolve()}:{name}"


def load(place: str, kind: str) -> type[Any]:
    """Return the class at `module:Class` or `file.py:Class`; raises InputError when there is none."""
    where, _, name = place.rpartition(":")
    if not where or not name:
        raise InputError(f"{one_of(kind)} of your own must be named module:Class, got {shown(place)}")
    module = _module(where, kind)
    cls = getattr(module, name, None)
    if cls is None:
        members = [value for value in vars(module).values() if inspect.isclass(value)]
        classes = sorted(member.__name__ for member in members if member.__module__ == module.__name__)
        known = f"its classes: {listed(classes)}" if classes else "it has no classes of its own"
        raise InputError(f"{where} must have a class {shown(name)}, got none; {known}")
    if not inspect.isclass(cls):
        raise InputError(f"{shown(place)} must be a class, got {type(cls).__name__}")
    return cls


def check_decides(cls: type[Any], kind: str, view: str) -> None:
    """Raise InputError unless a class has `decide(self, view)` for this kind of view."""
    decide = getattr(cls, "decide", None)
    if decide is None and view == "FleetView" and callable(getattr(cls, "begin", None)):
        return  # an allocator may have `begin` instead, which returns an object that decides for one fleet
    if not callable(decide):
        must = f"{one_of(kind)} must be a class with a method decide(self, view: {view})"
        raise InputError(f"{must}, got {cls.__name__} without one")
    parameters = list(inspect.signature(decide).parameters.values())
    if len(parameters) < 2:
        raise InputError(f"{cls.__name__}.decide must take self and a view, got {len(parameters)} parameters")
    written = parameters[1].annotation
    named = written if isinstance(written, str) else getattr(written, "__name__", "")
    other = named.strip("\"'").rpartition(".")[2]
    if other in {"View", "FleetView"} - {view}:
        what = "an allocator, which decides for all jobs" if other == "FleetView" else "a policy for one job"
        raise InputError(f"{one_of(kind)} must decide by a {view}, got {cls.__name__}, {what} ({other})")


def check_does(cls: type[Any], kind: str, verbs: Sequence[str]) -> None:
    """Raise InputError unless a class has all of these methods."""
    missing = [verb for verb in verbs if not callable(getattr(cls, verb, None))]
    if missing:
        must = f"{one_of(kind)} must be a class with the methods {', '.join(verbs)}"
        raise InputError(f"{must}, got {cls.__name__} without {', '.join(missing)}")


def _module(where: str, kind: str) -> ModuleType:
    try:
        if not where.endswith(SUFFIX):
            return importlib.import_module(where)
        path = Path(where)
        content = path.read_bytes()
        # The same content is loaded once, so its classes are the same.
        digest = hashlib.sha256(str(path).encode() + b"\0" + content).hexdigest()[:16]
        return _loaded_as(Source(f"{_PREFIX}{digest}", str(path), content), path)
    except Exception as error:  # whatever a module of the user's own may raise when it is loaded
        said = f"{type(error).__name__}: {error}"
        remedy = "name a file next to the job file, or a module that Python finds"
        raise InputError(f"the {kind}'s module {shown(where)} must load, got {said}; {remedy}") from error


class _FromSource(SourceFileLoader):
    """Ignores the bytecode cache, which looks up to date if a file changes twice within a second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _loaded_as(source: Source, path: Path) -> ModuleType:
    name = source.module
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path, loader=_FromSource(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.append(str(path.parent))  # at the end: files next to it can be imported, but hide no module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    _loaded[name] = source
    return module


def sources() -> tuple[Source, ...]:
    """Return the users' own files that were loaded so far."""
    return tuple(_loaded.values())


def adopt(files: Sequence[Source]) -> None:
    """Load the files that another process loaded, as modules of the same names; raises InputError.

    A file that is missing here or differs is written to a temporary folder that this process deletes.
    """
    for source in files:
        if source.module not in sys.modules:
            path = Path(source.path)
            try:
                _loaded_as(source, path if _has(path, source.content) else _written(source))
            except Exception as error:  # whatever a module of the user's own may raise when it is loaded
                said = f"{type(error).__name__}: {error}"
                remedy = "it must need no other file of yours, or that one must be installed there"
                raise InputError(
                    f"{shown(path.name)} must load where a sweep is done, got {said}; {remedy}"
                ) from error


def _has(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except OSError:
        return False


def _written(source: Source) -> Path:
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="slacktide-own-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / Path(source.path).name
    path.write_bytes(source.content)
    return path
