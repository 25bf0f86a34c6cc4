"""The child process of a `Mover`: reads requests as lines of JSON, answers with lines of JSON.

It ends at once when its input does, whatever it is doing: whoever asked has gone, and a kill tears nothing.
Credentials are in its environment; nothing secret is in a request or an answer.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from slacktide.backends.checkpoints.vault import Fenced, Vault
from slacktide.core.errors import SlacktideError
from slacktide.files.store_url import open_store

SIGN_S = 1.0
"""How often a copy under way gives a sign of life."""


class _Signs:
    """Tells the parent that bytes move, no more often than it needs to know."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def __call__(self) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + SIGN_S
            _say({"moving": True})


def main() -> None:
    """Serve until the input ends."""
    requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    vault: Vault | None = None
    while True:
        request = requests.get()
        try:
            vault = vault or _opened(request)
            answer = _ACTIONS[request["kind"]](vault, request)
        except Fenced as error:
            answer = {"failed": str(error), "fenced": True}
        except (SlacktideError, OSError, ImportError) as error:
            answer = {"failed": str(error) or type(error).__name__}
        except Exception as error:  # a library's own: the parent has to know, and may try again
            answer = {"failed": f"{type(error).__name__}: {error}"}
        _say({"id": request["id"], **answer})


def _read(requests: SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin.buffer:
        requests.put(json.loads(line))
    os._exit(0)


def _opened(request: dict[str, Any]) -> Vault:
    store, root = open_store(request["url"])
    return Vault(store, root, request["owner"], request["job"], moved=_Signs())


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
_SAYING = threading.Lock()


def _say(fact: dict[str, Any]) -> None:
    line = json.dumps(fact).encode() + b"\n"
    with _SAYING:
        try:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        except OSError:  # nobody listens any more
            os._exit(0)


if __name__ == "__main__":
    main()
