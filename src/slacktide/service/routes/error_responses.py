"""What went wrong, as an answer: the same keys everywhere, and nothing of the server in it."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from slacktide.core.errors import SlacktideError
from slacktide.service.access.gate import error_body
from slacktide.service.access.limits import TooMuchError
from slacktide.service.service import Service
from slacktide.service.tasks.task_worker import TaskError


def error_response(service: Service, error: Exception) -> Response:
    """Answer with what went wrong, without the paths of the server."""
    if isinstance(error, TaskError):
        kind, message = error.details["kind"], error.details["message"]
        exit_code, status = error.details["exit_code"], error.details["status"]
    elif isinstance(error, SlacktideError):
        kind, message = type(error).__name__, str(error)
        exit_code, status = error.exit_code, error.http_status
    else:
        kind, message, exit_code, status = "InternalError", "something went wrong here", 1, 500
        service.say(f"internal error: {type(error).__name__}")
    headers = {"retry-after": str(error.retry_after_s)} if isinstance(error, TooMuchError) else None
    return JSONResponse(error_body(kind, service.without_paths(message), exit_code), status, headers)
