"""What the child process of a `LibraryProcess` does: it answers requests until its input ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slacktide.core.child_process import ParentProcess


class Refusal(Exception):
    """The answer to a request is no: `capacity`, `spent`, `unreachable` or `refused`."""

    def __init__(self, kind: str, why: str) -> None:
        """Say which of them it is, and why."""
        super().__init__(why)
        self.kind = kind


def serve(answer: Callable[[dict[str, Any]], Any]) -> None:
    """Answer until the input ends; an error of a library counts as `unreachable`."""
    parent = ParentProcess()
    for request in parent.requests():
        parent.send({"id": request["id"], **_result(answer, request)})


def _result(answer: Callable[[dict[str, Any]], Any], request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": answer(request)}
    except Refusal as error:
        return {"refusal": error.kind, "why": str(error)}
    except Exception as error:
        return {"refusal": "unreachable", "why": f"{type(error).__name__}: {error}"}
