"""Installs completion scripts where shells look for them."""

from __future__ import annotations

import os
from pathlib import Path

from slacktide.core.files import write_whole


def install_script(shell: str, script: str) -> Path:
    """Write the script for a shell where that shell looks for it, and return the path; raises FileError."""
    home = Path(os.path.expanduser("~"))
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    path = {
        "bash": data / "bash-completion" / "completions" / "slacktide",
        "zsh": data / "zsh" / "site-functions" / "_slacktide",
        "fish": settings / "fish" / "completions" / "slacktide.fish",
    }[shell]
    write_whole(path, script.encode())
    return path


def next_step(shell: str, path: Path) -> str:
    """Return an instruction: what the user must still do before completions work."""
    if shell == "zsh":
        return f"add `fpath=({path.parent} $fpath)` to ~/.zshrc, before compinit, and start a new shell"
    needs = "; it needs the package bash-completion" if shell == "bash" else ""
    return f"start a new shell{needs}"
