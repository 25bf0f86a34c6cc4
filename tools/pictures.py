"""Draws the pictures of the documentation anew, and writes down what the gallery's commands print.

    python -m tools.pictures            everything: some five minutes
    python -m tools.pictures one-job    one page of the gallery; `plan` is the picture of the README

Every command is run as its page says, in an empty folder near the examples, with a fresh journal. Seeds are
fixed, so figures stay as they are until the code changes; a live run differs by the pace of the machine.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from tools.gallery import PAGES, ROOT, commands, pictures, retold, write_files

COLUMNS = "100"
COLORS = 128
"""Colors of a picture: charts have fewer, but for the edges of letters."""
README = ("plan", "examples/llama-lora.yaml", "--plot", "plan.png")


def main(names: list[str]) -> None:
    """Make what was named, or everything."""
    if not names or "plan" in names:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "examples").symlink_to(ROOT / "examples")
            printed(README, Path(folder))
            shrink(Path(folder) / "plan.png", ROOT / "docs/plan.png")
    for page in PAGES:
        if not names or page.stem in names:
            with tempfile.TemporaryDirectory() as folder:
                make(page, Path(folder))


def make(page: Path, folder: Path) -> None:
    """Run the commands of a page, keep its pictures, and write what was printed into it."""
    write_files(page, folder)
    told = {shlex.join(words): printed(tuple(words), folder) for words in commands(page)}
    text = page.read_text(encoding="utf-8")
    page.write_text(retold(text, lambda command: told[shlex.join(shlex.split(command))]), encoding="utf-8")
    for name in pictures(page):
        shrink(folder / name, page.parent / name)


def printed(words: tuple[str, ...], folder: Path) -> str:
    """Run a command and return what it prints; raises CalledProcessError where it fails."""
    print("slacktide", shlex.join(words), file=sys.stderr)
    kept = {"SLACKTIDE_HOME": str(folder / "home"), "SLACKTIDE_CONFIG": os.devnull}
    environment = {**os.environ, **kept, "COLUMNS": COLUMNS, "NO_COLOR": "1"}
    command = [sys.executable, "-m", "slacktide", *words]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


def shrink(drawn: Path, target: Path) -> None:
    """Keep a picture with few colors, which is a third of its size.

    The colors that are kept are those of the most pixels, so that a small dot keeps its own: a palette by
    averages gives it the color of something larger.
    """
    with Image.open(drawn) as picture:
        whole = np.asarray(picture.convert("RGB"), dtype=np.int64)
    colors, places, pixels = np.unique(whole.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    kept = colors[np.argsort(-pixels, kind="stable")[:COLORS]]
    nearest = np.array([((kept - color) ** 2).sum(axis=1).argmin() for color in colors], dtype=np.uint8)
    few = Image.fromarray(nearest[places].reshape(whole.shape[:2]), mode="P")
    few.putpalette(kept.astype(np.uint8).tobytes())
    few.save(target, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
