"""Compile marked Python functions to machine code with Numba, from the source that also runs uncompiled.

A function marked `@compilable` stays a plain Python function: tests, reports and the live
engine call it as it is. `compiled(fn)` turns the same source into machine code, together with
the marked functions it calls, so a batch runs what the plain definition says and no rule is
written twice. Numba is imported on the first call; machine code is kept on disk, in a folder
named by the sources' digest, so a change in any of them can never meet stale code.
"""

from __future__ import annotations

import dis
import hashlib
import os
import re
import shutil
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from slacktide.core.files import PRIVATE_FOLDER, is_our_own_folder, make_private_folder

Function = TypeVar("Function", bound=Callable[..., Any])

_KERNEL = re.compile(rb"^\s*@(?:compilable|inlined)\b", re.MULTILINE)
_IMPORTED = re.compile(rb"^\s*(?:from|import)\s+(slacktide[\w.]*)", re.MULTILINE)
KEPT_CACHES = 4  # how many versions' machine code stays on disk


def compilable(fn: Function) -> Function:
    """Mark a function as one that `compiled` may turn into machine code."""
    fn.__compilable__ = True  # type: ignore[attr-defined]
    return fn


def inlined(fn: Function) -> Function:
    """Mark a small compilable function whose body is to be copied into its compiled callers.

    A call from one compiled function to another copies every field of the named tuples it passes: a batch
    that calls a dozen small rules per slot runs at half its speed without this.
    """
    fn.__inlined__ = True  # type: ignore[attr-defined]
    return compilable(fn)


def is_compilable(thing: object) -> bool:
    """Whether this is a function marked `@compilable`."""
    return isinstance(thing, types.FunctionType) and getattr(thing, "__compilable__", False)


_done: dict[tuple[Any, ...], Any] = {}
_recipes: dict[int, tuple[Callable[..., Any], dict[str, Any]]] = {}
"""The function and its bindings for each compiled twin, by id(); `_done` keeps twins, so ids stay unique."""
WITHIN = "__within"  # marks the name of a twin that only compiled code calls


def compiled(fn: Function, **bound: Callable[..., Any]) -> Function:
    """Return a compiled twin of a marked function.

    `bound` replaces marked functions that `fn` calls by name: a batch loop calls `rule`, and
    `compiled(loop, rule=uniform_progress)` is that loop for one rule. Bound functions may be
    marked functions or results of `compiled`.
    """
    if not is_compilable(fn):
        raise TypeError(f"{fn!r} must be marked @compilable")
    twin: Function = _twin(fn, bound, within=False)
    return twin


def _twin(fn: Callable[..., Any], bound: dict[str, Any], *, within: bool) -> Any:
    """Return the twin that Python calls, or the one that is called within compiled code."""
    twins = {name: _within(thing) for name, thing in bound.items()}
    key = (fn, within, *sorted((name, id(thing)) for name, thing in twins.items()))
    if key not in _done:
        _done[key] = made = _jit(_rebound(fn, twins, WITHIN if within else ""), within)
        _recipes[id(made)] = (fn, bound)
    return _done[key]


def _within(thing: Any) -> Any:
    """Return the twin for compiled callers of a marked function or of a result of `compiled`."""
    fn, bound = (thing, {}) if is_compilable(thing) else _recipes.get(id(thing), (None, {}))
    return thing if fn is None else _twin(fn, bound, within=True)


def _rebound(fn: Callable[..., Any], twins: dict[str, Any], mark: str) -> types.FunctionType:
    """Copy a function so that the marked functions it calls are compiled ones."""
    assert isinstance(fn, types.FunctionType)
    scope = dict(fn.__globals__)
    # Only names that are loaded as globals: an attribute may share its name with a marked function.
    called = {step.argval for step in dis.get_instructions(fn) if step.opname == "LOAD_GLOBAL"}
    for name in sorted(called):
        if name in twins:
            scope[name] = twins[name]
        elif is_compilable(scope.get(name)):
            scope[name] = _within(scope[name])
    copy = types.FunctionType(fn.__code__, scope, fn.__name__, fn.__defaults__, fn.__closure__)
    # Numba files machine code under the qualified name: one loop bound to two rules needs two.
    suffix = "".join(f"__{name}_{twin.py_func.__qualname__}" for name, twin in sorted(twins.items()))
    copy.__qualname__ = fn.__qualname__ + suffix + mark
    copy.__module__ = fn.__module__
    copy.__dict__.update(fn.__dict__)
    return copy


def _jit(fn: types.FunctionType, within: bool) -> Any:
    """Have Numba compile a function when it is first called.

    Numba also makes wrappers through which Python and C can call it. For named tuples of many arrays that
    takes up to a third of the time, and most functions are only called by other compiled ones.
    """
    import numba

    config: Any = numba.config
    kept = config.CACHE_DIR
    config.CACHE_DIR = str(cache_dir())
    # LLVM does the inlining. Numba could (`inline="always"`), but it infers the types of every copy again:
    # LLVM compiles the loop of a further rule in 3 s instead of 8, and loops run in 0.97 to 1.07 of the time.
    options: dict[str, Any] = {"forceinline": getattr(fn, "__inlined__", False)}
    options |= {"no_cpython_wrapper": within, "no_cfunc_wrapper": True}
    try:
        return numba.njit(cache=True, error_model="numpy", **options)(fn)
    finally:
        config.CACHE_DIR = kept


@cache
def cache_dir() -> Path:
    """Return the folder for machine code of exactly these sources; older ones are cleared away."""
    ours = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "slacktide")
    root = Path(os.environ.get("SLACKTIDE_CACHE") or ours) / "kernels"
    folder = root / f"{sys.implementation.cache_tag}-{_digest()}"
    try:
        make_private_folder(folder)
        os.utime(folder)
        folders = sorted(root.iterdir(), key=lambda folder: folder.stat().st_mtime, reverse=True)
        for old in folders[KEPT_CACHES:]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError:  # a read-only home: machine code is then kept for this user in a temporary folder
        folder = _temporary() / folder.name
        folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    return folder


def _temporary() -> Path:
    """Return a temporary folder that only this user can write to, because we run the code in it."""
    import tempfile

    folder = Path(tempfile.gettempdir()) / f"slacktide-{os.getuid()}"
    with suppress(OSError):  # another process made it first
        folder.mkdir(mode=PRIVATE_FOLDER)
    return folder if is_our_own_folder(folder) else Path(tempfile.mkdtemp(prefix="slacktide-"))


def _digest() -> str:
    """Return a digest of all our modules with kernels and of what these import.

    Numba looks only at the file of the function itself, but its code has functions and constants of other
    files in it. Modules that no kernel imports are left out, so that a change there recompiles nothing.
    """
    package = Path(__file__).parents[1]
    texts = {path: path.read_bytes() for path in package.parent.glob(f"{package.name}*/**/*.py")}
    folders: dict[Path, list[Path]] = {}
    for path in texts:
        folders.setdefault(path.parent, []).append(path)
    unread = [path for path, text in texts.items() if _KERNEL.search(text)]
    seen = set(unread)
    while unread:
        for name in _IMPORTED.findall(texts[unread.pop()]):
            module = package.parent.joinpath(*name.decode().split("."))
            file = module.with_suffix(".py")
            found = {file} if file in texts else set(folders.get(module, ()))
            unread += found - seen
            seen |= found
    digest = hashlib.sha256()
    for path in sorted(seen):
        digest.update(path.name.encode())
        digest.update(texts[path])
    return digest.hexdigest()[:16]
