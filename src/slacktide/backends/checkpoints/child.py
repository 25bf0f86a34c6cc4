"""The child process of a `Mover`: reads requests as lines of JSON, answers with lines of JSON.

It ends at once when its input does, whatever it is doing: its parent has gone, and a kill tears nothing.
Credentials are in its environment; nothing secret is in a request or an answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from slacktide.backends.checkpoints.vault import Fenced, Vault
from slacktide.core.child_process import ParentProcess
from slacktide.core.errors import SlacktideError
from slacktide.files.store_url import open_store

SIGN_S = 1.0  # how often a copy under way gives a sign of life


class _SignsOfLife:
    """Reports to the parent that bytes move, no more often than it needs to know."""

    def __init__(self, parent: ParentProcess) -> None:
        self._parent, self._next_s = parent, 0.0

    def __call__(self) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + SIGN_S
            self._parent.send({"moving": True})


def main() -> None:
    """Serve until the input ends."""
    parent = ParentProcess()
    vault: Vault | None = None
    for request in parent.requests():
        try:
            vault = vault or _open(request, parent)
            answer = _ACTIONS[request["kind"]](vault, request)
        except Fenced as error:
            answer = {"failed": str(error), "fenced": True}
        except (SlacktideError, OSError, ImportError) as error:
            answer = {"failed": str(error) or type(error).__name__}
        except Exception as error:  # a library's own: the parent has to know, and may try again
            answer = {"failed": f"{type(error).__name__}: {error}"}
        parent.send({"id": request["id"], **answer})


def _open(request: dict[str, Any], parent: ParentProcess) -> Vault:
    store, root = open_store(request["url"])
    return Vault(store, root, request["owner"], request["job"], moved=_SignsOfLife(parent))


def _save(vault: Vault, request: dict[str, Any]) -> dict[str, Any]:
    saved = vault.save(Path(request["folder"]), request["attempt"], request["share"])
    untidy = ""
    try:
        vault.retain(request["keep"])
    except (SlacktideError, OSError) as error:  # it is saved all the same; the next save tidies up
        untidy = str(error)
    return {"saved": saved._asdict(), "untidy": untidy}


def _load(vault: Vault, request: dict[str, Any]) -> dict[str, Any]:
    loaded = vault.restore(Path(request["folder"]), request["attempt"])
    return {"loaded": None if loaded is None else loaded._asdict()}


_ACTIONS: dict[str, Callable[[Vault, dict[str, Any]], dict[str, Any]]] = {"save": _save, "load": _load}


if __name__ == "__main__":
    main()
