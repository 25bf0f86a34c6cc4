"""Lists the examples that ship with Slacktide, and copies one to a folder."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from slacktide.core.errors import InputError, UnknownNameError

COMPANIONS = {"fleet": ("speedup.csv",), "team-month": ("team-month",)}
"""Files that an example reads and that are copied with it, by the example's name."""
LEFT_OUT = ("__pycache__", "*.pyc", "checkpoints")


@dataclass(frozen=True, slots=True)
class Example:
    """An example: a file, or a folder with one in it."""

    name: str
    summary: str  # the first sentence of its file
    path: Path

    @property
    def parts(self) -> tuple[Path, ...]:
        return (self.path, *(self.path.parent / name for name in COMPANIONS.get(self.name, ())))


def examples_folder() -> Path:
    """Return where the examples are: inside the installed package, or at the root of the repository."""
    package = Path(__file__).parents[2]
    shipped = package / "examples"
    return shipped if shipped.is_dir() else package.parents[1] / "examples"


def list_examples() -> list[Example]:
    folder = examples_folder()
    if not folder.is_dir():
        raise InputError(f"the examples must be in {folder}, got no such folder; install Slacktide again")
    paths = {path.stem: path for path in folder.glob("*.yaml")}
    paths |= {path.parent.name: path.parent for path in folder.glob("*/README.md")}
    paths |= {path.parent.name: path.parent for path in folder.glob("*/*.yaml")}
    return [Example(name, _summary(path), path) for name, path in sorted(paths.items())]


def copy_example(name: str, folder: str | Path = ".") -> list[Path]:
    """Copy an example into a folder and return what was written; never overwrites.

    Raises InputError when there is no such example, or if a file of its name exists already.
    """
    known = {example.name: example for example in list_examples()}
    if name not in known:
        raise UnknownNameError("an example", name, known)
    target = Path(folder)
    pairs = [(part, target / part.name) for part in known[name].parts]
    for _, copy in pairs:
        if copy.exists():
            raise InputError(f"{copy} must not exist yet, but it does; name another folder, or move it away")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for part, copy in pairs:
            if part.is_dir():
                shutil.copytree(part, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
            else:
                shutil.copyfile(part, copy)
    except OSError as error:
        raise InputError(f"{target} must be a folder that can be written, got: {error.strerror}") from error
    return [copy for _, copy in pairs]


def file_of(example: Path) -> Path:
    """Return the file to plan or run: the example itself, or the one in its folder."""
    if not example.is_dir():
        return example
    job = example / "job.yaml"
    return job if job.exists() else example / "README.md"


def _summary(path: Path) -> str:
    """Return the first sentence of an example: of the comment in its file, or its title."""
    first = file_of(path).read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
    return first.split(". ")[0].rstrip(".") + "."
