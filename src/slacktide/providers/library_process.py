"""A cloud's library in a child process, which answers within a time limit or is killed.

Libraries of clouds may hang, print, or end the process that uses them; a controller must do none of that.
Here are both sides: `LibraryProcess` sends requests, and the child calls `serve`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from slacktide.core.child_process import ChildProcess, ParentProcess
from slacktide.core.errors import SlacktideError
from slacktide.providers.base import NoCapacity, Refused, Spent, Unreachable

REFUSALS: dict[str, type[SlacktideError]] = {
    kind.__name__: kind for kind in (NoCapacity, Spent, Unreachable, Refused)
}
"""What a child may answer instead of a result, by the names that it sends."""


class LibraryProcess:
    """The child: started by the first request, again after it died; it ends with this object or process."""

    def __init__(self, module: str, **environment: str) -> None:
        """Name the module that the child runs, and variables to add to our own."""
        self._child = ChildProcess(module, environment)
        self._requests = 0

    def call(self, request: dict[str, Any], patience_s: float, title: str) -> Any:
        """Send a request and wait for its result; `title` is what errors call the other side.

        Raises what a provider raises; Unreachable when no answer came in time, and then it is not known
        whether the request was carried out.
        """
        try:
            answer = self._exchange(request, time.monotonic() + patience_s)
        except (OSError, ValueError) as error:
            self._child.close()  # a late answer must not be taken for that of the next request
            raise Unreachable(f"{title} did not answer: {error}") from error
        if "refusal" in answer:
            raise REFUSALS[answer["refusal"]](str(answer["why"]))
        return answer["result"]

    def _exchange(self, request: dict[str, Any], give_up: float) -> dict[str, Any]:
        self._requests += 1
        self._child.send({**request, "id": self._requests})
        while (left_s := give_up - time.monotonic()) > 0.0:
            for answer in self._child.receive(left_s):
                if answer.get("id") == self._requests:
                    return answer
            # Without this a child that has died would be waited for until the whole patience is over.
            if self._child.closed_output:
                raise OSError("the process with the library has ended")
        raise TimeoutError("it took too long")


def serve(answer: Callable[[dict[str, Any]], Any]) -> None:
    """Answer requests in the child until its input ends; an error of a library counts as Unreachable."""
    parent = ParentProcess()
    for request in parent.requests():
        parent.send({"id": request["id"], **_result(answer, request)})


def _result(answer: Callable[[dict[str, Any]], Any], request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"result": answer(request)}
    except (NoCapacity, Spent, Unreachable, Refused) as error:
        return {"refusal": type(error).__name__, "why": str(error)}
    except Exception as error:
        # Not Refused: whether it was carried out is not known, and the same ticket may be requested again.
        return {"refusal": Unreachable.__name__, "why": f"{type(error).__name__}: {error}"}
