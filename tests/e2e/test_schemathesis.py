"""The API under schemathesis, by its own description: thousands of odd requests to a real server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .parts_of_servers import JOB, Server

CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance", "negative_data_rejection", "unsupported_method",
    "allow_header_conformance",
)  # fmt: skip
SESSION = "/api/v1/session"
EXAMPLES = os.environ.get("SLACKTIDE_SCHEMATHESIS", "40" if os.environ.get("SLACKTIDE_THOROUGH") else "2")
"""Requests of chance for each address, after those that cover every rule of the description."""

pytestmark = pytest.mark.skipif(find_spec("schemathesis") is None, reason="schemathesis is not installed")


def test_odd_requests_are_answered_as_described(server: Server, tmp_path: Path) -> None:
    body = {"text": JOB.format(name="there")}
    assert server.ask("POST", "/api/v1/jobs", body, idempotency_key="there")[0] == 201
    assert ask_oddly(server, tmp_path, "--exclude-path", SESSION) > 500, "it asked hardly anything"
    assert server.ask("GET", "/api/v1/jobs/there")[0] == 200
    # Last, because who sends too many wrong tokens is not heard any more, whatever is asked.
    assert ask_oddly(server, tmp_path, "--include-path", SESSION) > 10
    assert server.ask("GET", "/healthz")[0] in (200, 429)
    assert "internal error" not in server.said


def ask_oddly(server: Server, folder: Path, *which: str) -> int:
    """Let schemathesis ask; return how often it did. What it finds is shown."""
    command = [
        sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run",
        f"{server.url}/api/v1/openapi.json", "-H", f"Authorization: Bearer {server.token}",
        "--phases", "coverage,fuzzing", "-n", EXAMPLES, "--seed", "1", "--generation-database", "none",
        "--checks", ",".join(CHECKS), "--request-timeout", "120", "--continue-on-failure", "--no-color",
        *which,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    told = re.search(r"(\d+) generated", done.stdout)
    assert told, done.stdout
    return int(told[1])
