"""What a child process of a provider does: answers questions, in lines of JSON, until its input ends."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class Refusal(Exception):
    """A question that is answered with no: `capacity`, `spent`, `unreachable` or `refused`."""

    def __init__(self, no: str, why: str) -> None:
        """Say which no it is, and why."""
        super().__init__(why)
        self.no = no


def serve(answer: Callable[[dict[str, Any]], Any]) -> None:
    """Answer until the input ends; any error of a library means that there was no answer."""
    questions: SimpleQueue[dict[str, Any]] = SimpleQueue()
    threading.Thread(target=_read, args=(questions,), daemon=True).start()
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints must not come between the answers
    while True:
        question = questions.get()
        os.write(out, json.dumps({"id": question["id"], **_said(answer, question)}).encode() + b"\n")


def _said(answer: Callable[[dict[str, Any]], Any], question: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"found": answer(question)}
    except Refusal as error:
        return {"no": error.no, "why": str(error)}
    except Exception as error:
        return {"no": "unreachable", "why": f"{type(error).__name__}: {error}"}


def _read(questions: SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin.buffer:
        questions.put(json.loads(line))
    os._exit(0)
