"""Requests to the API of Amazon EC2, for prices and for machines: its clients, and what its errors mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

TRIES = 2
PASSING = {
    "RequestLimitExceeded", "Throttling", "ThrottlingException", "RequestThrottled",
    "TooManyRequestsException", "InternalError", "InternalFailure", "InternalServerError",
    "ServiceUnavailable", "Unavailable", "RequestTimeout", "PriorRequestNotComplete",
}  # fmt: skip
"""Codes of errors that mean: try again later."""


def ec2_client(region: str, endpoint: str, connect_s: float, read_s: float) -> Any:
    """Return a client for a region; an empty endpoint is Amazon's."""
    import boto3
    from botocore.config import Config

    retries = {"mode": "standard", "max_attempts": TRIES}
    config = Config(connect_timeout=connect_s, read_timeout=read_s, retries=retries)
    # A session of its own: the default one of boto3 is not thread-safe and never reloads credentials.
    return boto3.Session().client("ec2", region_name=region, endpoint_url=endpoint or None, config=config)


@contextmanager
def ec2_errors(
    place: str,
    refused: Callable[[str], Exception],
    unreachable: Callable[[str], Exception],
    special: Callable[[str, str], Exception | None] = lambda code, message: None,
    remedy: str = "",
) -> Iterator[None]:
    """Turn errors of a request to a place into the caller's: refused, or unreachable for now.

    `special` gets an error's code and message, and may return another exception; `remedy` ends a refusal.
    """
    try:
        import boto3  # noqa: F401
        from botocore import exceptions
    except ImportError as error:
        raise refused("AWS must be used with boto3, got none; install slacktide[aws]") from error
    try:
        yield
    except exceptions.ClientError as error:
        response = error.response
        code = str(response.get("Error", {}).get("Code", ""))
        message = f"{code}: {response.get('Error', {}).get('Message', '')}".strip(": ")
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        answer = f"{place} must answer, got {message}"
        passing = code in PASSING or status >= 500 or status == 429
        raise special(code, message) or (
            unreachable(answer) if passing else refused(f"{answer}{remedy}")
        ) from error
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
        raise refused(
            f"AWS credentials must be given, got none ({error}); set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or run `aws configure`"
        ) from error
    except (
        exceptions.ParamValidationError, exceptions.InvalidRegionError, exceptions.ProfileNotFound,
    ) as error:  # fmt: skip
        raise refused(f"{place} must be able to answer, got: {error}") from error
    except (exceptions.BotoCoreError, exceptions.HTTPClientError) as error:
        raise unreachable(f"{place} must answer, got: {error}") from error
