"""Writes requirements.lock again: the pins that stand in it, each with the hashes of all its files.

    make lock

Change a version or add `name==version` there first, in plain text. What the pins need and do not name is
added. The hashes are those of every file that the package's index lists, so the lock holds for all platforms
and Pythons. Nothing of where they were found is written. A file with the marks of a merge that failed is
taken, too: of two versions of one package the newer one stays.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"
OLDEST = "3.11"
"""The oldest Python that is supported."""
PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)\s*(;[^\\]*)?")


def pins(text: str) -> dict[str, str]:
    """Return the pins of a lock by the names of their packages, the newest of each."""
    found: dict[str, tuple[list[int], str]] = {}
    for line in text.splitlines():
        if match := PIN.match(line):
            name = re.sub(r"[-_.]+", "-", match[1]).lower()
            rank = [int(part) for part in re.findall(r"\d+", match[2])]
            marker = f" {match[3].strip()}" if match[3] else ""
            found[name] = max(found.get(name, ([], "")), (rank, f"{name}=={match[2]}{marker}"))
    return {name: pin for name, (_, pin) in sorted(found.items())}


def hashed(wanted: dict[str, str]) -> str:
    """Return the pins with their hashes, for every platform."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "pins.in"), Path(folder, "pins.txt")
        given.write_text("\n".join(wanted.values()), encoding="utf-8")
        subprocess.run(
            [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes",
             "--python-version", OLDEST, "--no-header", "--no-annotate", "--no-emit-index-url",
             "--output-file", str(made), str(given)],
            check=True,
        )  # fmt: skip
        return made.read_text(encoding="utf-8")


def main() -> None:
    """Write the lock; where that fails it stays as it is."""
    text = LOCK.read_text(encoding="utf-8")
    head = [line for line in text.splitlines() if line.startswith("#")]
    LOCK.write_text("\n".join([*head, hashed(pins(text))]), encoding="utf-8")


if __name__ == "__main__":
    main()
