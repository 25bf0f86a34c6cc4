"""Our own code as it travels to the nodes, so that both ends of a message are of one version."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

_THEN = (1980, 1, 1, 0, 0, 0)
"""One date for all files: the same code is the same archive."""


class Package(NamedTuple):
    """The code of this package."""

    digest: str
    archive: bytes
    """A zip file."""


def packed(folder: Path | None = None) -> Package:
    """Pack the modules of this package, without caches and data."""
    source = folder or Path(__file__).parents[2]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(source.rglob("*.py")):
            within = path.relative_to(source)
            if within.parts[0] != "examples":
                name = zipfile.ZipInfo(f"slacktide/{within.as_posix()}", _THEN)
                name.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(name, path.read_bytes())
    data = made.getvalue()
    return Package(hashlib.sha256(data).hexdigest()[:16], data)
